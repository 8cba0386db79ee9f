// SPDX-License-Identifier: Apache-2.0

package v1beta1conditions

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

const (
	failed  = clusterv1.ConditionSeverityError
	warning = clusterv1.ConditionSeverityWarning
	info    = clusterv1.ConditionSeverityInfo
)

var (
	noon  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
)

func at(when time.Time, c clusterv1.Condition) clusterv1.Condition {
	c.LastTransitionTime = metav1.NewTime(when)
	return c
}

func TestSet(t *testing.T) {
	t.Parallel()
	before := clusterv1.Conditions{at(noon, True("B")), at(noon, False("C", info, "Waiting", "for a"))}
	tests := map[string]struct {
		list clusterv1.Conditions
		set  []clusterv1.Condition
		want clusterv1.Conditions
	}{
		"into nothing, in whole seconds": {nil, []clusterv1.Condition{True("B")}, clusterv1.Conditions{at(later, True("B"))}},
		"the same again":                 {before, []clusterv1.Condition{before[1], True("B")}, before},
		"another status":                 {before, []clusterv1.Condition{Unknown("B", "", "")}, clusterv1.Conditions{at(later, Unknown("B", "", "")), before[1]}},
		"another severity":               {before, []clusterv1.Condition{False("C", warning, "Waiting", "for a")}, clusterv1.Conditions{before[0], at(later, False("C", warning, "Waiting", "for a"))}},
		"another reason":                 {before, []clusterv1.Condition{False("C", info, "Broken", "for a")}, clusterv1.Conditions{before[0], at(later, False("C", info, "Broken", "for a"))}},
		"another message":                {before, []clusterv1.Condition{False("C", info, "Waiting", "for b")}, clusterv1.Conditions{before[0], at(later, False("C", info, "Waiting", "for b"))}},
		"a time of its own":              {before, []clusterv1.Condition{at(noon.Add(time.Minute), False("B", info, "x", ""))}, clusterv1.Conditions{at(noon.Add(time.Minute), False("B", info, "x", "")), before[1]}},
		"Ready comes first":              {before, []clusterv1.Condition{True("A"), True("Ready")}, clusterv1.Conditions{at(later, True("Ready")), at(later, True("A")), before[0], before[1]}},
		"none removes it":                {before, []clusterv1.Condition{None("B"), None("X")}, clusterv1.Conditions{before[1]}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := append(clusterv1.Conditions{}, tc.list...)
			if diff := cmp.Diff(tc.want, Set(tc.list, later.Add(time.Millisecond), tc.set...)); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(was, append(clusterv1.Conditions{}, tc.list...)); diff != "" {
				t.Errorf("the list that was given (-was +is):\n%s", diff)
			}
		})
	}
}

func TestWhatTheAPIWouldRefuseIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20_000)
	c := Set(nil, noon, False("A", info, long, long))[0]
	if len(c.Reason) > 256 || len(c.Message) > 10240 || c.Reason == "" || c.Message == "" {
		t.Errorf("a reason of %d and a message of %d bytes", len(c.Reason), len(c.Message))
	}
	if kept := Set(nil, noon, False("A", info, "R", "two\nlines"))[0]; kept.Message != "two\nlines" {
		t.Errorf("message %q, want it as it is", kept.Message)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	unknown, yes := Unknown("U", "Lost", "no word"), True("T")
	tests := map[string]struct {
		parts []clusterv1.Condition
		steps int
		want  clusterv1.Condition
	}{
		"nothing":           {nil, 0, None("Ready")},
		"all is well":       {[]clusterv1.Condition{at(noon, yes), yes}, 3, True("Ready")},
		"an error is worst": {[]clusterv1.Condition{yes, False("I", info, "i", ""), False("W", warning, "w", ""), False("E", failed, "e", "m"), unknown}, 0, False("Ready", failed, "e", "m")},
		"then a warning":    {[]clusterv1.Condition{False("I", info, "i", ""), False("W", warning, "w", "m")}, 0, False("Ready", warning, "w", "m")},
		"then any False":    {[]clusterv1.Condition{yes, unknown, False("I", info, "i", "m")}, 0, False("Ready", info, "i", "m")},
		"True hides Unknown": {
			[]clusterv1.Condition{unknown, yes}, 0, True("Ready"),
		},
		"nothing is known":          {[]clusterv1.Condition{unknown}, 0, Unknown("Ready", "Lost", "no word")},
		"the first of one severity": {[]clusterv1.Condition{False("A", info, "a", "1"), False("B", info, "b", "2")}, 0, False("Ready", info, "a", "1")},
		"steps are counted":         {[]clusterv1.Condition{yes, False("A", info, "a", "1"), yes}, 5, False("Ready", info, "a", "2 of 5 completed")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(Set(nil, noon, tc.want), Set(nil, noon, Merge("Ready", tc.steps, tc.parts...))); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyPassesOverWhatIsNotThere(t *testing.T) {
	t.Parallel()
	list := clusterv1.Conditions{False("C", info, "c", ""), False("D", info, "d", ""), True("Ready")}
	if diff := cmp.Diff(False("Ready", info, "d", ""), Ready(list, 0, "B", "D", "C")); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

func TestAggregate(t *testing.T) {
	t.Parallel()
	child := func(name string, all ...clusterv1.Condition) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		m.Name = name
		if len(all) > 0 {
			SetMachine(m, noon, all...)
		}
		return m
	}
	tests := map[string]struct {
		machines []*clusterv1.Machine
		want     clusterv1.Condition
	}{
		"no Machines":           {nil, True("MachinesReady")},
		"all are ready":         {[]*clusterv1.Machine{child("a", True("Ready")), child("b", True("Ready"))}, True("MachinesReady")},
		"none reports":          {[]*clusterv1.Machine{child("a"), child("b", True("X"))}, None("MachinesReady")},
		"the first by its name": {[]*clusterv1.Machine{child("b", False("Ready", info, "R", "x")), child("a", False("Ready", info, "R", "y")), child("c", True("Ready")), child("d")}, False("MachinesReady", info, "R @ Machine/a", "1 of 4 completed")},
		"the worst":             {[]*clusterv1.Machine{child("a", False("Ready", info, "R", "x")), child("b", False("Ready", failed, "Broken", "y"))}, False("MachinesReady", failed, "Broken @ Machine/b", "0 of 2 completed")},
		"a source is named once": {
			[]*clusterv1.Machine{child("a", False("Ready", info, "R @ Host/h", ""))}, False("MachinesReady", info, "R @ Host/h", "0 of 1 completed"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(Set(nil, noon, tc.want), Set(nil, noon, AggregateMachines("MachinesReady", tc.machines))); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMirror(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ready map[string]any
		done  bool
		want  clusterv1.Condition
	}{
		"it reports":                   {map[string]any{"status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T12:00:00Z"}, false, at(noon, clusterv1.Condition{Type: "HostReady", Status: corev1.ConditionTrue, Reason: "R"})},
		"it reports an error":          {map[string]any{"status": "False", "severity": "Error", "reason": "R", "message": "m"}, true, False("HostReady", failed, "R", "m")},
		"it does not, and is done":     {nil, true, True("HostReady")},
		"it does not, and is not":      {nil, false, False("HostReady", info, "WaitingForHost", "")},
		"it reports an invalid status": {map[string]any{"status": "Perhaps"}, false, False("HostReady", info, "WaitingForHost", "")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &unstructured.Unstructured{Object: map[string]any{}}
			if tc.ready != nil {
				tc.ready["type"] = "Ready"
				host.Object["status"] = map[string]any{"conditions": []any{tc.ready}}
			}
			if diff := cmp.Diff(tc.want, Mirror("HostReady", host, tc.done, "WaitingForHost")); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}
