// SPDX-License-Identifier: Apache-2.0

// Package v1 holds the wire types of cert-manager.io/v1 as far as Capstan
// supports them in a management plane without cert-manager: certificates and
// their issuers. Other fields are retained and have no effect.
// +kubebuilder:object:generate=true
// +groupName=cert-manager.io
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&Certificate{}, &CertificateList{},
		&Issuer{}, &IssuerList{},
		&ClusterIssuer{}, &ClusterIssuerList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
