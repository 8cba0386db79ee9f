// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// settle prepares a definition for a write, or through the library an object of a
// defined kind; was is nil at creation.
func settle(k *kinds.Kind, was, next *unstructured.Unstructured, w Writing) error {
	switch {
	case w.Trusted:
	case k.Custom != nil:
		return k.Custom.Prepare(w.Sub, was, next)
	case k == definitionKind:
		errs, err := crds.Settle(w.Sub, was, next)
		if len(errs) > 0 {
			return invalid(k, next.GetName(), errs...)
		}
		return err
	}
	return nil
}

// fit drops what a merge has left of an object that its kind does not have. A merge does
// not check texts, such as times, by which no client could read the object.
func fit(k *kinds.Kind, u *unstructured.Unstructured) error {
	if k.Custom != nil {
		_, err := k.Custom.Fit(u)
		return err
	}
	obj, err := k.New()
	if err == nil {
		err = into(u, obj)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s cannot be decoded: %v", k.Kind, err))
	}
	return nil
}

func terminating(k *kinds.Kind) error {
	err := apierrors.NewMethodNotSupported(k.GroupResource(), "create")
	err.ErrStatus.Message = "create not allowed while custom resource definition is terminating"
	err.ErrStatus.Code = http.StatusMethodNotAllowed
	return err
}

// accept does what controllers do once a definition has been written.
func (s *Store) accept(name string) {
	change := func(crd *apiextensionsv1.CustomResourceDefinition) error {
		entries, _ := s.raw.List(definitionKind.Stored(), "")
		var others []*apiextensionsv1.CustomResourceDefinition
		for _, e := range entries {
			o, err := crds.Names(e.Raw)
			if err != nil {
				return err
			}
			others = append(others, o)
		}
		crds.Accept(crd, others, metav1.NewTime(s.clock.Now()))
		return nil
	}
	_, err := s.Update(definitionKind, "", name, Writing{Trusted: true}, func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return latest, changed(latest, change)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		s.log.Error(err, "Accepting a definition", "name", name)
	}
}

func changed(u *unstructured.Unstructured, change func(*apiextensionsv1.CustomResourceDefinition) error) error {
	crd, err := crds.Typed(u)
	if err == nil {
		err = change(crd)
	}
	if err != nil {
		return err
	}
	return crds.Write(crd, u)
}

// terminate prepares a definition for its deletion.
func (s *Store) terminate(u *unstructured.Unstructured) error {
	addFinalizer(u, crds.CleanupFinalizer)
	return changed(u, func(crd *apiextensionsv1.CustomResourceDefinition) error {
		crds.Terminate(crd, metav1.NewTime(s.clock.Now()))
		return nil
	})
}

// instances lists the objects that a definition defines.
func (s *Store) instances(definition *store.Entry) []*store.Entry {
	gr := schema.ParseGroupResource(definition.Key.Name)
	entries, _ := s.raw.List(gr, "")
	return entries
}

// definitionOf is what defines an object, or nil.
func (s *Store) definitionOf(e *store.Entry) *store.Entry {
	gr := e.Key.Resource
	return s.raw.Get(keyOf(definitionKind, "", fmt.Sprintf("%s.%s", gr.Resource, gr.Group)))
}
