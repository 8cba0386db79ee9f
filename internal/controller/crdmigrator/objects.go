// SPDX-License-Identifier: Apache-2.0

package crdmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects are in memory, and how many are written in a
// reconcile, which has a minute for it.
const pageSize = 100

// pages is how far the list of objects has been gone through.
type pages struct {
	next   string             // where it goes on
	listed bool               // it has come to its end
	failed []client.ObjectKey // those that could not be written yet

	stored, cleaned int // how many were
}

func (p *pages) done() bool { return p.listed && len(p.failed) == 0 }

// migration is what is done to each object of a kind.
type migration struct {
	mgmt client.Client
	live client.Reader

	kind   schema.GroupVersionKind // in the storage version
	served []string                // apiVersions
	status bool                    // it has a status of its own
	store  bool                    // have each written
	clean  bool                    // look at managedFields
}

// step goes through one page of objects. When there are no more, it comes back to
// those that could not be written.
func (m migration) step(ctx context.Context, p *pages) error {
	if p.listed {
		return m.again(ctx, p)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(m.kind.GroupVersion().WithKind(m.kind.Kind + "List"))
	if err := m.live.List(ctx, list, client.Limit(pageSize), client.Continue(p.next)); err != nil {
		if !apierrors.IsResourceExpired(err) {
			return fmt.Errorf("list %s: %w", m.kind.Kind, err)
		}
		// It has taken longer than etcd remembers. The answer says how to go on with
		// what there is by now: who came meanwhile is stored as he should be.
		var status apierrors.APIStatus
		errors.As(err, &status)
		p.next = status.Status().ListMeta.Continue
		return nil
	}
	var (
		failed []client.ObjectKey
		last   error
	)
	for i := range list.Items {
		if err := m.object(ctx, &list.Items[i], p); err != nil {
			failed, last = append(failed, client.ObjectKeyFromObject(&list.Items[i])), err
			ctrl.LoggerFrom(ctx).V(2).Info("Leaving an object for later", "object", failed[len(failed)-1], "reason", err.Error())
		}
	}
	if list.Continue != "" && len(failed) == len(list.Items) {
		return last // it is not the objects: nothing can be written just now
	}
	p.next, p.listed = list.Continue, list.Continue == ""
	p.failed = append(p.failed, failed...)
	return nil
}

// again tries some of those that could not be written. What still cannot is an
// error, so that it is tried more and more rarely.
func (m migration) again(ctx context.Context, p *pages) error {
	n := min(len(p.failed), pageSize)
	var (
		failed []client.ObjectKey
		last   error
	)
	for _, key := range p.failed[:n] {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(m.kind)
		err := m.live.Get(ctx, key, obj)
		if err == nil {
			err = m.object(ctx, obj, p)
		}
		if client.IgnoreNotFound(err) != nil {
			failed, last = append(failed, key), err
		}
	}
	p.failed = append(p.failed[n:], failed...)
	if last != nil {
		return fmt.Errorf("%d objects are left, among them %s: %w", len(p.failed), p.failed[len(p.failed)-1], last)
	}
	return nil
}

// object does what is to be done for one object, in one request at most: who
// changes its managedFields has it stored as well.
func (m migration) object(ctx context.Context, obj *metav1.PartialObjectMetadata, p *pages) error {
	obj.SetGroupVersionKind(m.kind)
	if m.clean {
		entries, changed, err := withoutUnserved(obj.ManagedFields, m.served, m.kind.GroupVersion().String())
		if err != nil {
			return fmt.Errorf("read managedFields of %s %s: %w", m.kind.Kind, client.ObjectKeyFromObject(obj), err)
		}
		if changed {
			return m.rewrite(ctx, obj, entries, p)
		}
	}
	if !m.store {
		return nil
	}
	empty, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": obj.ResourceVersion}})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, empty)
	if m.status { // which fewer webhooks look at
		err = m.mgmt.SubResource("status").Patch(ctx, obj, patch)
	} else {
		err = m.mgmt.Patch(ctx, obj, patch)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it has gone, or somebody else has just had it stored
	case err != nil:
		return fmt.Errorf("store %s %s anew: %w", m.kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	p.stored++
	objects.WithLabelValues(m.kind.Group, m.kind.Kind, string(StorageVersionMigration)).Inc()
	return nil
}

// rewrite replaces the managedFields of an object that is still as it was.
func (m migration) rewrite(ctx context.Context, obj *metav1.PartialObjectMetadata, entries []metav1.ManagedFieldsEntry, p *pages) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": obj.ResourceVersion},
	})
	if err != nil {
		return err
	}
	err = m.mgmt.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, body))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write managedFields of %s %s: %w", m.kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	p.cleaned++
	if m.store {
		p.stored++
	}
	objects.WithLabelValues(m.kind.Group, m.kind.Kind, string(CleanupManagedFields)).Inc()
	return nil
}
