// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func host(status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetKind("Host")
	u.SetName("h0")
	return u
}

func reports(conditions ...any) *unstructured.Unstructured {
	return host(map[string]any{"conditions": conditions})
}

func TestMirror(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object Object
		done   bool
		lacks  string
		want   string
	}{
		"held by another owner":        {object: Object{Held: true, Err: "Host ns/h0 is held by Cluster prod"}, want: "False Bad: Host ns/h0 is held by Cluster prod"},
		"not to be used":               {object: Object{Obj: host(nil), Err: "no contract"}, want: "Unknown InternalError: no contract"},
		"not there":                    {object: Object{Missing: true}, want: "Unknown Gone: as it was"},
		"lacks what it should have":    {object: Object{Obj: host(nil)}, done: true, lacks: "spec.providerID", want: "False Bad: Waiting for Host h0 to set spec.providerID"},
		"reports nothing, and is done": {object: Object{Obj: host(nil)}, done: true, want: "True Good: "},
		"reports nothing yet":          {object: Object{Obj: host(nil)}, want: "False Bad: wait"},
		"reports":                      {object: Object{Obj: reports(map[string]any{"type": "Ready", "status": "False", "reason": "NoQuota", "message": "no quota"})}, done: true, want: "False NoQuota: no quota"},
		"reports in the older way":     {object: Object{Obj: reports(map[string]any{"type": "Ready", "status": "True"})}, want: "True Good: "},
		"does not say why":             {object: Object{Obj: reports(map[string]any{"type": "Ready", "status": "False", "severity": "Info"})}, done: true, want: "False NoReasonReported: "},
		"reports in both ways": {object: Object{Obj: host(map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			"v1beta2":    map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "NotReady", "message": "no quota"}}},
		})}, want: "False NotReady: no quota"},
		"gives a reason that is none": {object: Object{Obj: reports(map[string]any{"type": "Ready", "status": "False", "reason": "no quota", "message": "ask for more"})}, want: "False NoReasonReported: no quota: ask for more"},
		"says too much":               {object: Object{Obj: reports(map[string]any{"type": "Ready", "status": "False", "reason": "Off", "message": strings.Repeat("a", 40000)})}, want: "False Off: " + strings.Repeat("a", 10236) + " …"},
		"reports nonsense":            {object: Object{Obj: reports(map[string]any{"type": "Ready", "status": "Perhaps"})}, want: `Unknown InvalidConditionReported: condition "Ready" of Host h0: status is "Perhaps", it must be True, False or Unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.object.Ref = clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Host", Name: "h0"}
			c := tc.object.Mirror(Mirrored{
				Source: "Ready", Target: "HostReady", Done: tc.done, Good: "Good", Bad: "Bad", Awaited: "wait", Lacks: tc.lacks,
				Absent: metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Gone", Message: "as it was"},
			})
			if diff := cmp.Diff("HostReady "+tc.want, c.Type+" "+string(c.Status)+" "+c.Reason+": "+c.Message); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailureIsThatOfTheLastThatReportsOne(t *testing.T) {
	t.Parallel()
	first := Object{Obj: host(map[string]any{"failureReason": "A", "failureMessage": "a"})}
	second := Object{Obj: host(map[string]any{"failureReason": "B"})}
	var reason, message *string
	if NoteFailure(&reason, &message, first, second, Object{}); *reason != "B" || *message != "Host h0: a" {
		t.Errorf("reason %q, message %q", *reason, *message)
	}
	if NoteFailure(&reason, &message, Object{}); *reason != "B" || *message != "Host h0: a" {
		t.Errorf("reason %q, message %q: want that they stay while nothing is reported", *reason, *message)
	}
}
