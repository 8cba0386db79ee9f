// SPDX-License-Identifier: Apache-2.0

// Package kubeadmcontrolplane decides about the machines of a kubeadm control plane:
// which are as the spec wants them, which is created or deleted next and what
// stands in the way, and how healthy their components are.
package kubeadmcontrolplane

import (
	"slices"
	"strings"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Machine is a machine of a control plane, with what it was made from.
type Machine struct {
	*clusterv1.Machine
	Source *Source                    // of its infrastructure; nil if not known
	Config *bootstrapv1.KubeadmConfig // nil if it is not there
	Verdict
}

// Source is the template that an infrastructure machine was cloned from, as
// its annotations say.
type Source struct{ Name, GroupKind string }

// Deleting reports whether the machine is on its way out.
func (m *Machine) Deleting() bool { return !m.DeletionTimestamp.IsZero() }

// Node is the name of the machine's Node; empty while there is none.
func (m *Machine) Node() string { return m.Status.NodeRef.Name }

// marked reports whether the machine has an annotation.
func (m *Machine) marked(annotation string) bool {
	_, ok := m.Annotations[annotation]
	return ok
}

// oldest orders machines by age, then name.
func oldest(a, b *Machine) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Sort brings machines into the order in which they are looked at everywhere.
func Sort(machines []*Machine) { slices.SortFunc(machines, oldest) }

// ManagesEtcd reports whether the etcd members run on the machines.
func ManagesEtcd(kcp *controlplanev1.KubeadmControlPlane) bool {
	return len(kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints) == 0
}

// Initialized reports whether kubeadm init was seen to have finished, once.
func Initialized(kcp *controlplanev1.KubeadmControlPlane) bool {
	done := kcp.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done
}
