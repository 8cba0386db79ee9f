// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// anything changes a world at random.
func anything(w *world, r *rand.Rand) {
	some := func(n int) bool { return r.IntN(n) == 0 }
	topology := &w.cluster.Spec.Topology
	w.cluster.Name = strings.Repeat("c", 1+r.IntN(63))
	w.cluster.UID = types.UID(fmt.Sprint(r.IntN(10)))
	if some(3) {
		w.class.Spec.Infrastructure.Naming.Template = ""
		w.class.Spec.ControlPlane.Naming.Template = "{{ .random }}.{{ .cluster.name }}"
		w.class.Spec.Workers.MachineDeployments[0].Naming.Template = ""
	}
	if some(4) {
		delete(w.templates, []string{"FarmClusterTemplate/farm", "PlaneTemplate/plane", "HostTemplate/plane-hosts", "HostTemplate/big-hosts", "SeedTemplate/seed", "PondTemplate/pond"}[r.IntN(6)])
	}
	if some(4) {
		w.contract = "v1beta1"
	}
	for _, name := range slices.Sorted(maps.Keys(w.templates)) {
		if some(4) {
			spoil(w.templates[name].Object, r)
		}
	}
	for i := range r.IntN(3) {
		topology.Workers.MachineDeployments = append(topology.Workers.MachineDeployments, clusterv1.MachineDeploymentTopology{Name: fmt.Sprint("more-", i, strings.Repeat("n", r.IntN(50))), Class: []string{"big", "none"}[r.IntN(2)]})
	}
	r.Shuffle(len(topology.Workers.MachineDeployments), func(i, j int) {
		all := topology.Workers.MachineDeployments
		all[i], all[j] = all[j], all[i]
	})
	if some(3) {
		external(w, "ext", map[string]string{"a": "1"})
	}
	states := []upgrade.State{upgrade.Current, upgrade.Upgrade, upgrade.PendingUpgrade, upgrade.Deferred, upgrade.PendingCreation}
	w.plan = &upgrade.Plan{ControlPlane: upgrade.Decision{Version: "v1.33.0", State: states[r.IntN(3)]}, Workers: map[upgrade.GroupKey]upgrade.Decision{}}
	for _, md := range topology.Workers.MachineDeployments {
		w.plan.Workers[upgrade.GroupKey{Kind: upgrade.MachineDeployment, Name: md.Name}] = upgrade.Decision{Version: "v1.33.0", State: states[r.IntN(5)]}
	}
	w.plan.Workers[upgrade.GroupKey{Kind: upgrade.MachinePool, Name: "mp-0"}] = upgrade.Decision{Version: "v1.33.0", State: states[r.IntN(5)]}
}

// spoil puts something else in the place of a part of a template's spec.
func spoil(at map[string]any, r *rand.Rand) {
	at, _ = at["spec"].(map[string]any)
	for {
		names := slices.Sorted(maps.Keys(at))
		if len(names) == 0 {
			return
		}
		name := names[r.IntN(len(names))]
		if below, ok := at[name].(map[string]any); ok && r.IntN(3) > 0 {
			at = below
			continue
		}
		at[name] = []any{nil, "x", int64(1), true, []any{"x"}, map[string]any{}}[r.IntN(6)]
		return
	}
}

// TestTheOutcomeDependsOnTheInputAlone tries Clusters and classes at random, new
// and changed: the outcome is the same each time, nothing that is given is changed,
// and what has a name can have it.
func TestTheOutcomeDependsOnTheInputAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := load(t, "class.yaml")
		w.ext = &extension{}
		anything(w, r)
		d := again(t, w, seed)
		names := map[string]bool{}
		for _, o := range d.Objects() {
			name := o.GetName()
			if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 || len(name) > 63 || names[o.GetKind()+"/"+name] {
				t.Errorf("seed %d: %s is named %q", seed, o.GetKind(), name)
			}
			names[o.GetKind()+"/"+name] = true
		}
		w.plan = nil
		w.write(t)
		at := again(t, w, seed).Objects()
		if diff := cmp.Diff(w.write(t).Objects(), at); diff != "" {
			t.Errorf("seed %d: it does not reach a steady state (-first +next):\n%s", seed, diff)
		}
		anything(w, r)
		again(t, w, seed)
	}
}

// again computes twice, and compares both and what was given.
func again(t *testing.T, w *world, seed uint64) desired.Desired {
	t.Helper()
	given := func() string {
		text, err := json.Marshal([]any{w.class, w.cluster, w.templates, w.current})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := given()
	first, second := w.compute(t), w.compute(t)
	if diff := cmp.Diff(first.Objects(), second.Objects()); diff != "" {
		t.Errorf("seed %d: it is another the next time (-first +second):\n%s", seed, diff)
	}
	if diff := cmp.Diff(errs(first), errs(second)); diff != "" {
		t.Errorf("seed %d: other errors (-first +second):\n%s", seed, diff)
	}
	if diff := cmp.Diff(before, given()); diff != "" {
		t.Errorf("seed %d: what was given has changed (-before +after):\n%s", seed, diff)
	}
	return first
}
