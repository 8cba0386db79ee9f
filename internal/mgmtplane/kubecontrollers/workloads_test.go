// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
)

// warnings are the warnings that a client receives.
type warnings struct{ all []string }

func (w *warnings) AddWarning(_, text string) { w.all = append(w.all, text) }

func TestUnavailableFieldsAreRefusedOrWarned(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		group, resource, sub string
		op                   admission.Operation
		refused, warned      string
	}{
		"containers added to a Pod":    {"", "pods", "ephemeralcontainers", admission.Update, `pods "p" is forbidden: spec.ephemeralContainers: `, ""},
		"a Pod":                        {"", "pods", "", admission.Create, "", ""},
		"its status":                   {"", "pods", "status", admission.Update, "", ""},
		"a Pod of another group":       {"example.com", "pods", "ephemeralcontainers", admission.Update, "", ""},
		"a Deployment":                 {"apps", "deployments", "", admission.Create, "", ""},
		"a DaemonSet":                  {"apps", "daemonsets", "", admission.Create, "", "no controller of DaemonSets: nothing will come of ns/p"},
		"a change of it":               {"apps", "daemonsets", "", admission.Update, "", ""},
		"a DaemonSet of another group": {"example.com", "daemonsets", "", admission.Create, "", ""},
		"a Job":                        {"batch", "jobs", "", admission.Create, "", "no controller of Jobs"},
		"a NetworkPolicy":              {"networking.k8s.io", "networkpolicies", "", admission.Create, "", "does not enforce NetworkPolicies: Pods of all namespaces reach the Pods that ns/p selects"},
		"a change of one":              {"networking.k8s.io", "networkpolicies", "", admission.Update, "", "does not enforce NetworkPolicies"},
		"its status as well":           {"networking.k8s.io", "networkpolicies", "status", admission.Update, "", ""},
		"another group's":              {"crd.projectcalico.org", "networkpolicies", "", admission.Create, "", ""},
		"a claim":                      {"", "persistentvolumeclaims", "", admission.Create, "", "no controller of PersistentVolumeClaims"},
	} {
		a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "ns", "p", schema.GroupVersionResource{Group: tc.group, Version: "v1", Resource: tc.resource}, tc.sub, tc.op, nil, false, nil)
		got := &warnings{}
		err := Asked(true).Validate(warning.WithWarningRecorder(t.Context(), got), a, nil)
		if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: got %v", name, err)
		}
		if told := strings.Join(got.all, "\n"); (told != "") != (tc.warned != "") || !strings.Contains(told, tc.warned) {
			t.Errorf("%s: warned by %q, want %q", name, told, tc.warned)
		}
	}
	if Asked(true).Handles(admission.Delete) || Asked(false).Handles(admission.Create) || !Asked(true).Handles(admission.Create) || !Asked(true).Handles(admission.Update) {
		t.Error("it is asked about what goes, or where others run Pods, or about nothing")
	}
}
