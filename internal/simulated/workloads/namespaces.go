// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var (
	namespaces      = schema.GroupResource{Resource: "namespaces"}
	configMaps      = schema.GroupResource{Resource: "configmaps"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
)

// rootCA is the ConfigMap with which Pods verify the API server.
const rootCA = "kube-root-ca.crt"

// defaultOf returns the namespace of which an object is a default object; empty if
// it is none.
func defaultOf(key store.Key) (namespace store.Key, is bool) {
	is = key.Resource == configMaps && key.Name == rootCA || key.Resource == serviceAccounts && key.Name == "default"
	return store.Key{Resource: namespaces, Name: key.Namespace}, is
}

// namespace gives a namespace what every namespace has, and keeps it so.
func (c *Controllers) namespace(key store.Key) (time.Time, error) {
	ns := read[corev1.Namespace](c, key)
	if ns == nil || ns.DeletionTimestamp != nil {
		return time.Time{}, nil
	}
	c.store.CreateDefaults(ns.Name)
	if len(c.ca.Cert) == 0 {
		return time.Time{}, nil
	}
	want := map[string]string{"ca.crt": string(c.ca.Cert)}
	have := read[corev1.ConfigMap](c, store.Key{Resource: configMaps, Namespace: ns.Name, Name: rootCA})
	if have != nil && len(have.Data) == 1 && have.Data["ca.crt"] == want["ca.crt"] {
		return time.Time{}, nil
	}
	err := c.store.Ensure(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: rootCA, Annotations: map[string]string{
			"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
				"No other usage is guaranteed across distributions of Kubernetes clusters.",
		}},
		Data: want,
	})
	if apierrors.IsForbidden(err) {
		return time.Time{}, nil // it is being deleted
	}
	return time.Time{}, err
}
