// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// The following is for the simulation of machines, which acts as kubelets, kubeadm
// and the controllers of a control plane do. It writes spec and status together,
// and manages no fields. Clients see each write as they see those of others.

// Object is a typed object of the client-go scheme, or an unstructured one.
type Object interface {
	metav1.Object
	runtime.Object
}

// Load reads an object into obj, which names it.
func (s *Store) Load(obj Object) error {
	k, err := s.kindOf(obj)
	if err != nil {
		return err
	}
	e, err := s.Entry(k, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return err
	}
	return decodeInto(k, e, obj)
}

// Add creates obj, and fills in what the server set.
func (s *Store) Add(obj Object) error {
	u, k, err := s.FromTyped(obj)
	if err != nil {
		return err
	}
	e, err := s.Create(k, obj.GetNamespace(), u, Writing{Trusted: true})
	if err != nil {
		return err
	}
	return decodeInto(k, e, obj)
}

// Save stores obj unchanged, spec and status. It returns a Conflict if obj carries
// another resourceVersion than the latest.
func (s *Store) Save(obj Object) error {
	u, k, err := s.FromTyped(obj)
	if err != nil {
		return err
	}
	e, err := s.Update(k, obj.GetNamespace(), obj.GetName(), Writing{Trusted: true}, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return u.DeepCopy(), nil
	})
	if err != nil {
		return err
	}
	return decodeInto(k, e, obj)
}

// Modify loads the object that obj names, applies change to it, and saves it;
// again, if another writer was faster.
func Modify[T Object](s *Store, obj T, change func(T) error) error {
	k, err := s.kindOf(obj)
	if err != nil {
		return err
	}
	e, err := s.Update(k, obj.GetNamespace(), obj.GetName(), Writing{Trusted: true}, func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		fresh := obj.DeepCopyObject().(T)
		if err := into(latest, fresh); err != nil {
			return nil, err
		}
		if err := change(fresh); err != nil {
			return nil, err
		}
		u, _, err := s.FromTyped(fresh)
		return u, err
	})
	if err != nil {
		return err
	}
	return decodeInto(k, e, obj)
}

// Ensure creates obj, or updates the existing one to match it.
func (s *Store) Ensure(obj Object) error {
	k, err := s.kindOf(obj)
	if err != nil {
		return err
	}
	if s.raw.Get(keyOf(k, obj.GetNamespace(), obj.GetName())) == nil {
		return s.Add(obj)
	}
	obj.SetResourceVersion("")
	return s.Save(obj)
}

// Remove deletes an object as a client would. It is no error if there is none.
func (s *Store) Remove(gvr schema.GroupVersionResource, namespace, name string) error {
	k := s.Kinds().ByResource(gvr)
	if k == nil {
		return fmt.Errorf("resource %s is not served", gvr)
	}
	if _, _, err := s.Delete(k, namespace, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// All lists the objects of a resource that a selector matches, in one
// namespace unless that is empty, sorted by namespace and name. A nil selector
// matches all.
func (s *Store) All(gvr schema.GroupVersionResource, namespace string, match labels.Selector) ([]*unstructured.Unstructured, error) {
	k := s.Kinds().ByResource(gvr)
	if k == nil {
		return nil, fmt.Errorf("resource %s is not served", gvr)
	}
	entries, _ := s.raw.List(k.Stored(), namespace)
	var list []*unstructured.Unstructured
	for _, e := range entries {
		if match != nil && !match.Matches(labels.Set(e.Labels)) {
			continue
		}
		u, err := Read(k, e)
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, nil
}

func (s *Store) kindOf(obj Object) (*kinds.Kind, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if k := s.Kinds().ByKind(u.GroupVersionKind()); k != nil {
			return k, nil
		}
		return nil, fmt.Errorf("kind %s is not served", u.GroupVersionKind())
	}
	k := kinds.ByType(obj)
	if k == nil {
		return nil, fmt.Errorf("type %T is not served", obj)
	}
	return k, nil
}

func decodeInto(k *kinds.Kind, e *store.Entry, obj Object) error {
	u, err := Read(k, e)
	if err != nil {
		return err
	}
	return into(u, obj)
}
