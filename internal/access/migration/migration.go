// SPDX-License-Identifier: Apache-2.0

// Package migration has the objects of a definition stored at its storage version,
// and takes from their managedFields what speaks of versions that are not served.
//
// It looks at a page of objects at a time, by their metadata and past any cache.
// Objects that cannot be written hold up no other object; those that go, or that
// others write meanwhile, are done. To begin again writes objects once more, which
// changes nothing.
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

// PageSize is how many objects are in memory, and how many are written in a
// Step: a reconcile has a minute for it.
const PageSize = 100

// Pages is how far the list of objects has been gone through.
type Pages struct {
	next   string             // where it goes on
	listed bool               // it has come to its end
	failed []client.ObjectKey // those that could not be written yet

	Stored, Cleaned int // how many were
}

// Done reports whether all objects have been seen to.
func (p *Pages) Done() bool { return p.listed && len(p.failed) == 0 }

// Migration is what is done to each object of a kind. Of makes it, and what it
// leaves empty its caller sets.
type Migration struct {
	Mgmt client.Client
	Live client.Reader // the same, past the cache

	Kind   schema.GroupVersionKind // in the storage version
	Served []string                // apiVersions
	Status bool                    // it has a status of its own
	Store  bool                    // have each written
	Clean  bool                    // look at managedFields
}

// Of says what is to be done for a definition so that its objects are stored at
// its storage version, unless its kind cannot be asked for.
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

// Note notes in a definition, as it was when its migration began, that nothing is
// stored at another version. One that has changed since gives a conflict: it may
// have got another storage version.
func (m Migration) Note(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	commit := patch.Remember(m.Mgmt, crd, patch.Locked)
	crd.Status.StoredVersions = []string{m.Kind.Version}
	return commit(ctx)
}

// Step goes through one page of objects. When there are no more, it comes back to
// those that could not be written.
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

// object does what is to be done for one object, in one request at most: who
// changes its managedFields has it stored as well.
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
	if m.Status { // which fewer webhooks look at
		err = m.Mgmt.SubResource("status").Patch(ctx, obj, touch)
	} else {
		err = m.Mgmt.Patch(ctx, obj, touch)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it has gone, or somebody else has just had it stored
	case err != nil:
		return fmt.Errorf("store %s %s anew: %w", m.Kind.Kind, client.ObjectKeyFromObject(obj), err)
	}
	p.Stored++
	return nil
}

// rewrite replaces the managedFields of an object that is still as it was.
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
