// SPDX-License-Identifier: Apache-2.0

package planguard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

// large is a plan that replaces some Machines and keeps others, with a cause for each.
func large(replaced, kept int) planv1.PlanGuardSpec {
	c := &planv1.Cluster{Namespace: "ns", Name: "demo", Groups: []planv1.Group{{Owner: "MachineDeployment md"}}, Blocked: []planv1.Blocked{{Kind: "MachineSet", Message: "x"}}}
	for i := range replaced + kept {
		action := planv1.Replaced
		if i >= replaced {
			action = planv1.Kept
		}
		name := fmt.Sprintf("machine-%06d", i)
		c.Machines = append(c.Machines, planv1.Machine{Name: name, UID: types.UID("00000000-0000-0000-0000-" + name), Owner: "MachineDeployment md", Action: action, Cause: strings.Repeat("c", 400)})
	}
	return planv1.PlanGuardSpec{Plan: "p1", Change: []planv1.Object{{Kind: "MachineDeployment", Namespace: "ns", Name: "md"}}, Cluster: c}
}

func TestGuardOfALargePlanHasWhatItDecidesBy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replaced, kept int
		reduced        bool
		refused        string
	}{
		"small":                        {10, 10, false, ""},
		"with many causes":             {4000, 0, true, ""},
		"with many that are kept":      {100, 20000, true, ""},
		"with too many that go":        {20000, 0, true, "the plan of Cluster ns/demo is too large for a guard, with 1 objects and 20000 Machines that change: make several plans"},
		"of the size that still fits":  {1500, 0, false, ""},
		"of a size that does not, yet": {2500, 0, true, ""},
	} {
		spec := large(tc.replaced, tc.kept)
		before := spec.Cluster.DeepCopy()
		got, err := Fit(spec)
		if (err == nil) != (tc.refused == "") || err != nil && err.Error() != tc.refused {
			t.Errorf("%s: error %v, want %q", name, err, tc.refused)
			continue
		}
		if diff := cmp.Diff(before, spec.Cluster); diff != "" {
			t.Errorf("%s: the plan itself was changed:\n%s", name, diff)
		}
		if err != nil {
			continue
		}
		data, err := json.Marshal(got)
		if err != nil || len(data) > 1<<20 || (len(got.Cluster.Blocked) == 0) != tc.reduced {
			t.Errorf("%s: %d bytes, error %v, reduced %t", name, len(data), err, len(got.Cluster.Blocked) == 0)
		}
		// It decides about each Machine as the whole plan does.
		whole, stored := newGuard(func(g *planv1.PlanGuard) { g.Spec.Cluster = before }), newGuard(func(g *planv1.PlanGuard) { g.Spec.Cluster = got.Cluster })
		for _, i := range []int{0, tc.replaced - 1, tc.replaced, tc.replaced + tc.kept - 1} {
			if i >= len(before.Machines) {
				continue
			}
			m := newMachine(before.Machines[i].Name)
			m.UID = before.Machines[i].UID
			if want := Deletes(whole, m, now); want != (i < tc.replaced) || Deletes(stored, m, now) != want || Reached(stored, []*clusterv1.Machine{m}) != Reached(whole, []*clusterv1.Machine{m}) {
				t.Errorf("%s: Machine %s: deletion admitted by the plan: %t, by its guard: %t", name, m.Name, want, Deletes(stored, m, now))
			}
		}
		if len(got.Change) != 1 || got.Change[0].Name != "md" {
			t.Errorf("%s: change %v", name, got.Change)
		}
	}
}

func TestClusterOfAnObject(t *testing.T) {
	t.Parallel()
	label := map[string]any{"labels": map[string]any{clusterv1.ClusterNameLabel: "labeled"}, "name": "own"}
	for want, fields := range map[string]map[string]any{
		"own":     {"kind": "Cluster", "metadata": label},
		"spec":    {"kind": "MachinePool", "metadata": label, "spec": map[string]any{"clusterName": "spec"}},
		"labeled": {"kind": "KubeadmControlPlane", "metadata": label, "spec": map[string]any{"clusterName": int64(1)}},
		"":        {"kind": "ClusterClass", "metadata": map[string]any{"name": "own"}},
	} {
		if got := ClusterOf(&unstructured.Unstructured{Object: fields}); got != want {
			t.Errorf("%v: Cluster %q, want %q", fields, got, want)
		}
	}
}
