// SPDX-License-Identifier: Apache-2.0

// Package kubeadmcontrolplane decides about the machines of a kubeadm control plane:
// which are as the spec wants them, how healthy their components are, which is
// replaced, may terminate, or is created or deleted next, and what stands in the
// way. It makes what is reported of all that. Facts go in, values come out.
package kubeadmcontrolplane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Facts are what one reconcile knows of a control plane. All that it decides
// and reports is made from them, and never from what it reports itself.
type Facts struct {
	Now          time.Time
	ControlPlane *controlplanev1.KubeadmControlPlane // its conditions are those of the last report
	Cluster      *clusterv1.Cluster                  // nil if there is none; without a UID if it has gone while the control plane is deleted
	Machines     []*Machine                          // the oldest first
	Template     string                              // what is wrong with the infrastructure template; empty if nothing is
	Certificates Certificates
	Workload     Workload
	Etcd         Etcd

	// Held names machines for which the order of a health check to replace them
	// does not stand; until when is zero if only a change ends that.
	OrdersHeld      []string
	OrdersHeldUntil time.Time
}

// Certificates says whether those of the cluster are there; zero if nobody has looked.
type Certificates struct {
	Checked bool
	Err     error // why they cannot be used; nil if they can
}

// Workload is what the workload cluster shows; zero if nobody has tried to look.
type Workload struct {
	Connected bool // it can be asked
	Inspected bool // Nodes and Pods are what there is; before kubeadm init has finished, nobody looks
	Nodes     map[string]*corev1.Node
	Pods      map[string]*corev1.Pod // of the control plane

	// While it cannot be asked:
	LastProbe time.Time // that succeeded; zero if none has since this process began
	Since     time.Time // from when on the loss is forgiven for a while
	Why       string    // it does not answer; empty until that is known
}

// Machine is a machine of a control plane, with what is known of it.
type Machine struct {
	*clusterv1.Machine
	Reported conditions.List            // its conditions as they were read
	Source   *Source                    // of its infrastructure; nil if not known
	Config   *bootstrapv1.KubeadmConfig // nil if it is not there
	Health   conditions.List            // Reported, with its components as Assess found them
	Verdict                             // of Judge
}

// GetConditions are the conditions as they were read: what a reconcile is about
// to report decides nothing.
func (m *Machine) GetConditions() []metav1.Condition { return m.Reported }

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

// Origin is where a certificate of the cluster comes from.
type Origin string

// The origins.
const (
	Made    Origin = "it is made where it is missing"
	Brought Origin = "users bring it: their etcd is signed with it"
	Kept    Origin = "the cluster was made with it: a new one would not fit"
)

// OriginOf is the origin of a certificate, which etcd is served or asked with, or
// not. To adopt machines is to go on with what somebody else made them with.
func OriginOf(ofEtcd bool, kcp *controlplanev1.KubeadmControlPlane, adopts bool) Origin {
	switch {
	case ofEtcd && !ManagesEtcd(kcp):
		return Brought
	case adopts || Initialized(kcp):
		return Kept
	default:
		return Made
	}
}

// MissingError says that a Secret with a certificate is missing which nobody here
// may make.
type MissingError struct {
	Secret string // for messages
	Origin Origin
}

// Error implements error.
func (e *MissingError) Error() string {
	if e.Origin == Brought {
		return fmt.Sprintf("secret %s does not exist: etcd is external, so create it with keys %s and %s (a CA needs no key)", e.Secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return fmt.Sprintf("secret %s does not exist, and the cluster was made with what it held: restore it from a backup, or from the files under /etc/kubernetes/pki of a control plane machine", e.Secret)
}

// Starting reports whether there is a machine on which kubeadm init can have
// finished: an API server that answers without one is on its way out.
func Starting(machines []*Machine) bool {
	return len(machines) > 1 || len(machines) == 1 && !machines[0].Deleting()
}
