// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// decide has all parts be in a state, at a version.
func decide(w *world, version string, state upgrade.State) {
	d := upgrade.Decision{Version: version, State: state}
	w.plan = &upgrade.Plan{ControlPlane: d, Workers: map[upgrade.GroupKey]upgrade.Decision{}}
	for _, name := range []string{"md-0", "md-1"} {
		w.plan.Workers[upgrade.GroupKey{Kind: upgrade.MachineDeployment, Name: name}] = d
	}
	w.plan.Workers[upgrade.GroupKey{Kind: upgrade.MachinePool, Name: "mp-0"}] = d
}

// change changes everything: the versions, what machines are made from, and what
// changes nothing of them.
func change(w *world) {
	for _, template := range []string{"PlaneTemplate/plane", "HostTemplate/plane-hosts", "HostTemplate/big-hosts", "SeedTemplate/seed", "PondTemplate/pond"} {
		w.templates[template].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["changed"] = true
	}
	topology := &w.cluster.Spec.Topology
	topology.Version = "v1.34.0"
	topology.ControlPlane.Replicas = new(int32(5))
	topology.ControlPlane.Metadata.Labels = map[string]string{"changed": "1"}
	topology.ControlPlane.Rollout.After.Time = topology.ControlPlane.Rollout.After.AddDate(1, 0, 0)
	topology.ControlPlane.Deletion.NodeDrainTimeoutSeconds = new(int32(77))
	w.class.Spec.ControlPlane.Taints = nil
	w.class.Spec.ControlPlane.HealthCheck.Checks.NodeStartupTimeoutSeconds = new(int32(77))
	g := group0(w)
	g.Replicas, g.MinReadySeconds, g.FailureDomain = new(int32(5)), new(int32(77)), "fd-other"
	g.Metadata.Labels = map[string]string{"changed": "1"}
	g.Rollout.After = topology.ControlPlane.Rollout.After
	g.Deletion.NodeDrainTimeoutSeconds = new(int32(77))
	g.HealthCheck.Enabled = new(true)
	mp := &topology.Workers.MachinePools[0]
	mp.Replicas, mp.MinReadySeconds, mp.Metadata.Labels = new(int32(5)), new(int32(77)), map[string]string{"changed": "1"}
}

// kept reports errors in an environment in which everything has changed, and machines
// must be unchanged.
func kept(t *testing.T, before, after desired.Desired) {
	t.Helper()
	if after.ControlPlane.Hosts != nil || deployment(t, after, "md-0").Bootstrap != nil || deployment(t, after, "md-0").Hosts != nil || after.Pools[0].Bootstrap != nil || after.Pools[0].Hosts != nil {
		t.Error("templates are written")
	}
	same := func(of func(testing.TB, desired.Desired) *unstructured.Unstructured, paths ...string) {
		for _, path := range paths {
			if diff := cmp.Diff(at(t, of(t, before), path), at(t, of(t, after), path)); diff != "" {
				t.Errorf("%s (-before +after):\n%s", path, diff)
			}
		}
	}
	same(plane, "spec version", "spec init", "spec args", "spec changed", "spec rollout", "spec machineTemplate spec infrastructureRef", "metadata annotations cluster.x-k8s.io/cloned-from-name")
	same(md0, "spec template spec version", "spec template spec bootstrap", "spec template spec infrastructureRef", "spec template spec failureDomain", "spec rollout after", "spec selector", "metadata name")
	same(pool, "spec template spec version", "spec template spec bootstrap", "spec template spec infrastructureRef", "metadata name")
	for _, c := range []check{
		{plane, "spec replicas", int64(5)}, {plane, "metadata labels changed", "1"}, {plane, "spec machineTemplate metadata labels changed", "1"}, {plane, "spec machineTemplate spec taints", nil},
		{plane, "spec machineTemplate spec deletion nodeDrainTimeoutSeconds", int64(77)},
		{func(_ testing.TB, d desired.Desired) *unstructured.Unstructured { return d.ControlPlane.HealthCheck }, "spec checks nodeStartupTimeoutSeconds", int64(77)},
		{md0, "spec replicas", int64(5)}, {md0, "metadata labels changed", "1"}, {md0, "spec template metadata labels changed", "1"}, {md0, "spec template spec minReadySeconds", int64(77)},
		{md0, "spec template spec deletion nodeDrainTimeoutSeconds", int64(77)}, {md0, "spec rollout strategy type", "RollingUpdate"},
		{pool, "spec replicas", int64(5)}, {pool, "spec template metadata labels changed", "1"}, {pool, "spec template spec minReadySeconds", int64(77)},
	} {
		if diff := cmp.Diff(c.want, at(t, c.of(t, after), c.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
	if deployment(t, after, "md-0").HealthCheck == nil {
		t.Error("the health check of md-0 waits")
	}
}

// held reports errors in an environment in which everything has changed, and all parts
// wait for their upgrade.
func held(t *testing.T, before, after desired.Desired) {
	t.Helper()
	if after.ControlPlane.Hosts != nil || deployment(t, after, "md-0").Bootstrap != nil || deployment(t, after, "md-0").Hosts != nil || after.Pools[0].Bootstrap != nil || after.Pools[0].Hosts != nil {
		t.Error("templates are written")
	}
	for name, of := range map[string]func(testing.TB, desired.Desired) *unstructured.Unstructured{"control plane": plane, "md-0": md0, "pool": pool} {
		if diff := cmp.Diff(of(t, before), of(t, after)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
	if at(t, after.ControlPlane.HealthCheck, "spec checks nodeStartupTimeoutSeconds") != int64(77) || deployment(t, after, "md-0").HealthCheck == nil {
		t.Error("health checks wait")
	}
	const template = "spec.template."
	for name, tc := range map[string]struct{ got, want []string }{
		"control plane": {after.ControlPlane.Held, []string{"metadata.labels.changed", "spec.replicas", "spec.rollout.after", "spec.machineTemplate.metadata.labels.changed", "spec.machineTemplate.spec.taints", "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds", "spec.machineTemplate.spec.infrastructureRef"}},
		"md-0":          {deployment(t, after, "md-0").Held, []string{"spec.replicas", "metadata.labels.changed", template + "metadata.labels.changed", template + "spec.minReadySeconds", template + "spec.failureDomain", template + "spec.deletion.nodeDrainTimeoutSeconds", template + "spec.infrastructureRef", template + "spec.bootstrap.configRef"}},
		"pool":          {after.Pools[0].Held, []string{"spec.replicas", template + "metadata.labels.changed", template + "spec.minReadySeconds"}},
	} {
		for _, field := range tc.want {
			if !slices.Contains(tc.got, field) {
				t.Errorf("%s: held are %v, want %s", name, tc.got, field)
			}
		}
		if slices.ContainsFunc(tc.got, func(field string) bool {
			return strings.HasSuffix(field, "ersion") || strings.HasPrefix(field, "metadata.n")
		}) {
			t.Errorf("%s: held are %v", name, tc.got)
		}
	}
}

func TestWhatWaitsStaysAsItIs(t *testing.T) {
	t.Parallel()
	for _, state := range []upgrade.State{upgrade.PendingUpgrade, upgrade.Deferred} {
		w := load(t, "class.yaml")
		before := w.write(t)
		change(w)
		decide(w, "v1.33.0", state)
		w.plan.ControlPlane.State = upgrade.PendingUpgrade
		held(t, before, w.write(t))
		// The next time the result is the same, and then all changes are applied
		// together.
		held(t, before, w.write(t))
		w.plan = nil
		done := w.compute(t)
		for _, c := range []check{
			{plane, "spec version", "v1.34.0"}, {plane, "spec changed", true}, {plane, "spec replicas", int64(5)}, {md0, "spec replicas", int64(5)}, {pool, "spec replicas", int64(5)}, {plane, "spec rollout after", "2031-01-01T00:00:00Z"}, {planeHosts, "spec template spec changed", true},
			{md0, "spec template spec version", "v1.34.0"}, {md0Hosts, "spec template spec changed", true}, {md0, "spec template spec failureDomain", "fd-other"},
			{pool, "spec template spec version", "v1.34.0"}, {func(_ testing.TB, d desired.Desired) *unstructured.Unstructured { return d.Pools[0].Hosts }, "spec changed", true},
		} {
			if diff := cmp.Diff(c.want, at(t, c.of(t, done), c.path)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", state, c.path, diff)
			}
		}
		if name := done.ControlPlane.Hosts.GetName(); name == before.ControlPlane.Hosts.GetName() || at(t, done.ControlPlane.Object, "spec machineTemplate spec infrastructureRef name") != name {
			t.Errorf("%s: the template of the control plane is %s", state, name)
		}
	}
}

// What waits may still have to make machines.
func TestATemplateThatIsGoneIsMadeAgainWhileOthersWait(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	before := w.write(t)
	decide(w, "v1.33.0", upgrade.PendingUpgrade)
	w.current.Hosts, w.current.Deployments["md-0"].Hosts, w.current.Deployments["md-0"].Bootstrap = nil, nil, nil
	after := w.compute(t)
	for name, pair := range map[string][2]*unstructured.Unstructured{
		"of the control plane": {before.ControlPlane.Hosts, after.ControlPlane.Hosts},
		"hosts of md-0":        {md0Hosts(t, before), md0Hosts(t, after)},
		"bootstrap of md-0":    {deployment(t, before, "md-0").Bootstrap, deployment(t, after, "md-0").Bootstrap},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// One that the class has changed since would replace machines.
	change(w)
	decide(w, "v1.33.0", upgrade.PendingUpgrade)
	if after = w.compute(t); after.ControlPlane.Hosts != nil || md0Hosts(t, after) != nil || deployment(t, after, "md-0").Bootstrap != nil {
		t.Error("templates are made that would replace machines")
	}
}

// TestAControlPlaneThatIsNotUpYetCanBeCorrected: a control plane that cannot start with
// its template could otherwise never be upgraded.
func TestAControlPlaneThatIsNotUpYetCanBeCorrected(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]map[string]any{"it is being made": {}, "it replaces machines for the target": {"version": "v1.32.0"}} {
		w := load(t, "class.yaml")
		w.write(t)
		change(w)
		decide(w, "v1.33.0", upgrade.PendingUpgrade)
		w.plan.ControlPlane.State = upgrade.Current
		w.current.ControlPlane.Object["status"] = status
		d := w.compute(t)
		if at(t, d.ControlPlane.Object, "spec changed") != true || at(t, d.ControlPlane.Object, "spec version") != "v1.33.0" || d.ControlPlane.Hosts == nil {
			t.Errorf("%s: it stays as it is", name)
		}
	}
}

func TestAGroupThatIsNotToBeMadeYetIsNotThere(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	decide(w, "v1.33.0", upgrade.PendingCreation)
	w.plan.ControlPlane.State = upgrade.Current
	d := w.compute(t)
	if g := deployment(t, d, "md-1"); g.Object != nil || g.HealthCheck != nil || g.Bootstrap != nil || g.Err != nil {
		t.Errorf("md-1 is %+v", g)
	}
	if d.ControlPlane.Object == nil || d.ControlPlane.HealthCheck == nil {
		t.Error("the control plane is not there")
	}
}

// extension returns configured answers.
type extension struct {
	generate func(patches.Question) (*hooksv1.GeneratePatchesResponse, error)
	validate func(patches.Validation) error
	asked    []patches.Question
	judged   []patches.Validation
}

func (e *extension) GeneratePatches(q patches.Question) (*hooksv1.GeneratePatchesResponse, error) {
	e.asked = append(e.asked, q)
	if e.generate == nil {
		return &hooksv1.GeneratePatchesResponse{}, nil
	}
	return e.generate(q)
}

func (e *extension) ValidateTopology(v patches.Validation) error {
	e.judged = append(e.judged, v)
	if e.validate == nil {
		return nil
	}
	return e.validate(v)
}

// external has a patch of the class made by an extension.
func external(w *world, name string, settings map[string]string) {
	w.class.Spec.Patches = append(w.class.Spec.Patches, clusterv1.ClusterClassPatch{Name: name, External: &clusterv1.ExternalPatchDefinition{
		GeneratePatchesExtension: "generate." + name, ValidateTopologyExtension: "validate." + name, Settings: settings,
	}})
}

func TestAnExtensionThatIsDownHoldsOnlyWhatItMakes(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	e := &extension{}
	w.ext = e
	external(w, "ext", nil)
	before := w.write(t)
	change(w)
	e.generate = func(patches.Question) (*hooksv1.GeneratePatchesResponse, error) { return nil, errors.New("it is down") }
	after := w.compute(t)
	want := []string{`patch "ext": extension generate.ext: it is down`}
	if diff := cmp.Diff(want, errs(after)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	// The machines of md-1 and mp-0 would have another version.
	kept(t, before, after)
	e.generate = func(patches.Question) (*hooksv1.GeneratePatchesResponse, error) {
		return &hooksv1.GeneratePatchesResponse{Items: []hooksv1.GeneratePatchesResponseItem{{UID: "other"}}}, nil
	}
	after = w.compute(t)
	if got := strings.Join(errs(after), "\n"); !strings.Contains(got, `extension generate.ext answered for item "other"`) {
		t.Errorf("errors %s", got)
	}
	kept(t, before, after)
	// No object is created whose desired state is not known.
	w.current = desired.Current{}
	if d := w.compute(t); len(d.Objects()) > 0 {
		t.Errorf("made are %v", d.Objects())
	}
}
