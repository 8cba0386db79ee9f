// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader is a client that answers from the views if possible, and sends all other
// requests.
type reader struct {
	client.Client
	answers *budget
	nodes   *view[*corev1.Node]
	pods    *view[*corev1.Pod]
}

// Get implements client.Reader. An object that a view does not have is read from
// the server: it may have just been created.
func (r *reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if len(opts) == 0 {
		switch out := obj.(type) {
		case *corev1.Node:
			if node, ok := r.nodes.get(client.ObjectKey{Name: key.Name}); ok {
				node.DeepCopyInto(out)
				return nil
			}
		case *corev1.Pod:
			if pod, ok := r.pods.get(key); ok {
				pod.DeepCopyInto(out)
				return nil
			}
		}
	}
	return r.answers.holding(ctx, func(ctx context.Context) error { return r.Client.Get(ctx, key, obj, opts...) })
}

// List implements client.Reader.
func (r *reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	switch out := list.(type) {
	case *corev1.NodeList:
		if providerID, ok := nodesFromView(o); ok {
			out.Items = copies(r.nodes.all(providerID), o.LabelSelector)
			return nil
		}
	case *corev1.PodList:
		if podsFromView(o) {
			out.Items = copies(r.pods.all(nil), o.LabelSelector)
			return nil
		}
	}
	return r.answers.holding(ctx, func(ctx context.Context) error {
		if err := r.Client.List(ctx, list, opts...); err != nil {
			return err
		}
		return meta.EachListItem(list, named)
	})
}

// nodesFromView reports whether the view can answer, and for which providerID.
func nodesFromView(o client.ListOptions) (providerID *string, ok bool) {
	if o.Limit != 0 || o.Continue != "" || o.Raw != nil {
		return nil, false
	}
	if o.FieldSelector == nil || o.FieldSelector.Empty() {
		return nil, true
	}
	value, ok := o.FieldSelector.RequiresExactMatch(NodeByProviderID)
	if !ok || len(o.FieldSelector.Requirements()) != 1 {
		return nil, false
	}
	return &value, true
}

// podsFromView reports whether all requested Pods are control plane Pods.
func podsFromView(o client.ListOptions) bool {
	if o.Limit != 0 || o.Continue != "" || o.Raw != nil || o.Namespace != controlPlaneNamespace || o.LabelSelector == nil {
		return false
	}
	if o.FieldSelector != nil && !o.FieldSelector.Empty() {
		return false
	}
	tier, ok := o.LabelSelector.RequiresExactMatch("tier")
	return ok && tier == "control-plane"
}

func copies[T any, P interface {
	*T
	client.Object
	DeepCopyInto(*T)
}](from []P, selector labels.Selector) []T {
	out := make([]T, 0, len(from))
	for _, obj := range from {
		if selector != nil && !selector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		var zero T
		out = append(out, zero)
		obj.DeepCopyInto(&out[len(out)-1])
	}
	return out
}
