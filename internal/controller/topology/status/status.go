// SPDX-License-Identifier: Apache-2.0

// Package status builds the condition TopologyReconciled, which reports how far a
// Cluster matches its topology.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// Facts are the observations and results of a reconcile. The first that applies, in this
// order, determines the condition.
type Facts struct {
	Paused       []string          // why; empty if it is not
	Deleting     bool              // the Cluster is being deleted
	DeleteHook   *upgrade.Blocking // what blocks its deletion; nil for nothing
	ClassProblem string            // why the class cannot be used yet
	Err          error             // of any part
	Upgrade      upgrade.Facts     // with Plan
	Plan         *upgrade.Plan     // computed from Upgrade; nil if it was not
	Held         []string          // changes that wait for an upgrade, as "object: fields"
}

// Reasons why a Cluster is paused.
const (
	PausedBySpec       = "Cluster spec.paused is set to true"
	PausedByAnnotation = "Cluster has the cluster.x-k8s.io/paused annotation"
)

// maxMessage is the maximum length of a condition's message, in v1beta1 too.
const maxMessage = 10240

// Condition builds the condition, without times and generation.
func Condition(f Facts) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse}
	switch {
	case len(f.Paused) > 0:
		c.Reason, c.Message = clusterv1.ClusterTopologyReconcilePausedReason, strings.Join(f.Paused, ", ")
	case f.Deleting:
		c.Reason, c.Message = clusterv1.ClusterTopologyReconciledDeletingReason, "Cluster is deleting"
		if f.DeleteHook != nil {
			c.Message += ". Following hooks are blocking delete: " + hooks([]upgrade.Blocking{*f.DeleteHook})
		}
	case f.ClassProblem != "":
		c.Reason, c.Message = clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason, f.ClassProblem
	case f.Err != nil:
		// That it is not retried is not relevant for users.
		c.Reason, c.Message = clusterv1.ClusterTopologyReconciledFailedReason, strings.ReplaceAll(f.Err.Error(), "terminal error: ", "")+f.held()
	case f.Plan == nil:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ClusterTopologyReconcileSucceededReason
	case f.Plan.Wait:
		c.Reason = clusterv1.ClusterTopologyReconciledClusterCreatingReason
		c.Message = "Following hooks are blocking Cluster topology creation: " + hooks(f.Plan.Blocking)
	default:
		upgrading(&c, f.Upgrade, f.Plan)
		c.Message += f.held()
	}
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage-3], "") + "..."
	}
	return c
}

func (f Facts) held() string {
	lines := ""
	for _, held := range f.Held {
		lines += "\n  * Changes held until its upgrade starts: " + held
	}
	return lines
}

// hooks joins the messages of hooks, sorted by name.
func hooks(all []upgrade.Blocking) string {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b upgrade.Blocking) int { return strings.Compare(a.Hook, b.Hook) })
	var out []string
	for _, b := range all {
		out = append(out, strings.TrimSuffix(b.Hook+": "+b.Message, ": "))
	}
	return strings.Join(out, "; ")
}

// groups are the names of groups of a kind, by state.
type groups struct {
	kind                                   string
	upgrading, pending, creating, deferred []string
	to                                     string // the target version of those that upgrade
}

// settled reports whether the groups wait only for their annotations.
func (g groups) settled() bool { return len(g.upgrading)+len(g.pending)+len(g.creating) == 0 }

func upgrading(c *metav1.Condition, f upgrade.Facts, p *upgrade.Plan) {
	deployments, pools := sorted(f, p, upgrade.MachineDeployment), sorted(f, p, upgrade.MachinePool)
	cp := f.ControlPlane
	moves := cp.Exists && (cp.Upgrading || p.ControlPlane.State == upgrade.Upgrade)
	waits := cp.Exists && !moves && p.ControlPlane.Version != f.Target
	quiet := !moves && len(p.Blocking) == 0 && deployments.settled() && pools.settled()
	switch {
	case quiet && len(deployments.deferred) > 0:
		c.Reason, c.Message = clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason, deferred(deployments, f)
		return
	case quiet && len(pools.deferred) > 0:
		c.Reason, c.Message = clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason, deferred(pools, f)
		return
	case quiet && !waits && !slices.Contains(p.Pending, upgrade.AfterClusterUpgrade):
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ClusterTopologyReconcileSucceededReason
		return
	}
	c.Reason = clusterv1.ClusterTopologyReconciledClusterUpgradingReason
	lines := []string{"Cluster is upgrading to " + f.Target}
	if len(p.Blocking) > 0 {
		lines = append(lines, "Following hooks are blocking upgrade: "+hooks(p.Blocking))
	}
	switch {
	case moves:
		lines = append(lines, fmt.Sprintf("%s upgrading to version %s%s", cp.Kind, p.ControlPlane.Version, after(p.ControlPlaneUpgrades, p.ControlPlane.Version)))
	case waits:
		lines = append(lines, fmt.Sprintf("%s pending upgrade to version %s", cp.Kind, ahead(p.ControlPlaneUpgrades, f)))
	}
	for _, g := range []groups{deployments, pools} {
		lines = append(lines, told(g, f, p)...)
	}
	c.Message = strings.Join(lines, "\n  * ")
}

// ahead are the versions of a plan; only the target if it could not be computed.
func ahead(steps []string, f upgrade.Facts) string {
	return cmp.Or(strings.Join(steps, ", "), f.Target)
}

// after are the versions of a plan after a version, in parentheses.
func after(steps []string, version string) string {
	if i := slices.Index(steps, version); i >= 0 {
		steps = steps[i+1:]
	}
	if len(steps) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s pending)", strings.Join(steps, ", "))
}

func sorted(f upgrade.Facts, p *upgrade.Plan, kind string) groups {
	g := groups{kind: kind}
	for _, w := range f.Workers {
		if w.Kind != kind || !w.Wanted {
			continue
		}
		d := p.Workers[w.Key()]
		switch {
		case w.Exists && w.Upgrading, d.State == upgrade.Upgrade:
			g.upgrading, g.to = append(g.upgrading, w.Object), cmp.Or(g.to, d.Version)
		case d.State == upgrade.PendingUpgrade:
			g.pending = append(g.pending, w.Object)
		case d.State == upgrade.PendingCreation:
			g.creating = append(g.creating, w.Name)
		case d.State == upgrade.Deferred:
			g.deferred = append(g.deferred, w.Object)
		}
	}
	return g
}

func told(g groups, f upgrade.Facts, p *upgrade.Plan) (lines []string) {
	if len(g.upgrading) > 0 {
		lines = append(lines, fmt.Sprintf("%s upgrading to version %s%s", names(g.kind, g.upgrading), g.to, after(p.WorkersUpgrades, g.to)))
	}
	if len(g.pending) > 0 {
		lines = append(lines, fmt.Sprintf("%s pending upgrade to version %s", names(g.kind, g.pending), ahead(p.WorkersUpgrades, f)))
	}
	if len(g.deferred) > 0 {
		lines = append(lines, deferred(g, f))
	}
	if len(g.creating) > 0 {
		lines = append(lines, names(g.kind, g.creating)+" creation deferred while control plane upgrade is in progress")
	}
	return lines
}

func deferred(g groups, f upgrade.Facts) string {
	prefix := ""
	if g.kind == upgrade.MachinePool {
		prefix = "topology.cluster.x-k8s.io/"
	}
	return fmt.Sprintf("%s upgrade to version %s deferred using %sdefer-upgrade or hold-upgrade-sequence annotations", names(g.kind, g.deferred), f.Target, prefix)
}

// names are the names of some objects, three at most.
func names(kind string, all []string) string {
	const most = 3
	slices.Sort(all)
	switch {
	case len(all) == 1:
		return kind + " " + all[0]
	case len(all) > most:
		return fmt.Sprintf("%ss %s, ... (%d more)", kind, strings.Join(all[:most], ", "), len(all)-most)
	}
	return kind + "s " + strings.Join(all, ", ")
}
