// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var schemaNamespaces = schema.GroupResource{Resource: "namespaces"}

// seed creates what an API server and the controllers beside it see to that
// it is there, at every start.
func (s *Store) seed() error {
	bootstrapping := map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}
	born := []Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin", Labels: bootstrapping},
			Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
				{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin", Labels: bootstrapping},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:masters"}},
		},
	}
	for _, sub := range []string{"nodeclient", "selfnodeclient"} { // what kubelets get signed without being asked
		born = append(born, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "system:certificates.k8s.io:certificatesigningrequests:" + sub, Labels: bootstrapping},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/" + sub}}},
		})
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		born = append(born, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, obj := range born {
		if err := s.Add(obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%T %s: %w", obj, obj.GetName(), err)
		}
	}
	namespaces, _ := s.raw.List(schemaNamespaces, "")
	for _, ns := range namespaces {
		s.Furnish(ns.Key.Name)
	}
	return nil
}

// Furnish gives a namespace what every namespace has.
func (s *Store) Furnish(namespace string) {
	if s.raw.Get(store.Key{Resource: schema.GroupResource{Resource: "serviceaccounts"}, Namespace: namespace, Name: "default"}) != nil {
		return
	}
	err := s.Add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err) {
		s.log.Error(err, "Creating the default service account", "namespace", namespace)
	}
}
