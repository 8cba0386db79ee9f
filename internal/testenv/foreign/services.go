// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// endpoints is the annotation of a Service that leads its port NAME to processes of
// this host, as NAME=HOST:PORT,HOST:PORT;… An EndpointSlice must not name addresses
// of the loopback interface, and no other host is there.
const endpoints = "capstan.dev/test-endpoints"

// services leads connections to Services on, as the network of a cluster does.
type services struct {
	config atomic.Pointer[rest.Config] // nil until the API server runs
}

// dial connects to the first endpoint that takes the connection, and to what is the
// address of no Service as the host does.
func (s *services) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config := s.config.Load()
	if config == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all, err := set.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the Service of %s: %w", address, err)
	}
	to, ok := behind(all.Items, address)
	if !ok {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	refused := []error{fmt.Errorf("connect to the Service at %s: no endpoint", address)}
	for _, endpoint := range to {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, endpoint)
		if err == nil {
			return conn, nil
		}
		refused = append(refused, err)
	}
	return nil, errors.Join(refused...)
}

// behind are the endpoints of a Service's address and port; false if no Service has
// them.
func behind(all []corev1.Service, address string) ([]string, bool) {
	for _, service := range all {
		for _, port := range service.Spec.Ports {
			if net.JoinHostPort(service.Spec.ClusterIP, fmt.Sprint(port.Port)) != address {
				continue
			}
			for part := range strings.SplitSeq(service.Annotations[endpoints], ";") {
				if name, to, _ := strings.Cut(part, "="); name == port.Name && to != "" {
					return strings.Split(to, ","), true
				}
			}
			return nil, true
		}
	}
	return nil, false
}
