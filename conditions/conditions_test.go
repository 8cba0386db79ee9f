// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type object struct{ list []metav1.Condition }

func (o *object) GetConditions() []metav1.Condition  { return o.list }
func (o *object) SetConditions(c []metav1.Condition) { o.list = c }

var (
	monday  = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	tuesday = monday.Add(24 * time.Hour)
)

func cond(t string, s metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: t, Status: s, Reason: reason, Message: message}
}

func at(when time.Time, c metav1.Condition) metav1.Condition {
	c.LastTransitionTime = metav1.NewTime(when)
	return c
}

func TestSet(t *testing.T) {
	t.Parallel()
	ready := at(monday, cond("Ready", "True", "Ready", ""))
	tests := map[string]struct {
		before, want []metav1.Condition
		set          metav1.Condition
	}{
		"a new condition gets the time of now, in whole seconds": {
			set: cond("Ready", "True", "Ready", ""), want: []metav1.Condition{at(tuesday, cond("Ready", "True", "Ready", ""))},
		},
		"the time stays while the status stays": {
			before: []metav1.Condition{ready}, set: cond("Ready", "True", "Other", "hello"),
			want: []metav1.Condition{at(monday, cond("Ready", "True", "Other", "hello"))},
		},
		"the time moves with the status": {
			before: []metav1.Condition{ready}, set: cond("Ready", "False", "NotReady", ""),
			want: []metav1.Condition{at(tuesday, cond("Ready", "False", "NotReady", ""))},
		},
		"a given time is used when the status changes": {
			before: []metav1.Condition{ready}, set: at(monday.Add(time.Hour), cond("Ready", "False", "NotReady", "")),
			want: []metav1.Condition{at(monday.Add(time.Hour), cond("Ready", "False", "NotReady", ""))},
		},
		"an observed generation of zero keeps the stored one": {
			before: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: metav1.NewTime(monday), ObservedGeneration: 4}},
			set:    cond("Ready", "True", "Ready", "x"),
			want:   []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "x", LastTransitionTime: metav1.NewTime(monday), ObservedGeneration: 4}},
		},
		"a reason is never empty": {
			set: cond("Ready", "True", "", ""), want: []metav1.Condition{at(tuesday, cond("Ready", "True", NoReasonReportedReason, ""))},
		},
		"a message that the API would reject is cut": {
			set: cond("Ready", "True", "Ready", strings.Repeat("ä", maxMessage)), want: []metav1.Condition{at(tuesday, cond("Ready", "True", "Ready", strings.Repeat("ä", maxMessage/2-2)+" …"))},
		},
		"the order is Available, Ready, by name, Deleting, Paused": {
			before: []metav1.Condition{at(monday, cond("Paused", "False", "a", "")), at(monday, cond("Zulu", "False", "a", "")), at(monday, cond("Deleting", "False", "a", "")), ready, at(monday, cond("Bravo", "False", "a", ""))},
			set:    at(monday, cond("Available", "True", "a", "")),
			want: []metav1.Condition{
				at(monday, cond("Available", "True", "a", "")), ready, at(monday, cond("Bravo", "False", "a", "")),
				at(monday, cond("Zulu", "False", "a", "")), at(monday, cond("Deleting", "False", "a", "")), at(monday, cond("Paused", "False", "a", "")),
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &object{tc.before}
			Set(o, tuesday.Add(300*time.Millisecond), tc.set)
			if diff := cmp.Diff(tc.want, o.list); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetAndDeleteLeaveTheOldListAlone(t *testing.T) {
	t.Parallel()
	before := []metav1.Condition{cond("Ready", "True", "Ready", ""), cond("Paused", "False", "NotPaused", "")}
	keep := append([]metav1.Condition{}, before...)
	o := &object{before}
	Set(o, tuesday, cond("Ready", "False", "NotReady", ""))
	Delete(o, "Paused")
	if diff := cmp.Diff(keep, before); diff != "" {
		t.Errorf("old list (-want +got):\n%s", diff)
	}
	if Has(o, "Paused") || !IsFalse(o, "Ready") {
		t.Errorf("new list %v", o.list)
	}
}

func TestSetPutsAListInOrderAlsoWhenNothingElseChanges(t *testing.T) {
	t.Parallel()
	ready, paused := at(monday, cond("Ready", "True", "Ready", "")), at(monday, cond("Paused", "False", "NotPaused", ""))
	o := &object{[]metav1.Condition{paused, ready}}
	Set(o, tuesday, cond("Ready", "True", "Ready", ""))
	if diff := cmp.Diff([]metav1.Condition{ready, paused}, o.list); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestWhatIsAskedAndSetAgainCopiesNothing: a reconcile that changes nothing does so
// dozens of times.
func TestWhatIsAskedAndSetAgainCopiesNothing(t *testing.T) {
	o := &object{}
	for _, conditionType := range []string{"A", "B", "C"} {
		Set(o, monday, cond(conditionType, "True", "Good", ""))
	}
	var from Setter = o
	for name, tc := range map[string]struct {
		do   func()
		want float64
	}{
		"questions":                   {func() { _ = Has(from, "C") && IsTrue(from, "C") && Reason(from, "C") == Message(from, "D") }, 0},
		"the last one":                {func() { _ = *Get(from, "C") }, 1},
		"one that is not there":       {func() { _ = Get(from, "D") }, 0},
		"to set what is there":        {func() { Set(from, tuesday, cond("B", "True", "Good", "")) }, 0},
		"to delete what is not there": {func() { Delete(from, "D") }, 0},
	} {
		if got := testing.AllocsPerRun(10, tc.do); got > tc.want {
			t.Errorf("%s: %v allocations, want at most %v", name, got, tc.want)
		}
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	l := List{cond("A", "True", "Good", "fine"), cond("B", "False", "Bad", "broken"), cond("C", "Unknown", "Lost", "")}
	type answers struct {
		Has, True, False, Unknown bool
		Reason, Message           string
	}
	for conditionType, want := range map[string]answers{
		"A": {Has: true, True: true, Reason: "Good", Message: "fine"},
		"B": {Has: true, False: true, Reason: "Bad", Message: "broken"},
		"C": {Has: true, Unknown: true, Reason: "Lost"},
		"D": {Unknown: true},
	} {
		got := answers{Has(l, conditionType), IsTrue(l, conditionType), IsFalse(l, conditionType), IsUnknown(l, conditionType), Reason(l, conditionType), Message(l, conditionType)}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", conditionType, got, want)
		}
	}
}

func TestMirror(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from     List
		fallback metav1.Condition
		want     metav1.Condition
	}{
		"status, reason, message and time are copied": {
			from: List{at(monday, cond("Ready", "False", "Broken", "disk full"))},
			want: at(monday, cond("InfrastructureReady", "False", "Broken", "disk full")),
		},
		"a condition without reason gets one": {
			from: List{cond("Ready", "True", "", "")}, want: cond("InfrastructureReady", "True", NoReasonReportedReason, ""),
		},
		"the fallback speaks for an absent condition": {
			fallback: cond("", "False", "NotReady", "waiting"), want: cond("InfrastructureReady", "False", "NotReady", "waiting"),
		},
		"absent and no fallback is unknown": {
			want: cond("InfrastructureReady", "Unknown", NotYetReportedReason, "Condition Ready not yet reported"),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Mirror(tc.from, "Ready", "InfrastructureReady", tc.fallback)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromUnstructured(t *testing.T) {
	t.Parallel()
	entry := func(kv ...string) any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return m
	}
	tests := map[string]struct {
		status  map[string]any
		want    List
		wantErr string
	}{
		"no conditions are none": {},
		"older shape: severity is dropped, the reason may be missing": {
			status: map[string]any{"conditions": []any{entry("type", "Ready", "status", "True", "severity", "Info", "lastTransitionTime", "2026-03-02T08:00:00Z")}},
			want:   List{{Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(monday.Local())}},
		},
		"status.v1beta2 comes before the plain list": {
			status: map[string]any{
				"v1beta2":    map[string]any{"conditions": []any{entry("type", "Ready", "status", "False", "reason", "New")}},
				"conditions": []any{entry("type", "Ready", "status", "True"), entry("type", "Other", "status", "True")},
			},
			want: List{cond("Ready", "False", "New", ""), cond("Other", "True", "", "")},
		},
		"a status that is none of the three is refused": {
			status:  map[string]any{"conditions": []any{entry("type", "Ready", "status", "Yes")}},
			wantErr: `condition "Ready" of Thing t0: status is "Yes", it must be True, False or Unknown`,
		},
		"an entry without type is refused": {
			status:  map[string]any{"conditions": []any{entry("status", "True")}},
			wantErr: `condition "" of Thing t0: type is empty`,
		},
		"no list at all is refused": {
			status:  map[string]any{"conditions": "rubbish"},
			wantErr: `decode conditions of Thing t0: cannot restore slice from string`,
		},
		"an entry that is null is refused": {
			status:  map[string]any{"conditions": []any{nil}},
			wantErr: `condition "" of Thing t0: status is "", it must be True, False or Unknown`,
		},
		"an entry that is a number is refused": {
			status:  map[string]any{"conditions": []any{int64(1)}},
			wantErr: `decode conditions of Thing t0: cannot restore struct from: int64`,
		},
		"a text that is a number is refused": {
			status:  map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": int64(1)}}},
			wantErr: `decode conditions of Thing t0: cannot convert int64 to string`,
		},
		"a date that is none is refused": {
			status:  map[string]any{"conditions": []any{entry("type", "Ready", "status", "True", "lastTransitionTime", "yesterday")}},
			wantErr: `decode conditions of Thing t0: parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromUnstructured(&unstructured.Unstructured{Object: map[string]any{
				"kind": "Thing", "metadata": map[string]any{"name": "t0"}, "status": tc.status,
			}})
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tc.wantErr {
				t.Fatalf("error = %q, want %q", text, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
