// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// Apply merges the intent of w.Manager into an object by server-side apply, and
// creates the object if it does not exist. created reports whether it did.
func (s *Store) Apply(k *kinds.Kind, namespace string, intent *unstructured.Unstructured, force bool, w Writing) (e *store.Entry, created bool, err error) {
	for range attempts {
		if s.raw.Get(keyOf(k, namespace, intent.GetName())) == nil && w.Sub == "" {
			e, err = s.applyNew(k, namespace, intent.DeepCopy(), force, w)
			created = err == nil
			if !apierrors.IsAlreadyExists(err) {
				return e, created, err
			}
			continue
		}
		e, err = s.applyOnce(k, namespace, intent, force, w)
		if !errors.Is(err, store.ErrConflict) {
			return e, false, err
		}
	}
	return nil, false, conflict(k, intent.GetName())
}

func (s *Store) applyNew(k *kinds.Kind, namespace string, intent *unstructured.Unstructured, force bool, w Writing) (*store.Entry, error) {
	if intent.GetUID() != "" {
		return nil, apierrors.NewConflict(k.GroupResource(), intent.GetName(), errors.New("uid mismatch: the object does not exist"))
	}
	u, err := patching.Apply(k, w.Sub, nil, intent, w.Manager, force)
	if err == nil {
		err = fit(k, u)
	}
	if err != nil {
		return nil, err
	}
	if err := s.prepareCreate(k, namespace, u, w); err != nil {
		return nil, err
	}
	return s.insert(k, u, w)
}

func (s *Store) applyOnce(k *kinds.Kind, namespace string, intent *unstructured.Unstructured, force bool, w Writing) (*store.Entry, error) {
	was, err := s.Entry(k, namespace, intent.GetName())
	if err != nil {
		return nil, err
	}
	latest, err := Read(k, was)
	if err != nil {
		return nil, err
	}
	if v := intent.GetResourceVersion(); v != "" && v != latest.GetResourceVersion() {
		return nil, conflict(k, intent.GetName())
	}
	next, err := patching.Apply(k, w.Sub, latest, intent.DeepCopy(), w.Manager, force)
	if err == nil {
		err = fit(k, next)
	}
	if err != nil {
		return nil, err
	}
	next.SetResourceVersion(latest.GetResourceVersion())
	if err := s.prepareUpdate(k, latest, next, w); err != nil {
		return nil, err
	}
	return s.replace(k, was, latest, next, w)
}
