// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"strings"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

const nobodyToAsk = "no other etcd member is healthy"

// Orphan is an etcd member without a machine.
type Orphan struct {
	quorum.Member
	Keep string // why it must not be removed now; empty if it can
}

// Orphans are the etcd members without a machine: they would count toward the majority
// permanently.
func Orphans(f Facts) (all []Orphan) {
	if f.Etcd.Err != nil {
		return nil
	}
	var nodes []string
	for _, m := range f.Machines {
		nodes = append(nodes, m.Node())
	}
	for _, m := range quorum.Orphans(f.Etcd.Members, nodes) {
		keep := quorum.MayRemove(f.Etcd.Members, m.ID)
		if keep == "" && len(f.Askable(nil)) == 0 {
			keep = nobodyToAsk
		}
		all = append(all, Orphan{m, keep})
	}
	return all
}

// Termination is the decision for a machine that is being deleted and held until its
// etcd member is removed: it waits, or its member is removed and the machine is
// released.
type Termination struct {
	Machine *Machine
	Early   string         // why its deletion has not reached this step; the Machine reports when it has
	Wait    string         // why it must not terminate although its deletion has reached this step
	Member  *quorum.Member // to remove first, if a new inspection permits it; nil if there is none
}

// Terminations decides about the held machines. If the whole cluster, or all machines,
// are being deleted, there is no etcd to protect.
func Terminations(f Facts) (all []Termination) {
	for _, m := range f.Machines {
		if !m.Deleting() || !m.marked(controlplanev1.PreTerminateHookCleanupAnnotation) {
			continue
		}
		t := Termination{Machine: m}
		if len(f.Machines) > 1 && f.Cluster.DeletionTimestamp.IsZero() {
			if t.Early = tooEarly(m); t.Early == "" {
				t.Member, t.Wait = f.leave(m)
			}
		}
		all = append(all, t)
	}
	return all
}

// tooEarly returns why a machine's deletion has not reached this step.
func tooEarly(m *Machine) string {
	if conditions.Reason(m, clusterv1.MachineDeletingCondition) != clusterv1.MachineDeletingWaitingForPreTerminateHookReason {
		return "its deletion has not come to the hooks yet"
	}
	for key := range m.Annotations {
		if strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix) && key != controlplanev1.PreTerminateHookCleanupAnnotation {
			return "hook " + key + " goes first: without its etcd member the Node may stop working"
		}
	}
	return ""
}

// leave returns which etcd member is removed with a machine, or why that has to wait:
// another machine must remain that serves the API, and that can remove the member.
func (f Facts) leave(m *Machine) (member *quorum.Member, wait string) {
	switch {
	case m.Node() == "":
		return nil, "" // it serves no client
	case Initialized(f.ControlPlane) && !componentsRemainWithout(f.Machines, m):
		return nil, "no other machine would be left with healthy control plane components" // their Pods trigger a reconcile
	case !ManagesEtcd(f.ControlPlane):
		return nil, ""
	case f.Etcd.Err != nil:
		// The connection triggers a reconcile, or the next inspection is scheduled.
		return nil, fmt.Sprintf("the etcd members are not known: %v", f.Etcd.Err)
	}
	member = f.Etcd.Member(m.Node())
	if member != nil && len(f.Askable(m)) == 0 {
		return nil, nobodyToAsk
	}
	return member, ""
}

// LeaderCandidates are the machines whose etcd members could become leader when one leaves.
func LeaderCandidates(f Facts, leaving *Machine) (all []quorum.Candidate) {
	for _, m := range f.Machines {
		if m == leaving || m.Node() == "" || m.Deleting() {
			continue
		}
		all = append(all, quorum.Candidate{
			Node:           m.Node(),
			MemberHealthy:  conditions.IsTrue(m.Health, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition),
			MachineHealthy: !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition),
			Current:        m.UpToDate,
			Created:        m.CreationTimestamp.Time,
		})
	}
	return all
}
