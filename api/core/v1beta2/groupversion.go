// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 holds the wire types of cluster.x-k8s.io/v1beta2: the version
// that is stored, and that all other versions are converted to and from.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&Cluster{}, &ClusterList{},
		&ClusterClass{}, &ClusterClassList{},
		&Machine{}, &MachineList{},
		&MachineSet{}, &MachineSetList{},
		&MachineDeployment{}, &MachineDeploymentList{},
		&MachinePool{}, &MachinePoolList{},
		&MachineHealthCheck{}, &MachineHealthCheckList{},
		&MachineDrainRule{}, &MachineDrainRuleList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
