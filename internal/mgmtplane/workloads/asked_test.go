// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

func TestEphemeralContainersAloneAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		group, resource, sub string
		refused              bool
	}{
		"those of a Pod":        {"", "pods", "ephemeralcontainers", true},
		"the Pod":               {"", "pods", "", false},
		"its status":            {"", "pods", "status", false},
		"a Pod of another kind": {"example.com", "pods", "ephemeralcontainers", false},
	} {
		a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Kind: "Pod"}, "ns", "p", schema.GroupVersionResource{Group: tc.group, Version: "v1", Resource: tc.resource}, tc.sub, admission.Update, nil, false, nil)
		err := NoEphemeral(true).Validate(t.Context(), a, nil)
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), `pods "p" is forbidden: spec.ephemeralContainers: `) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if NoEphemeral(true).Handles(admission.Create) || NoEphemeral(false).Handles(admission.Update) || !NoEphemeral(true).Handles(admission.Update) {
		t.Error("it is asked about what is made, or where others run Pods, or about nothing")
	}
}
