// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/podforward"
)

// directLimit is how long a connection without the API server may take: a host outside
// of the network of Pods often gets no answer at all.
const directLimit = 2 * time.Second

// Dialer connects to addresses of Pods from a host that may be outside of their network:
// through the API server, as kubectl port-forward does, and directly if that is refused.
// It does not try directly first: outside of the network, the address of a Pod may be that
// of another host.
type Dialer struct {
	// Live reads Pods.
	Live client.Reader
	// Config is the way to the API server.
	Config *rest.Config

	direct func(ctx context.Context, network, address string) (net.Conn, error)                              // nil is that of package net
	open   func(ctx context.Context, config *rest.Config, namespace, pod string, port int) (net.Conn, error) // nil is OpenPod
}

// DialContext connects to an address.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	direct := d.direct
	if direct == nil {
		direct = (&net.Dialer{Timeout: directLimit}).DialContext
	}
	conn, forwardErr := d.forward(ctx, address)
	if conn != nil {
		return conn, nil
	}
	conn, err := direct(ctx, network, address)
	if err != nil {
		return nil, errors.Join(err, forwardErr)
	}
	return conn, nil
}

// forward connects to an address through the API server. It returns nothing if the
// address is not that of a Pod.
func (d *Dialer) forward(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	number, atoiErr := strconv.Atoi(port)
	if err != nil || atoiErr != nil || net.ParseIP(host) == nil {
		return nil, nil
	}
	open := d.open
	if open == nil {
		open = podforward.OpenPod
	}
	var pods corev1.PodList
	if err := d.Live.List(ctx, &pods, client.MatchingFields{"status.podIP": host}); err != nil {
		return nil, fmt.Errorf("and find the Pod with this address: %w", err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.HostNetwork || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		conn, err := open(ctx, d.Config, pod.Namespace, pod.Name, number)
		if err != nil {
			return nil, fmt.Errorf("and through the API server to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return conn, nil
	}
	return nil, nil
}
