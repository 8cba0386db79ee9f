// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var schemaNamespaces = schema.GroupResource{Resource: "namespaces"}

// seed creates the objects that an API server and its controllers ensure at every
// start, in addition to the roles of package defaulting.
func (s *Store) seed() error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		err := s.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	namespaces, _ := s.raw.List(schemaNamespaces, "")
	for _, ns := range namespaces {
		s.CreateDefaults(ns.Key.Name)
	}
	return nil
}

// CreateDefaults creates the objects that every namespace has.
func (s *Store) CreateDefaults(namespace string) {
	if s.raw.Get(store.Key{Resource: schema.GroupResource{Resource: "serviceaccounts"}, Namespace: namespace, Name: "default"}) != nil {
		return
	}
	err := s.Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		s.log.Error(err, "Creating the default service account", "namespace", namespace)
	}
}
