// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// Action is one change to make.
type Action interface{ fmt.Stringer }

// Create creates a machine.
type Create struct {
	Init          bool   // it runs kubeadm init; else it joins
	FailureDomain string // empty for any
	Why           string
}

// Delete removes a machine.
type Delete struct {
	Machine *Machine
	Why     string
}

// String implements Action.
func (a Create) String() string {
	what := "create a machine that joins"
	if a.Init {
		what = "create the first machine"
	}
	if a.FailureDomain != "" {
		what += " in failure domain " + a.FailureDomain
	}
	return what + ": " + a.Why
}

// String implements Action.
func (a Delete) String() string { return "delete " + a.Machine.Name + ": " + a.Why }

// Plan returns the one change to make now, or nil, and what blocks it: with objections,
// the change has to wait.
//
// Machines that do not match the spec are replaced one at a time: a new one is created
// first while there are fewer than spec.replicas plus the surge, else an old one is
// deleted. Without outdated machines their number is scaled to spec.replicas. A machine
// that is being deleted counts until it is deleted, so that there is one operation at a
// time.
func Plan(f Facts) (Action, []string) {
	kcp := f.ControlPlane
	if kcp.Spec.Replicas == nil {
		return nil, nil
	}
	want, have := int(*kcp.Spec.Replicas), len(f.Machines)
	var outdated []*Machine
	for _, m := range f.Machines {
		if !m.UpToDate && !m.Deleting() {
			outdated = append(outdated, m)
		}
	}
	domains := f.Cluster.Status.FailureDomains
	switch {
	case have == 0 && want > 0:
		return f.create(Create{Init: !Initialized(kcp), FailureDomain: FailureDomain(domains, f.Machines), Why: fmt.Sprintf("have 0, want %d", want)})
	case len(outdated) > 0 && have < want+surge(kcp):
		return f.create(Create{FailureDomain: FailureDomain(domains, f.Machines), Why: fmt.Sprintf("%d of %d are not up to date", len(outdated), have)})
	case len(outdated) > 0:
		return f.remove(fmt.Sprintf("%d of %d are not up to date", len(outdated), have))
	case have < want:
		return f.create(Create{FailureDomain: FailureDomain(domains, f.Machines), Why: fmt.Sprintf("have %d, want %d", have, want)})
	case have > want:
		return f.remove(fmt.Sprintf("have %d, want %d", have, want))
	}
	return nil, nil
}

func (f Facts) create(a Create) (Action, []string) {
	blocked := f.objections(nil)
	if f.Template != "" {
		blocked = append(blocked, f.Template)
	}
	if more := len(ReadinessGates(f.ControlPlane)) - MaxReadinessGates; more > 0 {
		blocked = append(blocked, fmt.Sprintf("spec.machineTemplate.spec.readinessGates has %d more than a Machine can have in addition to those of its components: remove some", more))
	}
	return a, blocked
}

func (f Facts) remove(why string) (Action, []string) {
	staying := slices.DeleteFunc(slices.Clone(f.Machines), (*Machine).Deleting)
	leaver := Leaver(f.Cluster.Status.FailureDomains, staying, ManagesEtcd(f.ControlPlane))
	if leaver == nil {
		return nil, nil // all are on their way already
	}
	return Delete{leaver, why}, f.objections(leaver)
}

// surge is how many machines there may be beyond spec.replicas.
func surge(kcp *controlplanev1.KubeadmControlPlane) int {
	if s := kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge; s != nil && s.IntValue() == 0 {
		return 0
	}
	return 1
}

// objections are the results of the preflight checks, in order of relevance for a user.
// A machine to delete need not be healthy itself.
func (f Facts) objections(leaver *Machine) (all []string) {
	kcp := f.ControlPlane
	if want := scaling.Pending(f.Cluster, kcp.Spec.Version); leaver == nil && want != "" && len(f.Machines) > 0 {
		all = append(all, fmt.Sprintf("waiting for a version upgrade to %s to be propagated from the Cluster topology", want))
	}
	if leaver == nil && f.Certificates.Err != nil {
		all = append(all, fmt.Sprintf("the certificates are not available: %v", f.Certificates.Err))
	}
	if len(f.Machines) == 0 { // nothing to protect yet
		return all
	}
	for _, m := range f.Machines {
		switch {
		case m.Deleting():
			all = append(all, fmt.Sprintf("waiting for Machine %s to be deleted", m.Name))
		case busy(m, leaver):
			all = append(all, fmt.Sprintf("waiting for Machine %s to be updated in place", m.Name))
		}
	}
	if !Initialized(kcp) {
		return append(all, "waiting for the control plane to be initialized")
	}
	if !f.Workload.Connected {
		all = append(all, "waiting for a connection to the workload cluster")
	}
	_, replacing := kcp.Annotations[controlplanev1.RemediationInProgressAnnotation]
	replacing = replacing && leaver == nil
	for _, m := range f.Machines {
		switch {
		case m == leaver || m.Deleting() || replacing && (m.Node() != "" || healthcheck.MarkedForRemediation(m.Machine)):
		case m.Node() == "":
			all = append(all, fmt.Sprintf("waiting for Machine %s to have a Node", m.Name))
		default:
			for _, sick := range Unhealthy(m, ManagesEtcd(kcp)) {
				all = append(all, fmt.Sprintf("waiting for Machine %s to report %s", m.Name, sick))
			}
		}
	}
	if !replacing || !f.Workload.Connected {
		return all
	}
	return append(all, f.replacementObjections()...)
}

// replacementObjections are what stands against a replacement. Without it, the control
// plane is one failure closer to losing the quorum, so it does not wait for other
// unhealthy machines: as upstream, for one that serves and for the quorum of etcd.
func (f Facts) replacementObjections() (all []string) {
	if !componentsRemainWithout(f.Machines, nil) {
		all = append(all, "waiting for a Machine with healthy control plane components")
	}
	switch why := f.replacement(nil).Objection(); {
	case !ManagesEtcd(f.ControlPlane):
	case f.Etcd.Err != nil:
		all = append(all, fmt.Sprintf("waiting for the etcd members to be known: %v", f.Etcd.Err))
	case why != "":
		all = append(all, "waiting for etcd, which could lose its quorum: "+why)
	}
	return all
}

// replacement describes the replacement of a machine, or of a deleted one.
func (f Facts) replacement(leaving *Machine) quorum.Replacement {
	r := quorum.Replacement{Members: f.Etcd.Members}
	for _, m := range f.Machines {
		if m == leaving {
			r.Leaving = m.Node()
		} else if m.Node() != "" { // one without a Node is unhealthy too, and not starting: noMachineStarts
			r.Staying = append(r.Staying, m.Node())
		}
	}
	return r
}

// Unhealthy are the conditions of a machine's components that are not True.
func Unhealthy(m *Machine, managesEtcd bool) (types []string) {
	for _, t := range ComponentConditions(managesEtcd) {
		if !conditions.IsTrue(m.Health, t) {
			types = append(types, t)
		}
	}
	return types
}

// ComponentConditions are those of the components on one machine.
func ComponentConditions(managesEtcd bool) []string {
	types := []string{
		controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
	}
	if managesEtcd {
		types = append(types,
			controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
			controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition)
	}
	return types
}
