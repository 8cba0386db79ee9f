// SPDX-License-Identifier: Apache-2.0

package local

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

func TestTemplatesDoNotChange(t *testing.T) {
	t.Parallel()
	const old = `{"spec": {"template": {"spec": {"simulated": {}}}}}`
	for name, tc := range map[string]struct {
		obj    string
		dryRun bool
		want   bool
	}{
		"same":                         {obj: old, want: true},
		"labels of what is made":       {obj: `{"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"simulated": {}}}}}`, want: true},
		"changed":                      {obj: `{"spec": {"template": {"spec": {}}}}`},
		"changed in a dry run":         {obj: `{"spec": {"template": {"spec": {}}}}`, dryRun: true},
		"changed in a rehearsal":       {obj: `{"metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}}, "spec": {"template": {"spec": {}}}}`, dryRun: true, want: true},
		"annotated, yet not a dry run": {obj: `{"metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}}, "spec": {"template": {"spec": {}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range Webhooks() {
				if w.Mutating || w.Kind.Kind == "LocalMachinePoolTemplate" {
					continue // not of templates, or its machines are one level further down
				}
				req := &admissionv1.AdmissionRequest{Name: "t", Namespace: "ns", DryRun: &tc.dryRun}
				req.Object.Raw, req.OldObject.Raw = []byte(tc.obj), []byte(old)
				got := w.Admit(t.Context(), req)
				if got.Allowed != tc.want {
					t.Errorf("%s: allowed %v, want %v", w.Kind.Kind, got.Allowed, tc.want)
				}
				if want := w.Kind.Kind + `.infrastructure.capstan.dev "t" is invalid: spec.template.spec: Forbidden: cannot change; create another template and refer to that one`; !tc.want && got.Result.Message != want {
					t.Errorf("message %q, want %q", got.Result.Message, want)
				}
			}
		})
	}
}
