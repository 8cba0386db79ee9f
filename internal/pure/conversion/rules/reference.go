// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Lookup returns the apiVersion of references to a kind in versions that have one there:
// that of the newest contract with which the kind's CustomResourceDefinition is labeled.
type Lookup func(schema.GroupKind) (apiVersion string, err error)

// ReferenceUp retains the parts of a reference that identify the object. Namespace,
// version and the rest are dropped.
func ReferenceUp(field string, ref *corev1.ObjectReference) (clusterv1.ContractVersionedObjectReference, error) {
	if ref == nil {
		return clusterv1.ContractVersionedObjectReference{}, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return clusterv1.ContractVersionedObjectReference{}, fmt.Errorf("%s.apiVersion: %w", field, err)
	}
	return clusterv1.ContractVersionedObjectReference{APIGroup: gv.Group, Kind: ref.Kind, Name: ref.Name}, nil
}

// ReferenceDown completes a reference with the version that lookup returns and with the
// namespace of the referring object. An empty reference stays empty.
func ReferenceDown(field string, ref clusterv1.ContractVersionedObjectReference, namespace string, lookup Lookup) (*corev1.ObjectReference, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	apiVersion, err := lookup(ref.GroupKind())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return &corev1.ObjectReference{APIVersion: apiVersion, Kind: ref.Kind, Name: ref.Name, Namespace: namespace}, nil
}
