// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of plan.capstan.dev/v1alpha1: the output of
// `capstan plan`, which is what a change does to each Machine of the Clusters that it
// reaches, and the guard under which a plan is carried out.
// +kubebuilder:object:generate=true
// +groupName=plan.capstan.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "plan.capstan.dev", Version: "v1alpha1"}
}

// AddToScheme adds the kinds here that an API server stores to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &PlanGuard{}, &PlanGuardList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
