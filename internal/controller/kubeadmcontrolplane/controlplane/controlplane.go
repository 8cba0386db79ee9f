// SPDX-License-Identifier: Apache-2.0

// Package controlplane decides about the machines of a kubeadm control plane:
// which match the spec, the health of their components, which machine is replaced, may
// terminate, or is created or deleted next, and what blocks that. It builds the status
// of all of that. It maps facts to values, without I/O.
package controlplane

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

// Facts are the input of one reconcile of a control plane. All decisions and reports are
// derived from them, and never from the new report.
type Facts struct {
	Now          time.Time
	ControlPlane *controlplanev1.KubeadmControlPlane // with the conditions of the last report
	Cluster      *clusterv1.Cluster                  // nil if not found; without a UID if it was deleted before the control plane
	Machines     []*Machine                          // the oldest first
	Template     string                              // what is wrong with the infrastructure template; empty if it is valid
	Certificates Certificates
	Workload     Workload
	Etcd         Etcd

	// OrdersHeld names machines for which a health check's request for replacement is
	// not valid; until when is zero if only a change ends that.
	OrdersHeld      []string
	OrdersHeldUntil time.Time
}

// Certificates says whether the certificates of the cluster exist; zero if not checked.
type Certificates struct {
	Checked bool
	Err     error // why they cannot be used; nil if they can
}

// Workload is the observed state of the workload cluster; zero if not inspected.
type Workload struct {
	Connected bool // it is reachable
	Inspected bool // Nodes and Pods are complete; it is not inspected before kubeadm init has finished
	// Nodes and Pods, those of the control plane components, are evaluated before a
	// plan: a record has the results, in Machines.
	Nodes map[string]*corev1.Node `json:"-"`
	Pods  map[string]*corev1.Pod  `json:"-"`

	// While it is not reachable:
	LastProbe time.Time // last success; zero if none since this process started
	Since     time.Time // start of the grace period for the lost connection
	Why       string    // why it does not answer; empty until that is known
}

// Machine is a machine of a control plane, with its observed state.
type Machine struct {
	*clusterv1.Machine
	Reported   conditions.List            // its conditions as they were read
	Source     *Source                    // of its infrastructure; nil if not known
	Config     *bootstrapv1.KubeadmConfig // nil if it does not exist
	Health     conditions.List            // Reported, with its components as Assess found them
	Comparison                            // set from Compare
}

// GetConditions returns the conditions as they were read: a new report must not
// influence decisions.
func (m *Machine) GetConditions() []metav1.Condition { return m.Reported }

// Source is the template that an infrastructure machine was cloned from, according to
// its annotations.
type Source struct{ Name, GroupKind string }

// Deleting reports whether the machine is being deleted.
func (m *Machine) Deleting() bool { return !m.DeletionTimestamp.IsZero() }

// Node is the name of the machine's Node; empty until it has one.
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

// Sort sorts machines into the order in which all functions process them.
func Sort(machines []*Machine) { slices.SortFunc(machines, oldest) }

// ManagesEtcd reports whether the etcd members run on the machines.
func ManagesEtcd(kcp *controlplanev1.KubeadmControlPlane) bool {
	return len(kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints) == 0
}

// Initialized reports whether kubeadm init has finished before.
func Initialized(kcp *controlplanev1.KubeadmControlPlane) bool {
	done := kcp.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done
}

// Origin is the source of a certificate of the cluster.
type Origin string

// The origins.
const (
	Made    Origin = "it is made where it is missing"
	Brought Origin = "users bring it: their etcd is signed with it"
	Kept    Origin = "the cluster was made with it: a new one would not fit"
)

// OriginOf is the origin of a certificate; ofEtcd is for the server or client
// certificates of etcd. An adopted control plane uses the certificates that its machines
// were created with.
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

// MissingError says that a Secret with a certificate is missing and must not be created
// by this controller.
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

// Starting reports whether kubeadm init can have finished on a machine: an API server
// that answers when there is no such machine is being deleted.
func Starting(machines []*Machine) bool {
	return len(machines) > 1 || len(machines) == 1 && !machines[0].Deleting()
}
