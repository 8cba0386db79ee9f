// SPDX-License-Identifier: Apache-2.0

package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metadata is the content of a provider's metadata.yaml. It is a file of a
// repository and never an object of an API server.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=metadata,scope=Namespaced
// +kubebuilder:storageversion
type Metadata struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// releaseSeries maps minor versions to the contracts that they implement.
	// +optional
	ReleaseSeries []ReleaseSeries `json:"releaseSeries"`
}

// ReleaseSeries is all releases of one minor version.
type ReleaseSeries struct {
	// major is the major version.
	// +optional
	Major int32 `json:"major,omitempty"`

	// minor is the minor version.
	// +optional
	Minor int32 `json:"minor,omitempty"`

	// contract is the contract version they keep, such as v1beta2.
	// +optional
	Contract string `json:"contract,omitempty"`
}

// Contract returns the contract of a minor version, and false when the
// metadata does not know it.
func (m *Metadata) Contract(major, minor int32) (string, bool) {
	for _, series := range m.ReleaseSeries {
		if series.Major == major && series.Minor == minor {
			return series.Contract, true
		}
	}
	return "", false
}

// MetadataList is a list of Metadata objects.
// +kubebuilder:object:root=true
type MetadataList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the Metadata objects.
	Items []Metadata `json:"items"`
}
