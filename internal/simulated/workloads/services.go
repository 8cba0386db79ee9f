// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

var (
	endpoints      = schema.GroupResource{Resource: "endpoints"}
	endpointSlices = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
)

// picks selects the Pods of a Service or a budget.
type picks struct {
	namespace string
	labels    labels.Selector
}

// apiServers are what the Service of the API servers picks, which has no selector
// that could define it.
var apiServers = picks{metav1.NamespaceSystem, labels.SelectorFromSet(labels.Set{"component": "kube-apiserver", "tier": "control-plane"})}

// picksOf is what a Service selects; nil if others manage its endpoints.
func picksOf(s *corev1.Service) *picks {
	switch {
	case s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes":
		return &apiServers
	case len(s.Spec.Selector) == 0, s.Spec.Type == corev1.ServiceTypeExternalName:
		return nil
	}
	return &picks{s.Namespace, labels.SelectorFromSet(s.Spec.Selector)}
}

// picked are the Pods that a Service or a budget picks.
func (c *Controllers) picked(by picks) []podplan.Pod {
	return c.pods(maps.Keys(c.view.pods), func(p podplan.Pod) bool {
		return p.Namespace == by.namespace && by.labels.Matches(labels.Set(p.Labels))
	})
}

// service keeps the endpoints of a Service.
func (c *Controllers) service(key store.Key) (time.Time, error) {
	s := read[corev1.Service](c, key)
	if s == nil {
		delete(c.view.picks, key)
		return time.Time{}, c.dropEndpoints(key)
	}
	by := picksOf(s)
	if by == nil {
		delete(c.view.picks, key)
		return time.Time{}, nil
	}
	c.view.picks[key] = *by
	b := podplan.Backends{
		Service: s, Pods: c.picked(*by),
		Zone: func(node string) string { return c.view.nodes[node].Labels[corev1.LabelTopologyZone] },
	}
	b.Port = func(name string, protocol corev1.Protocol) (int32, bool) { return c.namedPort(b.Pods, name, protocol) }
	want := b.Slices()
	names := map[string]bool{}
	for _, slice := range want {
		names[slice.Name] = true
		have := read[discoveryv1.EndpointSlice](c, store.Key{Resource: endpointSlices, Namespace: slice.Namespace, Name: slice.Name})
		if have != nil && equality.Semantic.DeepEqual(have.Endpoints, slice.Endpoints) && equality.Semantic.DeepEqual(have.Ports, slice.Ports) && equality.Semantic.DeepEqual(have.Labels, slice.Labels) {
			continue
		}
		if err := c.store.Ensure(slice); err != nil {
			return time.Time{}, err
		}
	}
	for _, slice := range list[discoveryv1.EndpointSlice](c, endpointSlices, s.Namespace, func(e *store.Entry) bool { return slices.Contains(e.Owners, s.UID) }) {
		if !names[slice.Name] {
			if err := c.store.Remove(discoveryv1.SchemeGroupVersion.WithResource(endpointSlices.Resource), slice.Namespace, slice.Name); err != nil {
				return time.Time{}, err
			}
		}
	}
	return time.Time{}, c.keepEndpoints(b.Endpoints())
}

func (c *Controllers) keepEndpoints(want *corev1.Endpoints) error {
	have := read[corev1.Endpoints](c, store.Key{Resource: endpoints, Namespace: want.Namespace, Name: want.Name})
	if have != nil && equality.Semantic.DeepEqual(have.Subsets, want.Subsets) && equality.Semantic.DeepEqual(have.Labels, want.Labels) {
		return nil
	}
	return c.store.Ensure(want)
}

func (c *Controllers) dropEndpoints(key store.Key) error {
	have := read[corev1.Endpoints](c, store.Key{Resource: endpoints, Namespace: key.Namespace, Name: key.Name})
	if have == nil || have.Labels[podplan.EndpointsManagedBy] == "" {
		return nil
	}
	return c.store.Remove(corev1.SchemeGroupVersion.WithResource(endpoints.Resource), key.Namespace, key.Name)
}

// namedPort is that of the first Pod that has one of the name.
func (c *Controllers) namedPort(pods []podplan.Pod, name string, protocol corev1.Protocol) (int32, bool) {
	for _, p := range pods {
		obj := read[corev1.Pod](c, podKey(p.Namespace, p.Name))
		if obj == nil {
			continue
		}
		for _, container := range obj.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name == name && (port.Protocol == protocol || port.Protocol == "" && protocol == corev1.ProtocolTCP) {
					return port.ContainerPort, true
				}
			}
		}
	}
	return 0, false
}
