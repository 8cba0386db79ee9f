// SPDX-License-Identifier: Apache-2.0

package clusterctl

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// NoClusterError means that the Cluster is not found.
type NoClusterError struct {
	Key   client.ObjectKey
	flags string
}

func (e *NoClusterError) Error() string {
	return fmt.Sprintf("there is no Cluster %s in namespace %s: `capstan get clusters -A%s` lists those there are", e.Key.Name, e.Key.Namespace, e.flags)
}

// DeleteCluster requests the deletion of a Cluster; its controllers delete workers,
// control plane and infrastructure in that order. WaitDeleted follows it.
func (c *Client) DeleteCluster(ctx context.Context, key client.ObjectKey) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := references.Explain(c.mgmt.Delete(ctx, cluster), clusterv1.ClusterKind)
	if apierrors.IsNotFound(err) {
		return &NoClusterError{Key: key, flags: c.Flags}
	}
	if err != nil {
		return fmt.Errorf("delete Cluster %s: %w", key, err)
	}
	return nil
}

// WaitDeleted follows a Cluster until it and the objects that it owned are deleted, so
// that its name is free again, and reports what is awaited when that changes: a small
// cluster may be deleted before anything is awaited. It ends with the context; the error
// then names what is still awaited.
func (c *Client) WaitDeleted(ctx context.Context, key client.ObjectKey, progress func(Event)) error {
	progress(Event{fmt.Sprintf("Deleting Cluster %s", key)})
	last := ""
	cluster, err := c.follow(ctx, key, func(cluster *clusterv1.Cluster) bool {
		if text := conditions.Message(cluster, clusterv1.DeletingCondition); text != last && text != "" {
			last = text
			progress(Event{text})
		}
		return false
	})
	if err != nil {
		return err
	}
	if cluster == nil {
		return c.waitCollected(ctx, key)
	}
	if last == "" || pause.Requested(cluster, cluster) {
		last = awaited(cluster)
	}
	return fmt.Errorf("Cluster %s is still being deleted, waiting for:\n%s", key, last)
}

// waitCollected returns when the garbage collector has deleted what a deleted Cluster
// owned: mostly its templates. A creation with the same name would otherwise adopt them
// and lose them. Kinds that the user may not list are not awaited.
func (c *Client) waitCollected(ctx context.Context, key client.ObjectKey) error {
	objects, err := c.labelled(ctx, key)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	owned := slices.DeleteFunc(objects, func(obj metav1.PartialObjectMetadata) bool {
		return !slices.ContainsFunc(obj.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind == clusterv1.ClusterKind && o.Name == key.Name && strings.HasPrefix(o.APIVersion, clusterv1.GroupVersion().Group+"/")
		})
	})
	return c.WaitRemains(ctx, owned)
}

// DeleteRemains deletes the objects with the label of a Cluster that does not exist, for
// example after only part of a template was applied. Objects with an owner are deleted
// with it. Secrets stay, since users create some before the cluster. It returns the
// objects for WaitRemains.
func (c *Client) DeleteRemains(ctx context.Context, key client.ObjectKey, progress func(Event)) ([]metav1.PartialObjectMetadata, error) {
	objects, err := c.labelled(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("look for what is left of Cluster %s: %w", key, err)
	}
	remains := slices.DeleteFunc(objects, func(obj metav1.PartialObjectMetadata) bool { return len(obj.OwnerReferences) > 0 })
	for i := range remains {
		obj := &remains[i]
		if err := c.mgmt.Delete(ctx, obj, client.Preconditions{UID: &obj.UID}); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete %s %s: %w", obj.Kind, client.ObjectKeyFromObject(obj), err)
		}
		progress(Event{fmt.Sprintf("Deleting %s %s", obj.Kind, client.ObjectKeyFromObject(obj))})
	}
	return remains, nil
}

// labelled returns the objects of the core and of all providers with the label of a
// Cluster.
func (c *Client) labelled(ctx context.Context, key client.ObjectKey) ([]metav1.PartialObjectMetadata, error) {
	kinds, err := c.providerKinds(ctx)
	if err != nil {
		return nil, err
	}
	var objects []metav1.PartialObjectMetadata
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.list(ctx, key, list)
		if apierrors.IsNotFound(err) {
			continue // its definition has been deleted since
		}
		if err != nil {
			return nil, err
		}
		for _, obj := range list.Items {
			obj.SetGroupVersionKind(kind)
			objects = append(objects, obj)
		}
	}
	return objects, nil
}

// WaitRemains returns when none of the objects exists any longer. It ends with the
// context; the error then lists those that exist.
func (c *Client) WaitRemains(ctx context.Context, remains []metav1.PartialObjectMetadata) error {
	for {
		var left []string
		for i := range remains {
			obj := remains[i].DeepCopy()
			err := c.mgmt.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			switch {
			case apierrors.IsNotFound(err), err == nil && obj.UID != remains[i].UID:
			case err == nil, ctx.Err() != nil:
				left = append(left, fmt.Sprintf("* %s %s", remains[i].Kind, client.ObjectKeyFromObject(obj)))
			default:
				return fmt.Errorf("get %s %s: %w", obj.Kind, client.ObjectKeyFromObject(obj), err)
			}
		}
		if len(left) == 0 {
			return nil
		}
		// They are few, of several kinds, and deleted in a moment: reading them again
		// costs less than a watch of each kind.
		if lifecycle.Sleep(ctx, 200*time.Millisecond) != nil {
			return errors.New("these are still being deleted:\n" + strings.Join(left, "\n"))
		}
	}
}

// providerKinds returns the namespaced kinds of the core and of all providers.
func (c *Client) providerKinds(ctx context.Context) ([]schema.GroupVersionKind, error) {
	definitions := &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	if err := c.mgmt.List(ctx, definitions, client.HasLabels{clusterv1.ProviderNameLabel}); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var kinds []schema.GroupVersionKind
	for _, crd := range definitions.Items {
		plural, group, _ := strings.Cut(crd.Name, ".")
		kind, err := c.mgmt.RESTMapper().KindFor(schema.GroupVersionResource{Group: group, Resource: plural})
		if meta.IsNoMatchError(err) {
			continue // none of its versions is served
		}
		if err != nil {
			return nil, fmt.Errorf("find the kind of %s: %w", crd.Name, err)
		}
		mapping, err := c.mgmt.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, fmt.Errorf("find the kind of %s: %w", crd.Name, err)
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}
