// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

const (
	// admission is the group of webhook configurations.
	admission = "admissionregistration.k8s.io"
	// goneTimeout is how long deletions may take: objects of a provider have no
	// finalizers, unless a user has set them.
	goneTimeout = 2 * time.Minute
)

// Installed is what the cluster has of one instance of a provider.
type Installed struct {
	// Objects belong to it; they are deleted with it. Namespace and Definitions are
	// deleted only on request.
	Objects, Namespace, Definitions []*unstructured.Unstructured
	// Shared are objects without a namespace that are not named after the instance: other
	// instances may rely on them, so they stay.
	Shared []*unstructured.Unstructured
}

// derived are kinds whose objects controllers create from others, with the labels of
// those. They are deleted with them, and Find does not list them.
var derived = []schema.GroupKind{{Kind: "Endpoints"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"}, {Kind: "Event"}, {Group: "events.k8s.io", Kind: "Event"}, {Kind: "Pod"}, {Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "ControllerRevision"}}

// Find lists all objects with labels in a namespace, or without one. The inventory is not
// among them.
func (c *Cluster) Find(ctx context.Context, labels map[string]string, namespace string) (found Installed, err error) {
	objects, err := c.Labelled(ctx, labels, namespace)
	for _, obj := range objects {
		found.add(obj, namespace)
	}
	return found, err
}

// Labelled returns all objects with labels in a namespace, or in any if it is empty, and
// those without a namespace.
func (c *Cluster) Labelled(ctx context.Context, labels map[string]string, namespace string) (objects []*unstructured.Unstructured, err error) {
	kinds, err := c.listable()
	if err != nil {
		return nil, err
	}
	lists, errs := make([]*unstructured.UnstructuredList, len(kinds)), make([]error, len(kinds))
	each(len(kinds), func(i int) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kinds[i].kind)
		opts := []client.ListOption{client.MatchingLabels(labels)}
		if kinds[i].namespaced {
			opts = append(opts, client.InNamespace(namespace))
		}
		// A kind may be deleted between the two requests.
		if err := c.mgmt.List(ctx, list, opts...); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) && !meta.IsNoMatchError(err) {
			errs[i] = fmt.Errorf("list %s: %w", kinds[i].kind.Kind, err)
		}
		lists[i] = list
	})
	for _, list := range lists {
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	return objects, errors.Join(errs...)
}

func (found *Installed) add(obj *unstructured.Unstructured, namespace string) {
	kind := obj.GroupVersionKind()
	switch {
	case kind.Group == clusterctlv1.GroupVersion().Group:
	case is(obj, namespaceKind()):
		if obj.GetName() == namespace {
			found.Namespace = append(found.Namespace, obj)
		}
	case IsDefinition(obj):
		found.Definitions = append(found.Definitions, obj)
	case obj.GetNamespace() == "" && !strings.HasPrefix(obj.GetName(), namespace+"-") && kind.Group != admission:
		found.Shared = append(found.Shared, obj)
	default:
		found.Objects = append(found.Objects, obj)
	}
}

type listed struct {
	kind       schema.GroupVersionKind
	namespaced bool
}

// listable returns all kinds whose objects can be listed and deleted, each once.
func (c *Cluster) listable() (kinds []listed, err error) {
	lists, err := c.kinds.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // an aggregated API that is not available has no objects of a provider
		return nil, fmt.Errorf("list the kinds of the management cluster: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(derived, gv.WithKind(r.Kind).GroupKind()) {
				continue
			}
			if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				kinds = append(kinds, listed{gv.WithKind(r.Kind), r.Namespaced})
			}
		}
	}
	return kinds, nil
}

// Ask requests the deletion of objects. It continues after an object that cannot be
// deleted. An object that does not exist is no error.
func (c *Cluster) Ask(ctx context.Context, objects []*unstructured.Unstructured) error {
	var errs []error
	for _, obj := range objects {
		err := c.patiently(ctx, func() error {
			return c.mgmt.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))
		})
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			errs = append(errs, fmt.Errorf("delete %s: %w", Name(obj), err))
		}
	}
	return errors.Join(errs...)
}

// Delete deletes objects and returns when they no longer exist. It deletes webhooks
// first: after the others are deleted, no server may be left to answer them.
func (c *Cluster) Delete(ctx context.Context, objects []*unstructured.Unstructured) error {
	webhook := func(obj *unstructured.Unstructured) int {
		if obj.GroupVersionKind().Group == admission {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int { return webhook(a) - webhook(b) })
	if err := c.Ask(ctx, sorted); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, goneTimeout, fmt.Errorf("not gone after %s", goneTimeout))
	defer cancel()
	return c.waitGone(limited, sorted)
}

// waitGone returns when none of the objects exists any longer.
func (c *Cluster) waitGone(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		for {
			live := obj.DeepCopy()
			err := c.mgmt.Get(ctx, client.ObjectKeyFromObject(obj), live)
			if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && live.GetUID() != obj.GetUID() {
				break
			}
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("get %s: %w", Name(obj), err)
			}
			if lifecycle.Sleep(ctx, lookPeriod) != nil {
				text := fmt.Sprintf("%s is still being deleted", Name(obj))
				if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
					text += ": finalizers " + strings.Join(finalizers, ", ") + " hold it"
				}
				return errors.Join(context.Cause(ctx), errors.New(text))
			}
		}
	}
	return nil
}

// Objects returns the names of the existing objects of the kinds that definitions define,
// for people.
func (c *Cluster) Objects(ctx context.Context, definitions []*unstructured.Unstructured) (names []string, err error) {
	for _, crd := range definitions {
		group, _, _ := contract.At[string]("spec.group").Get(crd)
		kind, _, _ := contract.At[string]("spec.names.kind").Get(crd)
		m, err := c.mgmt.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		if meta.IsNoMatchError(err) {
			continue // none of its versions is served
		}
		if err != nil {
			return nil, fmt.Errorf("find the kind of %s: %w", Name(crd), err)
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(m.GroupVersionKind.GroupVersion().WithKind(kind + "List"))
		if err := c.mgmt.List(ctx, list); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("list %s: %w", crd.GetName(), err)
		}
		for _, obj := range list.Items {
			names = append(names, kind+" "+strings.TrimPrefix(obj.Namespace+"/"+obj.Name, "/"))
		}
	}
	return names, nil
}
