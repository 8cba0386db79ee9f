// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"slices"
	"strings"
	"time"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Orders are what the owner of Machines needs before it replaces unhealthy ones: the
// conditions that request it can be from a check that was deleted, or from a process
// that has ended.
type Orders struct {
	Cluster *clusterv1.Cluster
	Checks  []*clusterv1.MachineHealthCheck // of the Cluster
	// Answering is since when the cluster has answered the owner's process
	// without a failure; zero while it does not.
	Answering time.Time
	Now       time.Time
	// Timeout is how long after Answering an earlier result is held until it is
	// confirmed; zero for no limit. An owner can run in another process than the check,
	// which then has no reason to confirm it.
	Timeout time.Duration
}

// MarkedForRemediation reports whether the owner of a Machine is requested to replace it.
func MarkedForRemediation(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, succeeded) && conditions.IsFalse(m, byOwner)
}

// Held lists the unhealthy Machines that must not be replaced for it now. A new result
// of a check arrives as a change of its Machine; until is when time alone makes a
// request valid.
func (o Orders) Held(machines []*clusterv1.Machine) (names []string, until time.Time) {
	for _, m := range machines {
		if !MarkedForRemediation(m) {
			continue
		}
		stands, at := o.stands(m)
		if stands {
			continue
		}
		names = append(names, m.Name)
		if until.IsZero() || !at.IsZero() && at.Before(until) {
			until = at
		}
	}
	return names, until
}

// stands reports whether the request to replace a Machine is valid, or from when it is.
func (o Orders) stands(m *clusterv1.Machine) (ok bool, at time.Time) {
	var check *clusterv1.MachineHealthCheck
	if said(m) {
		i := slices.IndexFunc(o.Checks, func(c *clusterv1.MachineHealthCheck) bool {
			_, paused := c.Annotations[clusterv1.PausedAnnotation]
			return !paused && covers(c, m)
		})
		if i < 0 {
			return false, at
		}
		check = o.Checks[i]
	}
	switch {
	case conditions.Reason(m, succeeded) == clusterv1.MachineHealthCheckHasRemediateAnnotationReason:
		return true, at
	case needsReport(o.Cluster, m) && o.Answering.IsZero():
		return false, at
	case !stale(m, check, o.Cluster, o.Answering):
		return true, at
	case o.Timeout > 0:
		at = o.Answering.Add(o.Timeout)
		return !o.Now.Before(at), at
	}
	return false, at
}

// stale reports whether a result is from before the cluster started to answer, or from
// before the check was paused, so that it may be outdated. The wire has whole seconds.
func stale(m *clusterv1.Machine, check *clusterv1.MachineHealthCheck, cluster *clusterv1.Cluster, answering time.Time) bool {
	var from time.Time
	if needsReport(cluster, m) {
		from = answering.Truncate(time.Second)
	}
	if check != nil && conditions.IsTrue(check, clusterv1.PausedCondition) {
		if at := conditions.Get(check, clusterv1.PausedCondition).LastTransitionTime; at.After(from) {
			from = at.Time
		}
	}
	is := conditions.Get(m, succeeded)
	return is != nil && is.LastTransitionTime.Time.Before(from)
}

// covers reports whether the results of a check for a Machine can count: it selects the
// Machine, and does not only report.
func covers(check *clusterv1.MachineHealthCheck, m *clusterv1.Machine) bool {
	return check.DeletionTimestamp.IsZero() && !ReportsOnly(check) && !left(m) && selects(check, m)
}

// Reach returns the parts of a check that determine which Machines it checks.
func Reach(check *clusterv1.MachineHealthCheck) []any {
	return []any{check.Spec.Selector, check.DeletionTimestamp.IsZero(), ReportsOnly(check)}
}

// said reports whether a check found a Machine unhealthy, and not a user or another
// controller: their conditions are theirs to remove.
func said(m *clusterv1.Machine) bool {
	return strings.Contains(conditions.Message(m, succeeded), signature)
}

// Withdraw removes the conditions of checks from a Machine, if no check selects it any
// longer. It does not undo a replacement that has started.
func Withdraw(m *clusterv1.Machine, checks []*clusterv1.MachineHealthCheck) {
	byOthers := !conditions.Has(m, succeeded) || conditions.IsFalse(m, succeeded) && !said(m)
	if byOthers || slices.ContainsFunc(checks, func(c *clusterv1.MachineHealthCheck) bool { return covers(c, m) }) {
		return
	}
	for _, t := range withdrawn(m) {
		conditions.Delete(m, t)
	}
}

// Checked reports whether the health of a Machine was reported.
func Checked(m *clusterv1.Machine) bool { return conditions.Has(m, succeeded) }
