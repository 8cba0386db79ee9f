// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestReadyIsReadInEitherForm(t *testing.T) {
	t.Parallel()
	of := func(severity, reason, message string) *clusterv1.Condition {
		return &clusterv1.Condition{
			Type: "Ready", Status: "False", Severity: clusterv1.ConditionSeverity(severity), Reason: reason, Message: message,
		}
	}
	noon := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		conditions any
		want       *clusterv1.Condition
	}{
		"the older form":        {[]any{m("type", "Other"), m("type", "Ready", "status", "False", "severity", "Warning", "reason", "R", "message", "x")}, of("Warning", "R", "x")},
		"the newer form":        {[]any{m("type", "Ready", "status", "False", "reason", "R", "observedGeneration", int64(3))}, of("Info", "R", "")},
		"a severity of its own": {[]any{m("type", "Ready", "status", "False", "severity", "Fatal")}, of("Info", "", "")},
		"True, with a severity": {
			[]any{m("type", "Ready", "status", "True", "severity", "Error", "lastTransitionTime", "2026-01-01T13:00:00.5+01:00")},
			&clusterv1.Condition{Type: "Ready", Status: "True", LastTransitionTime: noon},
		},
		"Unknown":        {[]any{m("type", "Ready", "status", "Unknown", "reason", "R")}, &clusterv1.Condition{Type: "Ready", Status: "Unknown", Reason: "R"}},
		"another status": {[]any{m("type", "Ready", "status", "yes")}, nil},
		"none":           {[]any{m("type", "Other", "status", "True")}, nil},
		"no list":        {"Ready", nil},
		"no conditions":  {[]any{"Ready", int64(1), nil}, nil},
		"nonsense":       {[]any{m("type", "Ready", "status", "False", "reason", int64(7), "message", m("a", "b"), "lastTransitionTime", "noon")}, of("Info", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Ready(obj(m("status", m("conditions", tc.conditions))))); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
	if c := Ready(obj(nil)); c != nil {
		t.Errorf("without a status: %v", c)
	}
}
