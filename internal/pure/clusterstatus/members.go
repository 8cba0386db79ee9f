// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// Members are the objects of a Cluster, without those that it refers to.
type Members struct {
	Deployments          []*clusterv1.MachineDeployment
	Sets                 []*clusterv1.MachineSet // standalone or not
	Pools                []*clusterv1.MachinePool
	ControlPlaneMachines []*clusterv1.Machine
	Workers              []*clusterv1.Machine // the other Machines
}

// Machines are all Machines of the Cluster.
func (m Members) Machines() []*clusterv1.Machine {
	return slices.Concat(m.ControlPlaneMachines, m.Workers)
}

// Sort sorts the objects of a Cluster by role.
func Sort(deployments []clusterv1.MachineDeployment, sets []clusterv1.MachineSet, pools []clusterv1.MachinePool, machines []clusterv1.Machine) Members {
	m := Members{Deployments: metadata.Pointers(deployments), Sets: metadata.Pointers(sets), Pools: metadata.Pointers(pools)}
	for _, machine := range metadata.Pointers(machines) {
		if _, ok := machine.Labels[clusterv1.MachineControlPlaneLabel]; ok {
			m.ControlPlaneMachines = append(m.ControlPlaneMachines, machine)
		} else {
			m.Workers = append(m.Workers, machine)
		}
	}
	return m
}

// StandaloneSets are the MachineSets that are managed only by the Cluster.
func (m Members) StandaloneSets() (all []*clusterv1.MachineSet) {
	for _, set := range m.Sets {
		if standalone(set) {
			all = append(all, set)
		}
	}
	return all
}

// StandaloneWorkers are the Machines that are managed only by the Cluster.
func (m Members) StandaloneWorkers() (all []*clusterv1.Machine) {
	for _, worker := range m.Workers {
		if standalone(worker) {
			all = append(all, worker)
		}
	}
	return all
}

func standalone(obj metav1.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil }
