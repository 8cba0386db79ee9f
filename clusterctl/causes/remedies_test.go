// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRemedyOfAPauseEndsIt: the command changes the field that pauses the object.
func TestRemedyOfAPauseEndsIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key    Key
		paused string
		want   string
	}{
		"Cluster":              {Key{"cluster.x-k8s.io", "Cluster", "fleet", "c"}, "spec.paused", "capstan rollout resume cluster/c -n fleet"},
		"MachineDeployment":    {Key{"cluster.x-k8s.io", "MachineDeployment", "fleet", "c"}, "spec.paused", "capstan rollout resume machinedeployment/c -n fleet"},
		"Deployment":           {Key{"apps", "Deployment", "x-system", "c"}, "spec.paused", "kubectl rollout resume deployment/c -n x-system"},
		"a Machine":            {Key{"cluster.x-k8s.io", "Machine", "fleet", "c"}, "annotation cluster.x-k8s.io/paused", "kubectl annotate machine.cluster.x-k8s.io c -n fleet cluster.x-k8s.io/paused-"},
		"a kind of a provider": {Key{"x.io", "Host", "fleet", "c"}, "spec.paused", "kubectl describe host.x.io c -n fleet"},
	} {
		r := Find([]Object{{Key: tc.key, UID: "u", Paused: tc.paused}}, tc.key)
		if len(r.Causes) != 1 || !r.Certain || r.Causes[0].Remedy.Command != tc.want {
			t.Errorf("%s: %+v, want the command %s", name, r.Causes, tc.want)
		}
	}
}

// TestRemedyHasNoPlaceholder in any recording, from any object.
func TestRemedyHasNoPlaceholder(t *testing.T) {
	t.Parallel()
	for name := range faults() {
		objects := recorded(t, name)
		for i := range objects {
			for _, c := range Find(objects, objects[i].Key).Causes {
				if c.Remedy == nil || strings.ContainsAny(c.Remedy.Text+c.Remedy.Command, "{}") {
					t.Errorf("%s: from %s the remedy is %+v", name, objects[i].Key, c.Remedy)
				}
			}
		}
	}
}

func TestSentenceIsOneLine(t *testing.T) {
	t.Parallel()
	machine := Key{"cluster.x-k8s.io", "Machine", "fleet", "m"}
	for want, link := range map[string]Link{
		"Machine fleet/m: R":             {Object: machine, Reason: "R"},
		"Machine fleet/m: a; b":          {Object: machine, Message: "* a\n* b\n"},
		"Machine fleet/m: blocked: a":    {Object: machine, Message: "blocked:\n  * a", Reason: "R"},
		"Machine fleet/m: x: a; y: b":    {Object: machine, Message: "* x:\n  * a\n* y:\n  * b"},
		"Machine fleet/m does not exist": {Object: machine, Condition: typeMissing, Message: "Machine fleet/m does not exist"},
		"Paused; Remedy: none; $ rm x":   {Object: machine, Condition: typePaused, Message: "Paused\n  Remedy: none\n  $ rm x", Reason: "R"},
	} {
		c := Cause{Chain: []Link{link}}
		if got := c.Sentence(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNamesIgnoresPartsOfNamesWithDots(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"extension a failed":          true,
		"extension a.":                true,
		"waits for a. Then":           true,
		"(a)":                         true,
		"fleet/a":                     true,
		"extension a.example.com":     false,
		"extension example.a":         false,
		"extension example.a, then a": true,
	} {
		if got := Names(text, "a"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestFindDoesNotDependOnTheOrderOfObjects: a command reads them concurrently.
func TestFindDoesNotDependOnTheOrderOfObjects(t *testing.T) {
	t.Parallel()
	for name, tc := range faults() {
		objects := recorded(t, name)
		start := at(t, objects, tc.start)
		want := Find(objects, start)
		slices.Reverse(objects)
		got := Find(objects, start)
		if leaf(got, 0) != leaf(want, 0) || got.Certain != want.Certain || len(got.Causes) != len(want.Causes) || got.Follows != want.Follows {
			t.Errorf("%s: %s and %d causes, in the reverse order %s and %d", name, leaf(want, 0), len(want.Causes), leaf(got, 0), len(got.Causes))
		}
	}
}

// TestFindPutsTheOldestCauseFirst, one without a time last.
func TestFindPutsTheOldestCauseFirst(t *testing.T) {
	t.Parallel()
	key := Key{"infrastructure.example.com", "FakeMachine", "fleet", "i"}
	user := Object{Key: Key{"cluster.x-k8s.io", "Machine", "fleet", "m"}, UID: "m", Refs: []Ref{{fieldInfrastructure, key}}, Conditions: []metav1.Condition{
		condition("InfrastructureReady", "False", "NotReady", "", 0),
	}}
	failing := Object{Key: key, UID: "i", Conditions: []metav1.Condition{
		condition("Late", "False", "Failed", "b", 3*time.Minute), condition("Early", "False", "Failed", "a", time.Minute), {Type: "Never", Status: "False", Reason: "Failed", Message: "c"},
	}}
	r := Find([]Object{user, failing}, user.Key)
	var got []string
	for _, c := range r.Causes {
		got = append(got, c.Chain[0].Condition)
	}
	if want := []string{"Never", "Early", "Late"}; !slices.Equal(got, want) { // Never has the time of the Machine's condition
		t.Errorf("%q, want %q", got, want)
	}
}
