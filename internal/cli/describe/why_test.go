// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/clusterctl/causes"
)

// link is a condition of a Cluster that started some time before noon.
func link(conditionType, message string, before time.Duration) causes.Link {
	return causes.Link{
		Object: causes.Key{Kind: "Cluster", Namespace: "fleet", Name: "demo"}, Condition: conditionType, Status: metav1.ConditionFalse, Reason: "R",
		Message: message, Since: new(metav1.NewTime(noon.Add(-before))),
	}
}

func TestWritePrintsExplanation(t *testing.T) {
	t.Parallel()
	demo := link("", "", 0).Object
	cause := func(message string) causes.Cause {
		return causes.Cause{Chain: []causes.Link{link("Ready", message, time.Hour)}, Remedy: &causes.Remedy{Text: "repair it", Command: "kubectl describe"}}
	}
	many := make([]causes.Cause, most+2)
	for i := range many {
		many[i] = cause("broken")
	}
	others := cause("broken")
	for _, name := range []string{"a", "b", "c", "d"} {
		others.Others = append(others.Others, causes.Key{Name: name})
	}
	for name, tc := range map[string]struct {
		result causes.Result
		want   []string // lines
		not    string
	}{
		"nothing":               {causes.Result{}, []string{"Nothing is wrong with Cluster fleet/demo."}, "permission"},
		"progress":              {causes.Result{Progress: []causes.Link{link("RollingOut", "", time.Minute)}}, []string{"Nothing blocks Cluster fleet/demo. In progress:", "  Cluster fleet/demo: RollingOut False R, for 60s"}, ""},
		"a cause":               {causes.Result{Certain: true, Causes: []causes.Cause{cause("* broken")}, Follows: 2}, []string{"Cluster fleet/demo: broken", "  Cluster fleet/demo: Ready False R, for 60m", "  Remedy: repair it", "  $ kubectl describe", "2 more conditions follow from this."}, "1. "},
		"no certain cause":      {causes.Result{Causes: []causes.Cause{cause("broken")}}, []string{"No object reports a cause for the state of Cluster fleet/demo. The first condition that changed:"}, ""},
		"more than are printed": {causes.Result{Certain: true, Causes: many}, []string{"1. Cluster fleet/demo: broken", "5. Cluster fleet/demo: broken", "and 2 more causes: -o json has them."}, "6. "},
		"several with a cause":  {causes.Result{Certain: true, Causes: []causes.Cause{others}}, []string{"  The same holds for a, b, c and 1 more."}, ""},
		"no permission":         {causes.Result{Unread: []string{"events", "machinesets.cluster.x-k8s.io"}}, []string{"Nothing is wrong with Cluster fleet/demo.", "No permission to read events, machinesets.cluster.x-k8s.io: a cause may be there."}, ""},
		"a time in the future":  {causes.Result{Progress: []causes.Link{link("RollingOut", "", -time.Hour)}}, []string{"  Cluster fleet/demo: RollingOut False R, for 0s"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			tc.result.Object = demo
			if err := write(&out, tc.result, noon); err != nil {
				t.Fatal(err)
			}
			lines := "\n" + out.String()
			for _, want := range tc.want {
				if !strings.Contains(lines, "\n"+want+"\n") {
					t.Errorf("no line %q in\n%s", want, out.String())
				}
			}
			if tc.not != "" && strings.Contains(lines, tc.not) {
				t.Errorf("%q in\n%s", tc.not, out.String())
			}
		})
	}
}

// TestExplanationCannotCommandTheTerminal, nor fill it.
func TestExplanationCannotCommandTheTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\x07\u202e\nforged: Ready True\r"
	bad := link("Type"+hostile, hostile+strings.Repeat("m", 1<<20), time.Hour)
	bad.Reason = hostile
	other := causes.Key{Kind: "Cluster", Name: "x"}
	var out bytes.Buffer
	for _, certain := range []bool{true, false} {
		r := causes.Result{
			Object: bad.Object, Certain: certain, Unread: []string{hostile},
			Causes: []causes.Cause{{Chain: []causes.Link{bad, bad}, Others: []causes.Key{other}, Remedy: &causes.Remedy{Text: "repair", Command: "kubectl"}}},
		}
		if err := write(&out, r, noon); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(&out, causes.Result{Object: bad.Object, Progress: []causes.Link{bad}}, noon); err != nil {
		t.Fatal(err)
	}
	replaced := causes.Replacement{Machine: other, Differences: []causes.Difference{{Field: hostile, From: hostile, To: hostile}, {Field: hostile}}, Statements: []causes.Statement{{Source: "Event " + hostile, Text: hostile}}}
	if err := writeReplacement(&out, replaced, noon); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 64<<10 {
		t.Errorf("%d bytes are printed", out.Len())
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q is printed", r)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "forged") {
			t.Errorf("a text forged the line %q", line)
		}
	}
}
