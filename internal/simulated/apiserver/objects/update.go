// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// attempts bounds how often a change that names no version is retried on a newer
// one. Each failure means that another writer succeeded.
const attempts = 20

// Change creates a new version of an object from its latest one. It is called again
// on a newer version if another writer was faster; it may change the object that it
// gets. If its result names another resourceVersion than the object had, that is a
// conflict.
type Change func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error)

// Update stores the result of change. Nothing is stored if the object is unchanged.
func (s *Store) Update(k *kinds.Kind, namespace, name string, w Writing, change Change) (*store.Entry, error) {
	for range attempts {
		e, err := s.updateOnce(k, namespace, name, w, change)
		if !errors.Is(err, store.ErrConflict) {
			return e, err
		}
	}
	return nil, conflict(k, name)
}

func (s *Store) updateOnce(k *kinds.Kind, namespace, name string, w Writing, change Change) (*store.Entry, error) {
	was, err := s.Entry(k, namespace, name)
	if err != nil {
		return nil, err
	}
	latest, err := Read(k, was)
	if err != nil {
		return nil, err
	}
	next, err := change(latest.DeepCopy())
	if err != nil {
		return nil, err
	}
	if err := s.prepareUpdate(k, latest, next, w); err != nil {
		return nil, err
	}
	if w.Manager != "" {
		if next, err = patching.Track(k, w.Sub, latest, next, w.Manager); err != nil {
			return nil, err
		}
	}
	return s.replace(k, was, latest, next, w)
}

// replace stores a prepared object over the entry from which it was created. It
// returns store.ErrConflict if that is no longer the latest.
func (s *Store) replace(k *kinds.Kind, was *store.Entry, latest, next *unstructured.Unstructured, w Writing) (*store.Entry, error) {
	next.SetResourceVersion(latest.GetResourceVersion())
	if !w.DryRun && next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 && !kept(k, next) {
		return s.remove(k, was, next)
	}
	e, err := s.allocated(k, latest, next, func() (*store.Entry, error) {
		raw, err := storedForm(k, next)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(raw, was.Raw) {
			return was, nil
		}
		if w.DryRun {
			return dryRun(k, was.Key, next, was)
		}
		e, err := s.raw.Put(was.Key, was, func(version uint64) (*store.Entry, error) { return encode(k, next, version) })
		if err != nil {
			return nil, stored(k, next, err)
		}
		return e, nil
	})
	if err != nil || e == was || w.DryRun {
		return e, err
	}
	if k == definitionKind && !w.Trusted {
		s.accept(next.GetName())
	}
	if !slices.Equal(was.Owners, e.Owners) {
		s.collect(e)
	}
	return e, nil
}

// prepareUpdate resets what a writer must not change, and sets what follows from
// what it did change.
func (s *Store) prepareUpdate(k *kinds.Kind, latest, next *unstructured.Unstructured, w Writing) error {
	name := latest.GetName()
	if v := next.GetResourceVersion(); v != "" && v != latest.GetResourceVersion() {
		return conflict(k, name)
	}
	if uid := next.GetUID(); uid != "" && uid != latest.GetUID() {
		return apierrors.NewConflict(k.GroupResource(), name, fmt.Errorf(
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, latest.GetUID())) // the words of an API server
	}
	if next.GetName() != name || (k.Namespaced && next.GetNamespace() != "" && next.GetNamespace() != latest.GetNamespace()) {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", next.GetName(), name))
	}
	keepIdentity(latest, next)
	ownOnce(next)
	switch {
	case w.Trusted:
	case w.Sub == "":
		if k.Status {
			carry(next, latest, "status")
		}
		if k == namespaceKind { // its finalizers are written through finalize alone
			carry(next, latest, "spec")
		}
	case w.Sub == "finalize":
		carry(next, latest, "status")
	case w.Sub == "status":
		keepAllButStatus(k, latest, next)
	case w.Sub == "ephemeralcontainers" || w.Sub == "resize":
		keepAllButContainers(w.Sub, latest, next)
	case w.Sub == "approval":
		conditions, ok, _ := unstructured.NestedFieldCopy(next.Object, "status", "conditions")
		carry(next, latest, "spec", "status")
		if ok {
			_ = unstructured.SetNestedField(next.Object, conditions, "status", "conditions") // a status is an object
		}
	}
	if err := settle(k, latest, next, w); err != nil {
		return err
	}
	setDefaults(k, latest, next)
	if k.Generation && k.Custom == nil && !reflect.DeepEqual(latest.Object["spec"], next.Object["spec"]) {
		next.SetGeneration(latest.GetGeneration() + 1)
	}
	return validate(k, latest, next, w)
}

// keepIdentity gives next the metadata that the server alone writes.
func keepIdentity(latest, next *unstructured.Unstructured) {
	next.SetNamespace(latest.GetNamespace())
	next.SetUID(latest.GetUID())
	next.SetSelfLink("")
	next.SetGenerateName(latest.GetGenerateName())
	from, _ := latest.Object["metadata"].(map[string]any)
	to, _ := next.Object["metadata"].(map[string]any)
	for _, name := range []string{"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"} {
		if v, ok := from[name]; ok {
			to[name] = v
		} else {
			delete(to, name)
		}
	}
	if _, sent := to["managedFields"]; !sent && from["managedFields"] != nil {
		to["managedFields"] = from["managedFields"]
	}
}

// keepAllButStatus reverts what a write of the status must not change. Labels and
// the like may be written along with the status of core objects, as kubelets do.
func keepAllButStatus(k *kinds.Kind, latest, next *unstructured.Unstructured) {
	managed := next.GetManagedFields()
	for name := range next.Object {
		if name != "status" && name != "metadata" {
			delete(next.Object, name)
		}
	}
	for name, value := range latest.Object {
		if name != "status" && name != "metadata" {
			next.Object[name] = value
		}
	}
	if k.Group != "" {
		carry(next, latest, "metadata")
		next.SetManagedFields(managed)
	}
}

// carry replaces fields of to by those of from.
func carry(to, from *unstructured.Unstructured, names ...string) {
	for _, name := range names {
		if v, ok, _ := unstructured.NestedFieldCopy(from.Object, name); ok {
			to.Object[name] = v
		} else {
			delete(to.Object, name)
		}
	}
}

func conflict(k *kinds.Kind, name string) error {
	return apierrors.NewConflict(k.GroupResource(), name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}
