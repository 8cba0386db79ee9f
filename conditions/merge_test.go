// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	reasons := Reasons{Issue: "NotReady", Unknown: "ReadyUnknown", Info: "Ready"}
	types := []string{"Deleting", "Infra", "Node"}
	negative := []string{"Deleting"}
	fine := List{cond("Deleting", "False", "NotDeleting", ""), cond("Infra", "True", "Ready", ""), cond("Node", "True", "Healthy", "")}
	with := func(l List, c metav1.Condition) List {
		o := &object{append(List{}, l...)}
		Set(o, monday, c)
		return o.list
	}
	tests := map[string]struct {
		of   List
		o    SummaryOptions
		want metav1.Condition
	}{
		"all good": {of: fine, want: cond("Ready", "True", "Ready", "")},
		"a True condition with a message is reported": {
			of: with(fine, cond("Node", "True", "Healthy", "kubelet restarted")), want: cond("Ready", "True", "Ready", "* Node: kubelet restarted"),
		},
		"an issue outweighs an unknown, both are reported in the given order, a True condition is not": {
			of:   List{cond("Infra", "False", "NotReady", "no quota"), cond("Node", "Unknown", "Lost", ""), cond("Deleting", "False", "NotDeleting", "fine")},
			want: cond("Ready", "False", "NotReady", "* Infra: no quota\n* Node: No additional info provided"),
		},
		"an absent condition is unknown": {
			of: fine[:2], want: cond("Ready", "Unknown", "ReadyUnknown", "* Node: Condition Node not yet reported"),
		},
		"an absent optional condition does not count": {of: fine[:2], o: SummaryOptions{Optional: []string{"Node"}}, want: cond("Ready", "True", "Ready", "")},
		"a negative condition that is True is an issue": {
			of: with(fine, cond("Deleting", "True", "Draining", "* Pod a\n* Pod b")), want: cond("Ready", "False", "NotReady", "* Deleting:\n  * Pod a\n  * Pod b"),
		},
		"an override takes the place of the object's condition": {
			of: fine, o: SummaryOptions{Overrides: []metav1.Condition{cond("Infra", "False", "x", "overridden")}}, want: cond("Ready", "False", "NotReady", "* Infra: overridden"),
		},
		"a custom priority decides": {
			of:   with(fine, cond("Infra", "False", "Waiting", "not an issue yet")),
			o:    SummaryOptions{Priority: func(c metav1.Condition) (Priority, bool) { return Info, c.Reason == "Waiting" }},
			want: cond("Ready", "True", "Ready", "* Infra: not an issue yet"),
		},
		"joined conditions share a line": {
			of: List{cond("Infra", "False", "a", "x"), cond("Node", "False", "b", "y"), fine[0]},
			o: SummaryOptions{Join: func(l []metav1.Condition) []metav1.Condition {
				return []metav1.Condition{cond("Parts", "False", "", l[0].Message+" and "+l[1].Message)}
			}},
			want: cond("Ready", "False", "NotReady", "* Parts: x and y"),
		},
		"a negative target is True when there is an issue": {
			of: with(fine, cond("Infra", "False", "a", "x")), o: SummaryOptions{NegativeTarget: true}, want: cond("Ready", "True", "NotReady", "* Infra: x"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tc.o
			o.Types, o.Negative, o.Reasons = types, negative, reasons
			if diff := cmp.Diff(tc.want, Summary(tc.of, "Ready", o)); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummaryOfNothingIsUnknown(t *testing.T) {
	t.Parallel()
	want := cond("Ready", "Unknown", "u", "")
	if diff := cmp.Diff(want, Summary(List{}, "Ready", SummaryOptions{Reasons: Reasons{Unknown: "u"}})); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func machine(name string, c ...metav1.Condition) Object { return Object{"Machine", name, c} }

func TestAggregate(t *testing.T) {
	t.Parallel()
	bad := func(name, message string) Object { return machine(name, cond("Ready", "False", "x", message)) }
	good := func(name, message string) Object { return machine(name, cond("Ready", "True", "x", message)) }
	lost := func(name, message string) Object { return machine(name, cond("Ready", "Unknown", "x", message)) }
	tests := map[string]struct {
		objects  []Object
		negative bool
		want     metav1.Condition
	}{
		"no objects":          {want: cond("MachinesReady", "True", "NoReplicas", "")},
		"all good":            {objects: []Object{good("a", ""), good("b", "")}, want: cond("MachinesReady", "True", "Ready", "")},
		"good with a message": {objects: []Object{good("a", "young"), good("b", "")}, want: cond("MachinesReady", "True", "Ready", "* Machine a: young")},
		"equal messages are grouped, the most common first": {
			objects: []Object{bad("a", "no quota"), bad("c", "no disk"), bad("b", "no disk"), good("d", "irrelevant")},
			want:    cond("MachinesReady", "False", "NotReady", "* Machines b, c: no disk\n* Machine a: no quota"),
		},
		"three names at most": {
			objects: []Object{bad("e", "x"), bad("d", "x"), bad("c", "x"), bad("b", "x"), bad("a", "x")},
			want:    cond("MachinesReady", "False", "NotReady", "* Machines a, b, c, ... (2 more): x"),
		},
		"three messages at most, issues before unknowns": {
			objects: []Object{lost("l1", "gone"), bad("a", "1"), bad("b", "2"), bad("c", "3"), bad("d", "4"), bad("e", "5"), lost("l2", "away")},
			want:    cond("MachinesReady", "False", "NotReady", "* Machine a: 1\n* Machine b: 2\n* Machine c: 3\nAnd 2 Machines with other issues\nAnd 2 Machines with status unknown"),
		},
		"an object without the condition is unknown": {
			objects: []Object{good("a", ""), machine("b")},
			want:    cond("MachinesReady", "Unknown", "ReadyUnknown", "* Machine b: Condition Ready not yet reported"),
		},
		"a long message goes below its head": {
			objects: []Object{bad("a", "* Infra: no quota")}, want: cond("MachinesReady", "False", "NotReady", "* Machine a:\n  * Infra: no quota"),
		},
		"negative polarity: True is the issue and makes the target True": {
			objects: []Object{bad("a", ""), good("b", "2 of 3")}, negative: true,
			want: cond("MachinesReady", "True", "NotReady", "* Machine b: 2 of 3"),
		},
		"kinds are kept apart": {
			objects: []Object{bad("a", "x"), {"MachineSet", "a", List{cond("Ready", "False", "x", "x")}}},
			want:    cond("MachinesReady", "False", "NotReady", "* Machine a: x\n* MachineSet a: x"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Aggregate(tc.objects, "Ready", "MachinesReady", AggregateOptions{
				Negative: tc.negative, Reasons: Reasons{Issue: "NotReady", Unknown: "ReadyUnknown", Info: "Ready"},
				Empty: cond("", "True", "NoReplicas", ""),
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("aggregate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesNamesThree(t *testing.T) {
	t.Parallel()
	if got, want := Names([]string{"a", "b", "c", "d"}), "a, b, c, ... (1 more)"; got != want {
		t.Errorf("Names = %q, want %q", got, want)
	}
}
