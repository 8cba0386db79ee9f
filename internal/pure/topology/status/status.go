// SPDX-License-Identifier: Apache-2.0

// Package status says how far a Cluster is what its topology says: the condition
// TopologyReconciled.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/topology/upgrade"
)

// Facts are what a reconcile found and did. The first that holds, in this order,
// makes the condition.
type Facts struct {
	Paused       []string          // why; empty if it is not
	Deleting     bool              // the Cluster is
	DeleteHook   *upgrade.Blocking // what holds its deletion back; nil for nothing
	ClassProblem string            // why the class cannot be used yet
	Err          error             // of any part
	Upgrade      upgrade.Facts     // with
	Plan         *upgrade.Plan     // made from them; nil if it was not
}

// Why a Cluster is paused.
const (
	PausedBySpec       = "Cluster spec.paused is set to true"
	PausedByAnnotation = "Cluster has the cluster.x-k8s.io/paused annotation"
)

// maxMessage is how long the message of a condition may be.
const maxMessage = 10240

// Condition makes the condition, without times and generation.
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
		c.Reason, c.Message = clusterv1.ClusterTopologyReconciledFailedReason, f.Err.Error()
	case f.Plan == nil:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ClusterTopologyReconcileSucceededReason
	case f.Plan.Wait:
		c.Reason = clusterv1.ClusterTopologyReconciledClusterCreatingReason
		c.Message = "Following hooks are blocking Cluster topology creation: " + hooks(f.Plan.Blocking)
	default:
		upgrading(&c, f.Upgrade, f.Plan)
	}
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage-3], "") + "..."
	}
	return c
}

func hooks(all []upgrade.Blocking) string {
	var out []string
	for _, b := range all {
		out = append(out, strings.TrimSuffix(b.Hook+": "+b.Message, ": "))
	}
	return strings.Join(out, "; ")
}

// groups are the names of groups of a kind, by what becomes of them.
type groups struct{ upgrading, pending, creating, deferred []string }

func upgrading(c *metav1.Condition, f upgrade.Facts, p *upgrade.Plan) {
	deployments, pools := sorted(f, p, upgrade.MachineDeployment), sorted(f, p, upgrade.MachinePool)
	cp := f.ControlPlane
	moves := cp.Exists && (cp.Upgrading || p.ControlPlane.State == upgrade.Upgrade)
	waits := cp.Exists && p.ControlPlane.State == upgrade.PendingUpgrade
	quiet := len(p.Blocking) == 0 && !moves && !waits
	rest := func(g groups) bool { return len(g.upgrading)+len(g.pending)+len(g.creating) == 0 }
	switch {
	case quiet && rest(deployments) && rest(pools) && len(deployments.deferred) > 0:
		c.Reason = clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason
		c.Message = deferred(upgrade.MachineDeployment, deployments.deferred, f.Target)
	case quiet && rest(deployments) && rest(pools) && len(pools.deferred) > 0:
		c.Reason = clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason
		c.Message = deferred(upgrade.MachinePool, pools.deferred, f.Target)
	case quiet && rest(deployments) && rest(pools) && !slices.Contains(p.Pending, upgrade.AfterClusterUpgrade):
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ClusterTopologyReconcileSucceededReason
	default:
		c.Reason = clusterv1.ClusterTopologyReconciledClusterUpgradingReason
		lines := []string{"Cluster is upgrading to " + f.Target}
		if len(p.Blocking) > 0 {
			lines = append(lines, "Following hooks are blocking upgrade: "+hooks(p.Blocking))
		}
		ahead := slices.DeleteFunc(slices.Clone(p.ControlPlaneUpgrades), func(v string) bool { return v == p.ControlPlane.Version })
		switch {
		case moves && len(ahead) > 0:
			lines = append(lines, fmt.Sprintf("%s upgrading to version %s (%s pending)", cp.Kind, p.ControlPlane.Version, strings.Join(ahead, ", ")))
		case moves:
			lines = append(lines, fmt.Sprintf("%s upgrading to version %s", cp.Kind, p.ControlPlane.Version))
		case waits:
			lines = append(lines, fmt.Sprintf("%s pending upgrade to version %s", cp.Kind, cmp.Or(strings.Join(ahead, ", "), f.Target)))
		}
		lines = append(lines, told(upgrade.MachineDeployment, deployments, f, p)...)
		lines = append(lines, told(upgrade.MachinePool, pools, f, p)...)
		c.Message = strings.Join(lines, "\n  * ")
	}
}

func sorted(f upgrade.Facts, p *upgrade.Plan, kind string) (g groups) {
	for _, w := range f.Workers {
		if w.Kind != kind || !w.Wanted {
			continue
		}
		d := p.Workers[w.Key()]
		switch {
		case w.Exists && w.Upgrading, d.State == upgrade.Upgrade:
			g.upgrading = append(g.upgrading, w.Object)
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

func told(kind string, g groups, f upgrade.Facts, p *upgrade.Plan) (lines []string) {
	ahead := p.WorkersUpgrades
	if len(g.upgrading) > 0 {
		to, more := p.ControlPlane.Version, ""
		if i := slices.Index(ahead, to); i >= 0 {
			ahead = ahead[i+1:]
		}
		if len(ahead) > 0 {
			more = fmt.Sprintf(" (%s pending)", strings.Join(ahead, ", "))
		}
		lines = append(lines, fmt.Sprintf("%s upgrading to version %s%s", names(kind, g.upgrading), to, more))
	}
	if len(g.pending) > 0 {
		lines = append(lines, fmt.Sprintf("%s pending upgrade to version %s", names(kind, g.pending), cmp.Or(strings.Join(p.WorkersUpgrades, ", "), f.Target)))
	}
	if len(g.deferred) > 0 {
		lines = append(lines, deferred(kind, g.deferred, f.Target))
	}
	if len(g.creating) > 0 {
		lines = append(lines, names(kind, g.creating)+" creation deferred while control plane upgrade is in progress")
	}
	return lines
}

func deferred(kind string, all []string, to string) string {
	prefix := ""
	if kind == upgrade.MachinePool {
		prefix = "topology.cluster.x-k8s.io/"
	}
	return fmt.Sprintf("%s upgrade to version %s deferred using %sdefer-upgrade or hold-upgrade-sequence annotations", names(kind, all), to, prefix)
}

// names are those of some objects, three at most.
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
