// SPDX-License-Identifier: Apache-2.0

// Package migration stores the objects of a definition at its storage version, and
// removes versions that are not served from their managedFields.
//
// It reads one page of objects at a time, only their metadata and without a cache.
// An object that cannot be written does not block others; an object that is
// deleted, or that another client writes meanwhile, is done. Restarting writes
// objects again, which changes nothing.
//
// Run migrates a definition completely, so that other versions at which objects were
// stored before can be dropped.
package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// PageSize is the number of objects in memory, and of those written in a Step: a
// reconcile has a minute for it.
const PageSize = 100

// Pages is the progress through the list of objects.
type Pages struct {
	next   string             // the continue token
	listed bool               // the list is complete
	failed []client.ObjectKey // objects that could not be written yet

	Stored, Cleaned int // numbers of objects
}

// Done reports whether all objects have been processed.
func (p *Pages) Done() bool { return p.listed && len(p.failed) == 0 }

// Migration is the work to do for each object of a kind. Of creates it; the caller
// sets the fields that Of leaves empty.
type Migration struct {
	Mgmt client.Client
	Live client.Reader // bypasses the cache

	Kind   schema.GroupVersionKind // in the storage version
	Served []string                // apiVersions
	Status bool                    // it has a status subresource
	Store  bool                    // whether to write each object
	Clean  bool                    // whether to clean managedFields
}

// Of returns what to do so that the objects of a definition are stored at its
// storage version. ok is false if its kind is not served at that version.
func Of(crd *apiextensionsv1.CustomResourceDefinition) (m Migration, ok bool) {
	for _, v := range crd.Spec.Versions {
		if v.Served {
			m.Served = append(m.Served, crd.Spec.Group+"/"+v.Name)
		}
		if v.Storage {
			m.Kind = schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			m.Status = v.Subresources != nil && v.Subresources.Status != nil
			m.Store = !slices.Equal(crd.Status.StoredVersions, []string{v.Name})
		}
	}
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	return m, established && slices.Contains(m.Served, m.Kind.GroupVersion().String())
}

// Note records in a definition, as it was when its migration started, that nothing
// is stored at another version. A definition that changed since then gives a
// conflict: it may have another storage version.
func (m Migration) Note(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	commit := patch.Snapshot(m.Mgmt, crd, patch.Locked)
	crd.Status.StoredVersions = []string{m.Kind.Version}
	return commit(ctx)
}

// Step processes one page of objects. After the last page it retries those that
// could not be written.
func (m Migration) Step(ctx context.Context, p *Pages) error {
	if p.listed {
		return m.again(ctx, p)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(m.Kind.GroupVersion().WithKind(m.Kind.Kind + "List"))
	if err := m.Live.List(ctx, list, client.Limit(PageSize), client.Continue(p.next)); err != nil {
		if !apierrors.IsResourceExpired(err) {
			return fmt.Errorf("list %s: %w", m.Kind.Kind, err)
		}
		// The list took longer than etcd retains its revision. The response has a token
		// to continue at the current one: objects created meanwhile are stored at the
		// storage version anyway.
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
	if last != nil && list.Continue != "" && len(failed) == len(list.Items) {
		return last // the objects are not the cause: no write works right now
	}
	p.next, p.listed = list.Continue, list.Continue == ""
	p.failed = append(p.failed, failed...)
	return nil
}

// again retries some of the objects that could not be written. It returns an error
// if any still cannot, so that retries become less frequent.
func (m Migration) again(ctx context.Context, p *Pages) error {
	n := min(len(p.failed), PageSize)
	var (
		failed []client.ObjectKey
		last   error
	)
	for _, key := range p.failed[:n] {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(m.Kind)
		err := m.Live.Get(ctx, key, obj)
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

// object does the work for one object, in at most one request: a change of its
// managedFields also stores it.
func (m Migration) object(ctx context.Context, obj *metav1.PartialObjectMetadata, p *Pages) error {
	obj.SetGroupVersionKind(m.Kind)
	if m.Clean {
		entries, changed, err := withoutUnserved(obj.ManagedFields, m.Served, m.Kind.GroupVersion().String())
		if err != nil {
			return fmt.Errorf("read managedFields of %s %s: %w", m.Kind.Kind, client.ObjectKeyFromObject(obj), err)
		}
		if changed {
			return m.rewrite(ctx, obj, entries, p)
		}
	}
	if !m.Store {
		return nil
	}
	empty, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": obj.ResourceVersion}})
	if err != nil {
		return err
	}
	touch := client.RawPatch(types.MergePatchType, empty)
	if m.Status { // this calls fewer webhooks
		err = m.Mgmt.SubResource("status").Patch(ctx, obj, touch)
	} else {
		err = m.Mgmt.Patch(ctx, obj, touch)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it was deleted, or another client has just stored it
	case err != nil:
		return fmt.Errorf("store %s %s again: %w", m.Kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	p.Stored++
	return nil
}

// rewrite replaces the managedFields of an object if the object is unchanged.
func (m Migration) rewrite(ctx context.Context, obj *metav1.PartialObjectMetadata, entries []metav1.ManagedFieldsEntry, p *Pages) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": obj.ResourceVersion},
	})
	if err != nil {
		return err
	}
	err = m.Mgmt.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, body))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write managedFields of %s %s: %w", m.Kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	p.Cleaned++
	if m.Store {
		p.Stored++
	}
	return nil
}
