// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// facts are those of a Cluster at v1.33.0 with groups, and their plan, which has
// nothing to do.
func facts(change ...func(*Facts)) Facts {
	f := Facts{
		Upgrade: upgrade.Facts{Target: "v1.33.0", ControlPlane: upgrade.ControlPlane{Kind: "Plane", Exists: true, Version: "v1.33.0", Reported: "v1.33.0"}},
		Plan:    &upgrade.Plan{ControlPlane: upgrade.Decision{Version: "v1.33.0", State: upgrade.Current}, Workers: map[upgrade.GroupKey]upgrade.Decision{}},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func to(target string) func(*Facts) { return func(f *Facts) { f.Upgrade.Target = target } }
func plane(version string, state upgrade.State) func(*Facts) {
	return func(f *Facts) { f.Plan.ControlPlane = upgrade.Decision{Version: version, State: state} }
}
func moving(f *Facts) { f.Upgrade.ControlPlane.Upgrading = true }
func planned(controlPlane, workers string) func(*Facts) {
	return func(f *Facts) {
		f.Plan.ControlPlaneUpgrades, f.Plan.WorkersUpgrades = strings.Fields(controlPlane), strings.Fields(workers)
	}
}
func marked(f *Facts) { f.Plan.Pending = []string{upgrade.AfterClusterUpgrade} }
func blocks(hook, message string) func(*Facts) {
	return func(f *Facts) {
		f.Plan.Blocking = append(f.Plan.Blocking, upgrade.Blocking{Hook: hook, Message: message})
	}
}

// some adds groups by their names, as md/a.
func some(version string, state upgrade.State, names ...string) func(*Facts) {
	return func(f *Facts) {
		for _, n := range names {
			kind, name, _ := strings.Cut(n, "/")
			g := upgrade.Group{Kind: map[string]string{"md": upgrade.MachineDeployment, "mp": upgrade.MachinePool}[kind], Name: name, Wanted: true}
			if state != upgrade.PendingCreation {
				g.Exists, g.Object = true, "c-"+name
			}
			f.Upgrade.Workers = append(f.Upgrade.Workers, g)
			f.Plan.Workers[g.Key()] = upgrade.Decision{Version: version, State: state}
		}
	}
}
func lastUpgrades(f *Facts) { f.Upgrade.Workers[len(f.Upgrade.Workers)-1].Upgrading = true }
func lastUnwanted(f *Facts) { f.Upgrade.Workers[len(f.Upgrade.Workers)-1].Wanted = false }

func TestCondition(t *testing.T) {
	t.Parallel()
	const (
		upgrading = "False ClusterUpgrading: Cluster is upgrading to v1.34.0"
		pending   = "\n  * Plane pending upgrade to version v1.34.0"
	)
	for name, tc := range map[string]struct {
		facts Facts
		want  string
	}{
		"paused":                  {Facts{Paused: []string{PausedBySpec, PausedByAnnotation}, Deleting: true}, "False Paused: Cluster spec.paused is set to true, Cluster has the cluster.x-k8s.io/paused annotation"},
		"what is not tried again": {Facts{Err: errors.New("variables: terminal error: boom")}, "False ReconcileFailed: variables: boom"},
		"deleting":                {Facts{Deleting: true, Err: errors.New("boom")}, "False Deleting: Cluster is deleting"},
		"deletion waits":          {Facts{Deleting: true, DeleteHook: &upgrade.Blocking{Hook: "BeforeClusterDelete", Message: "busy"}}, "False Deleting: Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: busy"},
		"class":                   {Facts{ClassProblem: "it is not ready"}, "False ClusterClassNotReconciled: it is not ready"},
		"failed":                  {facts(func(f *Facts) { f.Err = errors.New("boom") }, blocks("H", "")), "False ReconcileFailed: boom"},
		"creation waits":          {Facts{Plan: &upgrade.Plan{Wait: true, Blocking: []upgrade.Blocking{{Hook: "BeforeClusterCreate", Message: "no quota"}}}}, "False ClusterCreating: Following hooks are blocking Cluster topology creation: BeforeClusterCreate: no quota"},
		"done":                    {facts(some("v1.33.0", upgrade.Current, "md/a", "mp/p")), "True ReconcileSucceeded: "},
		"a start":                 {facts(func(f *Facts) { f.Upgrade.ControlPlane = upgrade.ControlPlane{Kind: "Plane"} }), "True ReconcileSucceeded: "},
		"a control plane starts":  {facts(func(f *Facts) { f.Upgrade.ControlPlane.Reported = "" }), "True ReconcileSucceeded: "},

		"an upgrade is held": {facts(to("v1.34.0"), blocks("BeforeClusterUpgrade", "annotation x is set"), plane("v1.33.0", upgrade.PendingUpgrade), planned("v1.34.0", "v1.34.0"), some("v1.33.0", upgrade.PendingUpgrade, "md/a")), upgrading + "\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: annotation x is set" + pending + "\n  * MachineDeployment c-a pending upgrade to version v1.34.0"},
		"changes are held":   {facts(to("v1.34.0"), plane("v1.33.0", upgrade.PendingUpgrade), planned("v1.34.0", ""), func(f *Facts) { f.Held = []string{"Plane demo: spec.replicas"} }), upgrading + pending + "\n  * Changes held until its upgrade starts: Plane demo: spec.replicas"},
		"hooks by name":      {facts(to("v1.34.0"), blocks("B", "b"), blocks("A", "")), upgrading + "\n  * Following hooks are blocking upgrade: A; B: b" + pending},
		"a step":             {facts(to("v1.36.0"), plane("v1.34.0", upgrade.Upgrade), planned("v1.34.0 v1.35.0 v1.36.0", "v1.36.0")), "False ClusterUpgrading: Cluster is upgrading to v1.36.0\n  * Plane upgrading to version v1.34.0 (v1.35.0, v1.36.0 pending)"},
		"a step under way":   {facts(to("v1.36.0"), plane("v1.34.0", upgrade.Current), moving, planned("v1.35.0 v1.36.0", "v1.36.0")), "False ClusterUpgrading: Cluster is upgrading to v1.36.0\n  * Plane upgrading to version v1.34.0 (v1.35.0, v1.36.0 pending)"},
		"the last step":      {facts(to("v1.34.0"), plane("v1.34.0", upgrade.Current), moving), upgrading + "\n  * Plane upgrading to version v1.34.0"},
		"several ahead":      {facts(to("v1.36.0"), plane("v1.34.0", upgrade.PendingUpgrade), planned("v1.35.0 v1.36.0", "v1.34.0 v1.36.0"), some("v1.34.0", upgrade.Upgrade, "md/a"), some("v1.33.0", upgrade.PendingUpgrade, "md/b")), "False ClusterUpgrading: Cluster is upgrading to v1.36.0\n  * Plane pending upgrade to version v1.35.0, v1.36.0\n  * MachineDeployment c-a upgrading to version v1.34.0 (v1.36.0 pending)\n  * MachineDeployment c-b pending upgrade to version v1.34.0, v1.36.0"},
		"groups of all sorts": {facts(to("v1.34.0"), plane("v1.34.0", upgrade.Current), planned("", "v1.34.0"), marked,
			some("v1.34.0", upgrade.PendingCreation, "mp/n", "md/n"), some("v1.33.0", upgrade.Deferred, "md/f", "mp/f"), some("v1.33.0", upgrade.PendingUpgrade, "mp/x", "mp/w", "mp/z", "mp/y", "mp/v", "md/d", "md/c"), some("v1.34.0", upgrade.Upgrade, "md/b"), some("v1.34.0", upgrade.Current, "md/a"), lastUpgrades),
			upgrading + "\n  * MachineDeployments c-a, c-b upgrading to version v1.34.0\n  * MachineDeployments c-c, c-d pending upgrade to version v1.34.0\n  * MachineDeployment c-f upgrade to version v1.34.0 deferred using defer-upgrade or hold-upgrade-sequence annotations\n  * MachineDeployment n creation deferred while control plane upgrade is in progress" +
				"\n  * MachinePools c-v, c-w, c-x, ... (2 more) pending upgrade to version v1.34.0\n  * MachinePool c-f upgrade to version v1.34.0 deferred using topology.cluster.x-k8s.io/defer-upgrade or hold-upgrade-sequence annotations\n  * MachinePool n creation deferred while control plane upgrade is in progress"},
		"deferred alone":                   {facts(to("v1.34.0"), plane("v1.34.0", upgrade.Current), marked, some("v1.33.0", upgrade.Deferred, "mp/p", "md/b", "md/a")), "False MachineDeploymentsUpgradeDeferred: MachineDeployments c-a, c-b upgrade to version v1.34.0 deferred using defer-upgrade or hold-upgrade-sequence annotations"},
		"pools deferred alone":             {facts(to("v1.34.0"), plane("v1.34.0", upgrade.Current), marked, some("v1.33.0", upgrade.Deferred, "mp/p")), "False MachinePoolsUpgradeDeferred: MachinePool c-p upgrade to version v1.34.0 deferred using topology.cluster.x-k8s.io/defer-upgrade or hold-upgrade-sequence annotations"},
		"a plane waits for the deferred":   {facts(to("v1.34.0"), plane("v1.33.0", upgrade.PendingUpgrade), marked, some("v1.30.0", upgrade.Deferred, "md/a")), "False MachineDeploymentsUpgradeDeferred: MachineDeployment c-a upgrade to version v1.34.0 deferred using defer-upgrade or hold-upgrade-sequence annotations"},
		"deferred, and one upgrades":       {facts(to("v1.34.0"), plane("v1.34.0", upgrade.Current), some("v1.33.0", upgrade.Deferred, "md/a"), some("v1.34.0", upgrade.Upgrade, "mp/p")), upgrading + "\n  * MachineDeployment c-a upgrade to version v1.34.0 deferred using defer-upgrade or hold-upgrade-sequence annotations\n  * MachinePool c-p upgrading to version v1.34.0"},
		"the end is not told yet":          {facts(to("v1.34.0"), plane("v1.34.0", upgrade.Current), marked), upgrading},
		"one that is to go does not count": {facts(some("v1.33.0", upgrade.Current, "md/a"), lastUpgrades, lastUnwanted), "True ReconcileSucceeded: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Condition(tc.facts)
			if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != tc.want || c.Type != "TopologyReconciled" {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		c := Condition(Facts{Err: errors.New(strings.Repeat("x", n) + strings.Repeat("ü", 100_000))})
		if len(c.Message) > maxMessage || !utf8.ValidString(c.Message) || !strings.HasSuffix(c.Message, "ü...") {
			t.Errorf("%d bytes, ends with %q", len(c.Message), c.Message[len(c.Message)-10:])
		}
	}
}
