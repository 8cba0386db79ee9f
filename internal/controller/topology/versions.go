// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// readVersions reads the version of each part.
func (r *Reconciler) readVersions(ctx context.Context, s *state) (_ reconciler.Next, err error) {
	s.facts.Upgrade, err = r.versions(ctx, s)
	return reconciler.Continue(), err
}

// planVersions decides which version each part gets, and calls hooks for that. An
// incomplete plan starts nothing that has to wait, so that the remaining phases can
// use it.
func (r *Reconciler) planVersions(ctx context.Context, s *state) (reconciler.Next, error) {
	made, err := decisions.Make(ctx, upgrade.Planner, s.facts.Upgrade, func(q upgrade.Question) (upgrade.Answer, error) { return r.ask(ctx, s, q) })
	s.facts.Plan = &made.Plan
	if err != nil {
		s.problems = append(s.problems, err)
	}
	if made.Plan.Wait {
		return reconciler.Wait(made.Plan.RetryAfter), nil
	}
	return reconciler.RequeueAfter(made.Plan.RetryAfter), nil
}

// versions returns the facts of an upgrade.
func (r *Reconciler) versions(ctx context.Context, s *state) (f upgrade.Facts, err error) {
	c := s.cluster
	f = upgrade.Facts{
		Target:        s.wanted.Spec.Topology.Version,
		Creating:      !c.Spec.InfrastructureRef.IsDefined() && !c.Spec.ControlPlaneRef.IsDefined(),
		Initialized:   conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition),
		Pending:       inplace.Names(c.Annotations[runtimev1.PendingHooksAnnotation]),
		Step:          c.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation],
		Versions:      s.class.Spec.KubernetesVersions,
		PlanExtension: s.class.Spec.Upgrade.External.GenerateUpgradePlanExtension,
	}
	for name := range c.Annotations {
		if strings.HasPrefix(name, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix) {
			f.Annotations = append(f.Annotations, name)
		}
	}
	slices.Sort(f.Annotations)
	if f.Concurrency, err = concurrency(c); err != nil {
		s.problems = append(s.problems, err)
	}
	if f.ControlPlane, err = s.controlPlane(); err != nil {
		return f, err
	}
	f.Workers, err = r.workers(ctx, s)
	return f, err
}

func concurrency(c *clusterv1.Cluster) (int, error) {
	const name = clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation
	text, set := c.Annotations[name]
	if !set {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 1, fmt.Errorf("annotation %s of Cluster %s/%s is %q: set a whole number of at least 1", name, c.Namespace, c.Name, text)
	}
	return n, nil
}

// controlPlane returns the facts about the control plane for an upgrade.
func (s *state) controlPlane() (cp upgrade.ControlPlane, err error) {
	cp.Kind = provider.CopyKind(s.blueprint.ControlPlane.Template.GroupVersionKind().GroupKind()).Kind
	obj := s.current.ControlPlane
	if obj == nil {
		return cp, nil
	}
	of, err := contract.ControlPlaneFor(s.contract)
	if err != nil {
		return cp, err
	}
	cp.Exists, cp.Kind = true, obj.GetKind()
	if cp.Version, _, err = of.Version.Get(obj); err != nil {
		return cp, err
	}
	provisioning, err := of.IsProvisioning(obj)
	if err != nil {
		return cp, err
	}
	if !provisioning {
		if cp.Reported, _, err = of.StatusVersion.Get(obj); err != nil {
			return cp, err
		}
		if cp.Reported == "" { // it may report an upgrade only by its versions
			cp.Reported = cp.Version
		}
	}
	cp.Upgrading, err = of.IsUpgrading(obj)
	return cp, err
}

// workers returns the groups of workers for an upgrade: those of the topology in
// its order, and then those that will be deleted. A group whose version cannot be
// determined counts as upgrading.
func (r *Reconciler) workers(ctx context.Context, s *state) (all []upgrade.Group, err error) {
	var machines clusterv1.MachineList
	of := []client.ListOption{client.InNamespace(s.cluster.Namespace), client.MatchingFields{index.ClusterName: s.cluster.Name}, client.UnsafeDisableDeepCopy}
	if err := r.Mgmt.List(ctx, &machines, of...); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	byDeployment := map[string][]*clusterv1.Machine{}
	for i := range machines.Items {
		m := &machines.Items[i]
		name := m.Labels[clusterv1.MachineDeploymentNameLabel]
		byDeployment[name] = append(byDeployment[name], m)
	}
	seen := map[upgrade.GroupKey]bool{}
	add := func(kind string, w *blueprint.Workers, wanted bool) {
		g := upgrade.Group{Kind: kind, Name: w.Name, Wanted: wanted, Deferred: w.Deferred, Held: w.Held}
		seen[g.Key()] = true
		if found := s.groups[g.Key()]; found != nil {
			g.Exists, g.Object, g.Version = true, found.Object.GetName(), found.version
			var err error
			if g.Upgrading, err = r.groupUpgrading(ctx, s, found, byDeployment[g.Object]); err != nil {
				s.problems, g.Upgrading = append(s.problems, err), true
			}
		}
		all = append(all, g)
	}
	for i := range s.blueprint.MachineDeployments {
		add(upgrade.MachineDeployment, &s.blueprint.MachineDeployments[i].Workers, true)
	}
	for i := range s.blueprint.MachinePools {
		add(upgrade.MachinePool, &s.blueprint.MachinePools[i].Workers, true)
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.groups), byName) {
		if !seen[key] {
			add(key.Kind, &blueprint.Workers{Name: key.Name}, false)
		}
	}
	return all, nil
}

func byName(a, b upgrade.GroupKey) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
}

// groupUpgrading reports whether a group has members that do not run its version.
// The versions of a pool's Nodes are not available while the cluster is not
// connected, which matters, and triggers a reconcile, only during an upgrade.
func (r *Reconciler) groupUpgrading(ctx context.Context, s *state, g *group, machines []*clusterv1.Machine) (bool, error) {
	if g.pool == nil {
		return workload.DeploymentUpgrading(machines, g.version)
	}
	upgrading, err := workload.PoolUpgrading(ctx, r.Workload, g.pool, g.version)
	if errors.Is(err, workload.ErrNotConnected) {
		return underWay(s.cluster), nil
	}
	return upgrading, err
}

// underWay reports whether a Cluster is being upgraded.
func underWay(c *clusterv1.Cluster) bool {
	return c.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation] != "" || c.Annotations[runtimev1.PendingHooksAnnotation] != ""
}
