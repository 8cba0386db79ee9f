// SPDX-License-Identifier: Apache-2.0

// Package services finds the address of a Service in a management cluster that has
// neither cluster DNS nor kube-proxy: from the Service and its EndpointSlices,
// which it reads each time.
package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resolver finds addresses of Services.
type Resolver struct {
	// Live reads Services and EndpointSlices.
	Live client.Reader
	// Choose returns a number below n: which of n ready endpoints is used.
	Choose func(n int) int
}

// Resolve returns host:port of a ready endpoint of a Service's port, or the
// external name of the Service with that port. The error has the reason, without
// the Service's name.
func (r *Resolver) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	service := &corev1.Service{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service)
	if apierrors.IsNotFound(err) {
		return "", errors.New("it does not exist")
	}
	if err != nil {
		return "", fmt.Errorf("read it: %w", err)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return join(service.Spec.ExternalName, port), nil
	}
	of := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP)
	})
	if of < 0 {
		return "", fmt.Errorf("it has no port %d: %s", port, offered(service.Spec.Ports))
	}
	slices := &discoveryv1.EndpointSliceList{}
	if err := r.Live.List(ctx, slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
		return "", fmt.Errorf("list its EndpointSlices: %w", err)
	}
	ready, err := addresses(slices.Items, service.Spec.Ports[of])
	if err != nil {
		return "", fmt.Errorf("it has no ready endpoint: %w", err)
	}
	return ready[r.Choose(len(ready))], nil
}

// addresses lists, sorted, the addresses that serve a port of a Service, at least
// one.
func addresses(all []discoveryv1.EndpointSlice, port corev1.ServicePort) ([]string, error) {
	if len(all) == 0 {
		return nil, errors.New("no EndpointSlice has its name in the label " + discoveryv1.LabelServiceName)
	}
	var ready []string
	endpoints, served := 0, 0
	for _, s := range all {
		number := number(s, port)
		for _, e := range s.Endpoints {
			endpoints++
			if number == 0 {
				continue
			}
			served++
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				ready = append(ready, join(e.Addresses[0], number)) // further addresses are of the same endpoint
			}
		}
	}
	switch {
	case len(ready) > 0:
		slices.Sort(ready)
		return slices.Compact(ready), nil
	case endpoints == 0:
		return nil, fmt.Errorf("EndpointSlice %s is empty", names(all))
	case served == 0:
		return nil, fmt.Errorf("no port of EndpointSlice %s is its port %s", names(all), describe(port))
	}
	return nil, fmt.Errorf("%d there, none of which is ready, in EndpointSlice %s", served, names(all))
}

// number returns the port of a slice's endpoints for a Service's port, 0 if there
// is none. Both ports have the same name. Slices that users write often lack it;
// then the port number in the Service decides.
func number(s discoveryv1.EndpointSlice, port corev1.ServicePort) int32 {
	target := port.TargetPort.IntVal
	if port.TargetPort == (intstr.IntOrString{}) {
		target = port.Port // as the API server defaults it
	}
	byNumber := int32(0)
	for _, p := range s.Ports {
		if p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		named := p.Name != nil && *p.Name == port.Name || p.Name == nil && port.Name == ""
		switch {
		case named && p.Port == nil: // every port
			return target
		case named:
			return *p.Port
		case (p.Name == nil || *p.Name == "") && p.Port != nil && *p.Port == target:
			byNumber = *p.Port
		}
	}
	return byNumber
}

func join(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func offered(ports []corev1.ServicePort) string {
	var all []string
	for _, p := range ports {
		all = append(all, describe(p))
	}
	return "it has " + cmp.Or(strings.Join(all, ", "), "none")
}

func describe(p corev1.ServicePort) string {
	text := strconv.Itoa(int(p.Port))
	if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
		text += "/" + string(p.Protocol)
	}
	if p.Name != "" {
		text += " (" + p.Name + ")"
	}
	return text
}

func names(all []discoveryv1.EndpointSlice) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
