// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// TestRepeatComputesSameOutline records computations: before anything exists, of what exists,
// of another version, of changed variables, which patches use, and of failures.
func TestRepeatComputesSameOutline(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"nothing":         func(*world) {},
		"another version": func(w *world) { w.cluster.Spec.Topology.Version = "v1.99.0" },
		"another template": func(w *world) {
			for _, u := range w.templates {
				if spec, is := u.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any); is {
					spec["added"] = "by a test"
				}
			}
		},
		"groups that wait":      func(w *world) { decide(w, "v1.33.0", upgrade.PendingUpgrade) },
		"a template is missing": func(w *world) { clear(w.templates) },
		"an unknown contract":   func(w *world) { w.contract = "v0" },
	} {
		for _, file := range []string{"class.yaml", "local.yaml"} {
			t.Run(name+" of "+file, func(t *testing.T) {
				t.Parallel()
				w := load(t, file)
				w.same = func(current, wanted *unstructured.Unstructured) (bool, error) {
					return reflect.DeepEqual(current.Object["spec"], wanted.Object["spec"]), nil
				}
				for range 3 { // it is created, completed, then stays
					repeats(t, w)
					w.write(t)
				}
				change(w)
				repeats(t, w)
			})
		}
	}
}

// repeats computes the desired state, and again from its facts in JSON.
func repeats(t *testing.T, w *world) {
	t.Helper()
	in := w.input(t)
	facts := desired.Record(&in)
	d, err := desired.Compute(in, w.ext)
	want := facts.Outline(d, err)
	text, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	var read desired.Facts
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if len(want.Objects) == 0 && want.Failed == "" {
		t.Error("the outline is empty")
	}
	if diff := cmp.Diff(want, desired.Repeat(read), cmpopts.IgnoreFields(desired.Sketch{}, "Content")); diff != "" {
		t.Errorf("outline (-recorded +repeated):\n%s", diff)
	}
}

func TestRecordKeepsProblemsOfGroups(t *testing.T) {
	t.Parallel()
	w := load(t, "class.yaml")
	in := w.input(t)
	if len(in.Blueprint.MachineDeployments) == 0 {
		t.Fatal("there is no group")
	}
	in.Blueprint.MachineDeployments[0].Problem = errors.New("its class is not known")
	facts := desired.Record(&in)
	if in.Blueprint.MachineDeployments[0].Problem == nil || facts.Problems[in.Blueprint.MachineDeployments[0].Name] == "" {
		t.Errorf("problems %v", facts.Problems)
	}
}

func TestKeysOfGroupsAreTexts(t *testing.T) {
	t.Parallel()
	want := map[upgrade.GroupKey]clusterv1.Condition{{Kind: "MachineDeployment", Name: "a"}: {}}
	text, err := json.Marshal(want)
	var got map[upgrade.GroupKey]clusterv1.Condition
	if err != nil || json.Unmarshal(text, &got) != nil || !cmp.Equal(want, got) {
		t.Errorf("%s: %v, %v", text, got, err)
	}
}
