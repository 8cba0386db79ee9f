// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// MachineTemplate is the template of a set's Machines.
func MachineTemplate(set *clusterv1.MachineSet) machinetemplate.Template {
	t := machinetemplate.Template{
		Maker: metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: set.Name, UID: set.UID,
		},
		Namespace:   set.Namespace,
		Labels:      map[string]string{},
		Annotations: set.Spec.Template.Annotations,
		Spec:        set.Spec.Template.Spec,
	}
	maps.Copy(t.Labels, set.Spec.Template.Labels)
	t.Labels[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	t.Labels[clusterv1.MachineSetNameLabel] = fieldvalidation.AsLabelValue(set.Name)
	if md, ok := set.Labels[clusterv1.MachineDeploymentNameLabel]; ok {
		t.Labels[clusterv1.MachineDeploymentNameLabel] = md
	}
	t.Spec.ClusterName = set.Spec.ClusterName
	return t
}

// MachineNaming is how the Machines of a set are named.
func MachineNaming(set *clusterv1.MachineSet) machinetemplate.Naming {
	return machinetemplate.Naming{
		Template: set.Spec.MachineNaming.Template, As: "machineSet", Maker: set.Name, Cluster: set.Spec.ClusterName,
	}
}
