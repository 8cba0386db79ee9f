// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
)

// Unhealthy is the input of Remediation.
type Unhealthy struct {
	Machines []*clusterv1.Machine
	// Held names those Machines whose request for replacement is not valid now; see
	// healthcheck.Orders.
	Held []string
	// Outdated says that the set is not the current one of its MachineDeployment.
	Outdated bool
	// MaxInFlight is the maximum number of concurrent replacements; negative for no
	// limit.
	MaxInFlight int
	// Blocked is why the replacement of a Machine could not be created now.
	Blocked []string
}

// MaxInFlight resolves spec.remediation.maxInFlight of a MachineDeployment. A percentage
// refers to all its replicas, also while a rollout divides them among MachineSets. Without
// the field, or without a MachineDeployment, there is no limit.
func MaxInFlight(md *clusterv1.MachineDeployment) int {
	if md == nil || md.Spec.Remediation.MaxInFlight == nil {
		return -1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(md.Spec.Remediation.MaxInFlight, int(ptr.Deref(md.Spec.Replicas, 1)), true)
	if err != nil {
		return 0 // admission refuses such a value; zero is the safe interpretation
	}
	return n
}

// Decision is the decision for one Machine that is unhealthy, or was.
type Decision struct {
	Machine *clusterv1.Machine
	// Condition to set on the Machine; nil removes OwnerRemediated.
	Condition *metav1.Condition
	// Delete says whether the Machine is deleted, once it has the condition.
	Delete bool
}

// String is the text in logs, events and tests.
func (v Decision) String() string {
	switch {
	case v.Delete:
		return "replace " + v.Machine.Name + ": " + healthcheck.Why(v.Machine)
	case v.Condition == nil:
		return "keep " + v.Machine.Name + ": it is healthy again"
	default:
		return "keep " + v.Machine.Name + ": " + v.Condition.Message
	}
}

// Remediation decides about the Machines that a health check marked for replacement.
//
// Machines of an outdated set are left to the rollout. Otherwise the newest are deleted
// first, as many as may be in flight at a time; those already being deleted are in
// flight. None is deleted while its replacement could not be created. A Machine that has
// become healthy is no longer replaced, and one whose request is not valid stays as it
// is. At most one Batch of deletions is decided at a time.
func Remediation(u Unhealthy) []Decision {
	var out []Decision
	var candidates []*clusterv1.Machine
	inFlight := 0
	for _, m := range u.Machines {
		wanted := conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
		switch {
		case !wanted:
		case conditions.IsTrue(m, clusterv1.MachineHealthCheckSucceededCondition):
			if m.DeletionTimestamp.IsZero() {
				out = append(out, Decision{Machine: m})
			}
		case !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition):
		case !m.DeletionTimestamp.IsZero():
			inFlight++
		case slices.Contains(u.Held, m.Name):
		default:
			candidates = append(candidates, m)
		}
	}
	slices.SortFunc(candidates, func(a, b *clusterv1.Machine) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	going := inFlight
	for _, m := range candidates {
		if inFlight-going == Batch(len(u.Machines)) {
			break
		}
		v := u.decide(m, inFlight)
		if v.Delete {
			inFlight++
		}
		out = append(out, v)
	}
	return out
}

func (u Unhealthy) decide(m *clusterv1.Machine, inFlight int) Decision {
	c := metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse}
	switch {
	case u.Outdated:
		c.Reason = clusterv1.MachineSetMachineCannotBeRemediatedReason
		c.Message = "Machine is not replaced on its own: the rollout under way will replace it"
	case u.MaxInFlight >= 0 && inFlight >= u.MaxInFlight:
		c.Reason = clusterv1.MachineSetMachineRemediationDeferredReason
		c.Message = fmt.Sprintf("Waiting for other Machines to be replaced: at most %d at a time (spec.remediation.maxInFlight)", u.MaxInFlight)
	case len(u.Blocked) > 0:
		c.Reason = clusterv1.MachineSetMachineRemediationDeferredReason
		c.Message = "Waiting because no replacement can be created: " + strings.Join(u.Blocked, "; ")
	default:
		c.Reason = clusterv1.MachineSetMachineRemediationMachineDeletingReason
		c.Message = "Machine is being deleted and its MachineSet will replace it"
	}
	c.Message = healthcheck.Because(m, c.Message)
	return Decision{Machine: m, Condition: &c, Delete: c.Reason == clusterv1.MachineSetMachineRemediationMachineDeletingReason}
}
