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
// directly if that is possible, and otherwise through the API server, as kubectl
// port-forward does.
type Dialer struct {
	// Live reads Pods.
	Live client.Reader
	// Config is the way to the API server.
	Config *rest.Config

	direct func(ctx context.Context, network, address string) (net.Conn, error)                              // nil is that of package net
	open   func(ctx context.Context, config *rest.Config, namespace, pod string, port int) (net.Conn, error) // nil is OpenPod
}

// DialContext connects to an address. The error is that of the direct connection if the
// address is not that of a Pod.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	direct, open := d.direct, d.open
	if direct == nil {
		direct = (&net.Dialer{Timeout: directLimit}).DialContext
	}
	if open == nil {
		open = podforward.OpenPod
	}
	conn, err := direct(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	host, port, splitErr := net.SplitHostPort(address)
	number, atoiErr := strconv.Atoi(port)
	if splitErr != nil || atoiErr != nil || net.ParseIP(host) == nil {
		return nil, err
	}
	var pods corev1.PodList
	if listErr := d.Live.List(ctx, &pods, client.MatchingFields{"status.podIP": host}); listErr != nil {
		return nil, fmt.Errorf("%w; and find the Pod with this address: %w", err, listErr)
	}
	for _, pod := range pods.Items {
		if pod.Spec.HostNetwork || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		conn, forwardErr := open(ctx, d.Config, pod.Namespace, pod.Name, number)
		if forwardErr != nil {
			return nil, errors.Join(err, fmt.Errorf("and through the API server to Pod %s/%s: %w", pod.Namespace, pod.Name, forwardErr))
		}
		return conn, nil
	}
	return nil, err
}
