// SPDX-License-Identifier: Apache-2.0

// Package localstatus decides what a LocalMachine waits for before it starts, and
// reports the status of LocalMachines and LocalClusters.
//
//   - A machine starts when the infrastructure of its Cluster is provisioned and it has
//     bootstrap data: from its Machine or, if it belongs to a pool, from the
//     MachinePool. The message names the first missing prerequisite: without data, a
//     worker waits for the control plane.
//   - A provisioned machine stays provisioned. A condition reports that it does not run
//     any longer.
package localstatus

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Values of status.failureReason, from contract v1beta1.
const (
	invalidConfiguration = "InvalidConfiguration"
	createError          = "CreateError"
)

// failure returns the failure fields of the status for a permanent problem; nil without
// a message.
func failure(reason, message string) (*string, *string) {
	if message == "" {
		return nil, nil
	}
	return &reason, &message
}

// Order is the desired state of a machine, and the object that requests it.
type Order struct {
	Who  runtime.Object
	By   string // as in Machine m0
	Spec clusterv1.MachineSpec
	at   string // the path of the spec
	// ControlPlane says that it is a control plane machine.
	ControlPlane bool
}

// ByMachine is the order of a Machine.
func ByMachine(m *clusterv1.Machine) Order {
	_, cp := m.Labels[clusterv1.MachineControlPlaneLabel]
	return Order{Who: m, By: "Machine " + m.Name, Spec: m.Spec, at: "spec", ControlPlane: cp}
}

// ByPool is the order of a MachinePool for one of its machines: the template, except for
// the fields that the LocalMachinePool recorded on this machine.
func ByPool(mp *clusterv1.MachinePool, local *infrav1.LocalMachine) Order {
	spec := mp.Spec.Template.Spec
	spec.ClusterName = mp.Spec.ClusterName
	spec.Version = local.Annotations[infrav1.PoolVersionAnnotation]
	spec.FailureDomain = local.Annotations[infrav1.PoolFailureDomainAnnotation]
	return Order{Who: mp, By: "MachinePool " + mp.Name, Spec: spec, at: "spec.template.spec"}
}

// data names the field that names the bootstrap data.
func (o Order) data() string { return o.at + ".bootstrap.dataSecretName of " + o.By }

// Wait is the reason of a condition, and its message; zero for no wait.
type Wait struct{ Reason, Message string }

// BeforeStart is what a machine waits for before its start.
func BeforeStart(cluster *clusterv1.Cluster, order Order) Wait {
	initialized := cluster.Status.Initialization
	switch {
	case !ptr.Deref(initialized.InfrastructureProvisioned, false):
		return Wait{infrav1.VMWaitingForClusterInfrastructureReason, fmt.Sprintf("Waiting for the infrastructure of Cluster %s to be provisioned", cluster.Name)}
	case ptr.Deref(order.Spec.Bootstrap.DataSecretName, "") != "":
		return Wait{}
	case !order.ControlPlane && !ptr.Deref(initialized.ControlPlaneInitialized, false):
		return Wait{infrav1.VMWaitingForControlPlaneInitializedReason, fmt.Sprintf("Waiting for the control plane of Cluster %s to be initialized", cluster.Name)}
	default:
		return Wait{infrav1.VMWaitingForBootstrapDataReason, "Waiting for " + order.data()}
	}
}

// BeforeData is what a machine waits for if the Secret with its bootstrap data belongs
// to another owner.
func BeforeData(cluster *clusterv1.Cluster, order Order, secret *corev1.Secret) Wait {
	mine, ref := reference.ToShare(cluster), order.Spec.Bootstrap.ConfigRef
	mine.Maker = &metav1.OwnerReference{APIVersion: ref.APIGroup + "/", Kind: ref.Kind, Name: ref.Name}
	holder := mine.Evaluate(secret).Holder
	if holder == "" {
		return Wait{}
	}
	return Wait{infrav1.VMWaitingForBootstrapDataReason,
		fmt.Sprintf("Secret %s, named by %s, is held by %s: name another Secret", secret.Name, order.data(), holder)}
}

// Seen is the observed progress of a machine.
type Seen struct {
	Up, Done, Failed bool   // the machine runs; its bootstrap data has succeeded or failed
	Message          string // what is awaited, or the result
	Addresses        clusterv1.MachineAddresses
	ProviderID       string
}

// Take records the progress of a machine, and reports whether it has become provisioned
// just now.
func Take(local *infrav1.LocalMachine, order Order, seen Seen) (news bool) {
	if seen.Done && !Provisioned(local) {
		local.Spec.ProviderID, local.Status.Initialization.Provisioned, news = seen.ProviderID, new(true), true
	}
	if seen.Up {
		local.Status.Addresses = seen.Addresses
		local.Status.FailureDomain = order.Spec.FailureDomain
	}
	return news
}

// Provisioned reports whether the machine has completed its bootstrap data before.
func Provisioned(local *infrav1.LocalMachine) bool {
	return ptr.Deref(local.Status.Initialization.Provisioned, false)
}

// Machine is the input of the status of a LocalMachine.
type Machine struct {
	Local      *infrav1.LocalMachine
	Cluster    *clusterv1.Cluster // nil: it is not known, or was deleted
	Generation int64              // observed generation of the status
	Now        time.Time
	Waiting    Wait   // why the machine is not processed yet
	Seen       *Seen  // nil: it was not observed
	Stopped    string // why it does not run although it ran before
	Failed     string // the error of this reconcile
}

// ReportMachine fills the conditions of the LocalMachine, and the corresponding fields
// of contract v1beta1.
func ReportMachine(m Machine) {
	st := &m.Local.Status
	st.Ready = st.Initialization.Provisioned
	if m.Seen != nil {
		broken := ""
		if m.Seen.Failed {
			broken = m.Seen.Message
		}
		st.FailureReason, st.FailureMessage = failure(createError, broken)
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = m.Generation
		conditions.Set(m.Local, m.Now, c)
	}
	if c := vmProvisioned(m); c != nil {
		set(*c)
	}
	if c := bootstrapExecSucceeded(m); c != nil {
		set(*c)
	}
	set(machineReady(m.Local)) // summarizes the others
	set(pause.Condition(m.Cluster, m.Local))
}

// vmProvisioned is nil without new information.
func vmProvisioned(m Machine) *metav1.Condition {
	c := &metav1.Condition{Type: infrav1.VMProvisionedCondition, Status: metav1.ConditionFalse, Reason: infrav1.VMNotProvisionedReason}
	switch {
	case m.Waiting.Reason != "":
		c.Reason, c.Message = m.Waiting.Reason, m.Waiting.Message
	case !m.Local.DeletionTimestamp.IsZero():
		c.Reason = infrav1.VMDeletingReason
		if m.Failed != "" {
			c.Message = "Waiting for the machine to be deleted: " + m.Failed
		}
	case m.Seen != nil && m.Seen.Up:
		c.Status, c.Reason = metav1.ConditionTrue, infrav1.VMProvisionedReason
	case m.Seen != nil:
		c.Message = "Waiting for " + m.Seen.Message
	case m.Stopped != "":
		c.Message = "The machine does not run: " + m.Stopped
	case m.Failed != "" && !Provisioned(m.Local):
		c.Message = "Waiting for the machine to be started: " + m.Failed
	default:
		return nil
	}
	return c
}

// bootstrapExecSucceeded is nil until the machine runs, and without new information.
func bootstrapExecSucceeded(m Machine) *metav1.Condition {
	if m.Seen == nil || !m.Seen.Up {
		return nil
	}
	c := &metav1.Condition{Type: infrav1.BootstrapExecSucceededCondition, Status: metav1.ConditionFalse, Reason: infrav1.BootstrapExecRunningReason}
	switch {
	case m.Seen.Done || Provisioned(m.Local):
		c.Status, c.Reason = metav1.ConditionTrue, infrav1.BootstrapExecSucceededReason
	case m.Seen.Failed:
		c.Reason, c.Message = infrav1.BootstrapExecFailedReason, m.Seen.Message
	default:
		c.Message = "Waiting for " + m.Seen.Message
	}
	return c
}

func machineReady(local *infrav1.LocalMachine) metav1.Condition {
	if !local.DeletionTimestamp.IsZero() {
		return conditions.New(clusterv1.ReadyCondition, metav1.ConditionFalse, clusterv1.DeletingReason, "The machine is being deleted")
	}
	types := []string{infrav1.VMProvisionedCondition, infrav1.BootstrapExecSucceededCondition}
	optional := types[1:] // its bootstrap data is not expected until the machine runs
	if conditions.IsTrue(local, infrav1.VMProvisionedCondition) {
		optional = nil
	}
	return conditions.Summary(local, clusterv1.ReadyCondition, conditions.SummaryOptions{
		Types: types, Optional: optional,
		Reasons: conditions.Reasons{Issue: clusterv1.NotReadyReason, Unknown: clusterv1.ReadyUnknownReason, Info: clusterv1.ReadyReason},
	})
}
