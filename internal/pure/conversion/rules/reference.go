// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Lookup tells the apiVersion by which references to a kind are shown in
// versions that have one there: that of the newest contract which the kind's
// CustomResourceDefinition is labelled with.
type Lookup func(schema.GroupKind) (apiVersion string, err error)

// ReferenceUp keeps of a reference what says which object it is. Namespace,
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

// ReferenceDown completes a reference by the version that lookup finds and by
// the namespace of the object that it is in. Nothing remains nothing.
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
