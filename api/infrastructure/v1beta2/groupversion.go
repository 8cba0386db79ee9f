// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "infrastructure.capstan.dev", Version: "v1beta2"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&LocalCluster{}, &LocalClusterList{},
		&LocalClusterTemplate{}, &LocalClusterTemplateList{},
		&LocalMachine{}, &LocalMachineList{},
		&LocalMachineTemplate{}, &LocalMachineTemplateList{},
		&LocalMachinePool{}, &LocalMachinePoolList{},
		&LocalMachinePoolTemplate{}, &LocalMachinePoolTemplateList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
