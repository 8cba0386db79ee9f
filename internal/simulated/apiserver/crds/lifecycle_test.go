// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
)

var now = metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func TestSettleCompletesNewDefinitions(t *testing.T) {
	t.Parallel()
	u := parse(t, strings.Replace(widgets, "spec:", "status: {storedVersions: [forged], acceptedNames: {plural: forged, kind: Forged}}\nspec:", 1))
	errs, err := crds.Settle("", nil, u)
	if err != nil || len(errs) > 0 {
		t.Fatalf("errors %v, %v", errs, err)
	}
	crd, err := crds.Typed(u)
	if err != nil {
		t.Fatal(err)
	}
	if n := crd.Spec.Names; n.Singular != "widget" || n.ListKind != "WidgetList" {
		t.Errorf("names %+v", n)
	}
	if !slices.Equal(crd.Status.StoredVersions, []string{"v1"}) || crd.Status.AcceptedNames.Plural != "" || crd.Generation != 1 {
		t.Errorf("status %+v, generation %d", crd.Status, crd.Generation)
	}
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("conversion %+v", crd.Spec.Conversion)
	}
	most, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "versions")
	if v := most.([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)["most"]; v.(map[string]any)["default"] != int64(3) {
		t.Errorf("a default is %v", v)
	}
}

// The messages are those of k8s.io/apiextensions-apiserver.
func TestSettleRefusesBadDefinitions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ from, to, want string }{
		"another name":          {"name: widgets.example.com", "name: widgets.example.org", "must be spec.names.plural+"},
		"a bad group":           {"group: example.com", "group: Example", "spec.group: Invalid value"},
		"a bad plural":          {"plural: widgets", "plural: Widgets", "spec.names.plural: Invalid value"},
		"a bad short name":      {"shortNames: [wd]", "shortNames: [W_d]", "spec.names.shortNames[0]: Invalid value"},
		"a bad scope":           {"scope: Namespaced", "scope: World", "spec.scope: Unsupported value"},
		"two storage versions":  {"storage: false", "storage: true", "must have exactly one version marked as storage version"},
		"no storage version":    {"storage: true", "storage: false", "must have exactly one version marked as storage version"},
		"a name twice":          {"name: v1alpha1", "name: v1", "must contain unique version names"},
		"no schema":             {"    schema: {openAPIV3Schema: {<<: *schema, description: older}}", "", "openAPIV3Schema: Required value"},
		"a rule of no field":    {"self.replicas <= self.most", "self.nope", "undefined field"},
		"a rule of no boolean":  {"self.replicas <= self.most", "self.most", "must evaluate to a bool"},
		"a default of no type":  {"default: 1", "default: one", "default: Invalid value"},
		"a path of no field":    {".spec.replicas, statusReplicasPath", "spec, statusReplicasPath", "specReplicasPath: Invalid value"},
		"a field not in schema": {"selectableFields: [{jsonPath: .spec.size}]", "selectableFields: [{jsonPath: .spec.nope}]", "selectableFields[0].jsonPath: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(widgets, tc.from) {
				t.Fatalf("nothing to replace")
			}
			errs, err := crds.Settle("", nil, parse(t, strings.Replace(widgets, tc.from, tc.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(errs.ToAggregate()); !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if _, err := crds.Settle("", nil, parse(t, "{kind: CustomResourceDefinition, spec: 5}")); err == nil {
		t.Error("a spec that is a number")
	}
}

// stored is a definition as it is stored, once it is served.
func stored(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, widgets)
	u.SetResourceVersion("1")
	if errs, err := crds.Settle("", nil, u); err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	crd, err := crds.Typed(u)
	if err != nil {
		t.Fatal(err)
	}
	crds.Accept(crd, nil, now)
	if err := crds.Write(crd, u); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestSettleKeepsWhatAWriterMustNotChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sub    string
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   string // the error
		then   func(*apiextensionsv1.CustomResourceDefinition) bool
	}{
		"another status": {"", func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.AcceptedNames.Kind = "Forged" }, "", func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return c.Status.AcceptedNames.Kind == "Widget" && c.Generation == 1
		}},
		"another spec": {"", func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"all"} }, "", func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return slices.Equal(c.Spec.Names.Categories, []string{"all"}) && c.Generation == 2
		}},
		"another spec through the status": {"status", func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"all"} }, "", func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return len(c.Spec.Names.Categories) == 0 && c.Generation == 1
		}},
		"stored versions through the status": {"status", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.StoredVersions = []string{"v1", "v1alpha1"}
		}, "", func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return len(c.Status.StoredVersions) == 2
		}},
		"another storage version": {"", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
		}, "", func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return slices.Equal(c.Status.StoredVersions, []string{"v1", "v1alpha1"})
		}},
		"a stored version less": {"", func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions = c.Spec.Versions[1:]
			c.Spec.Versions[0].Storage = true
		}, "must remain in spec.versions", nil},
		"another group": {"", func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Group = "example.org" }, "spec.group: Invalid value", nil},
		"another scope": {"", func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Scope = apiextensionsv1.ClusterScoped }, "field is immutable", nil},
		"another kind":  {"", func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Kind = "Gadget" }, "field is immutable", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := stored(t)
			crd, err := crds.Typed(was)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(crd)
			next := was.DeepCopy()
			if err := crds.Write(crd, next); err != nil {
				t.Fatal(err)
			}
			errs, err := crds.Settle(tc.sub, was, next)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want != "" {
				if got := fmt.Sprint(errs.ToAggregate()); !strings.Contains(got, tc.want) {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				return
			}
			if got, err := crds.Typed(next); len(errs) > 0 || err != nil || !tc.then(got) {
				t.Errorf("errors %v, %v, definition %+v", errs, err, got)
			}
		})
	}
}

func named(name string, names apiextensionsv1.CustomResourceDefinitionNames) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	crd.Spec.Group, crd.Spec.Names = "example.com", names
	return crd
}

// The rows are what the naming controller of k8s.io/apiextensions-apiserver does.
func TestAcceptGivesNamesThatAreFree(t *testing.T) {
	t.Parallel()
	type names = apiextensionsv1.CustomResourceDefinitionNames
	other := func(n names) *apiextensionsv1.CustomResourceDefinition {
		crd := named("gadgets.example.com", n)
		crd.Status.AcceptedNames = n
		return crd
	}
	elsewhere := other(names{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", ShortNames: []string{"wd"}})
	elsewhere.Spec.Group = "example.org"
	want := names{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", ShortNames: []string{"wd", "w"}, Categories: []string{"all"}}
	for name, tc := range map[string]struct {
		other   *apiextensionsv1.CustomResourceDefinition
		missing string // the name that is not accepted
		reason  string
		message string
	}{
		"none":                  {other: other(names{Plural: "gadgets", Kind: "Gadget"}), reason: "NoConflicts", message: "no conflicts found"},
		"those of other groups": {other: elsewhere, reason: "NoConflicts", message: "no conflicts found"},
		"a plural":              {other(names{Plural: "widgets"}), "plural", "PluralConflict", `"widgets" is already in use`},
		"a plural as a short":   {other(names{ShortNames: []string{"widgets"}}), "plural", "PluralConflict", `"widgets" is already in use`},
		"a singular":            {other(names{Singular: "widget"}), "singular", "SingularConflict", `"widget" is already in use`},
		"a short name":          {other(names{ShortNames: []string{"w"}}), "short", "ShortNamesConflict", `"w" is already in use`},
		"two short names":       {other(names{ShortNames: []string{"w", "wd"}}), "short", "ShortNamesConflict", `["wd" is already in use, "w" is already in use]`},
		"a kind":                {other(names{Kind: "Widget"}), "kind", "KindConflict", `"Widget" is already in use`},
		"a kind as a list":      {other(names{ListKind: "Widget"}), "kind", "KindConflict", `"Widget" is already in use`},
		"a kind of a list":      {other(names{ListKind: "WidgetList"}), "list", "ListKindConflict", `"WidgetList" is already in use`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := named("widgets.example.com", want)
			crds.Accept(crd, []*apiextensionsv1.CustomResourceDefinition{tc.other, crd.DeepCopy()}, now)
			accepted := want
			switch tc.missing {
			case "plural":
				accepted.Plural = ""
			case "singular":
				accepted.Singular = ""
			case "short":
				accepted.ShortNames = nil
			case "kind":
				accepted.Kind = ""
			case "list":
				accepted.ListKind = ""
			}
			if diff := cmp.Diff(accepted, crd.Status.AcceptedNames); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			state, reason, message := apiextensionsv1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted"
			if tc.missing != "" {
				state, reason, message = apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted"
			}
			conditions := []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: state, Reason: tc.reason, Message: tc.message, LastTransitionTime: now},
				{Type: apiextensionsv1.Established, Status: state, Reason: reason, Message: message, LastTransitionTime: now},
			}
			if diff := cmp.Diff(conditions, crd.Status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAcceptKeepsServingUntilAConflictEnds(t *testing.T) {
	t.Parallel()
	crd, err := crds.Typed(stored(t))
	if err != nil {
		t.Fatal(err)
	}
	crd.Spec.Names.Singular = "gadget"
	other := named("gadgets.example.com", apiextensionsv1.CustomResourceDefinitionNames{})
	other.Status.AcceptedNames.Singular = "gadget"
	later := metav1.NewTime(now.Add(time.Hour))
	state := func(kind apiextensionsv1.CustomResourceDefinitionConditionType) string {
		i := slices.IndexFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind })
		return fmt.Sprint(crd.Status.Conditions[i].Status, " ", crd.Status.Conditions[i].LastTransitionTime.Equal(&later))
	}
	crds.Accept(crd, []*apiextensionsv1.CustomResourceDefinition{other}, later)
	if crd.Status.AcceptedNames.Singular != "widget" || state(apiextensionsv1.NamesAccepted) != "False true" || state(apiextensionsv1.Established) != "True false" {
		t.Errorf("with a conflict %+v", crd.Status)
	}
	crds.Accept(crd, nil, later)
	if crd.Status.AcceptedNames.Singular != "gadget" || state(apiextensionsv1.NamesAccepted) != "True true" || state(apiextensionsv1.Established) != "True false" {
		t.Errorf("without one %+v", crd.Status)
	}
	crds.Terminate(crd, later)
	if state(apiextensionsv1.Terminating) != "True true" || state(apiextensionsv1.Established) != "True false" {
		t.Errorf("deleted %+v", crd.Status)
	}
}

// The groups are those of the API approval policy of Kubernetes.
func TestAcceptReportsWhetherAGroupIsApproved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ group, approval, want string }{
		"another group":      {"example.com", "", ""},
		"approved":           {"x.k8s.io", "https://github.com/kubernetes/enhancements/pull/1111", "True ApprovedAnnotation"},
		"not approved":       {"x.k8s.io", "unapproved, experimental-only", "False UnapprovedAnnotation"},
		"nothing":            {"x.k8s.io", "", "False MissingAnnotation"},
		"no address":         {"x.kubernetes.io", "yes", "False InvalidAnnotation"},
		"the project's name": {"kubernetes.io", "", "False MissingAnnotation"},
	} {
		crd := named("widgets."+tc.group, apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"})
		if crd.Spec.Group = tc.group; tc.approval != "" {
			crd.Annotations = map[string]string{"api-approved.kubernetes.io": tc.approval}
		}
		crds.Accept(crd, nil, now)
		got := ""
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.KubernetesAPIApprovalPolicyConformant {
				got = string(c.Status) + " " + c.Reason
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestNamesAreThoseThatOthersMustNotHave(t *testing.T) {
	t.Parallel()
	crd, err := crds.Names(accepted(t, widgets))
	if err != nil || crd.Name != "widgets.example.com" || crd.Spec.Group != "example.com" || crd.Status.AcceptedNames.Plural != "widgets" || len(crd.Spec.Versions) != 0 {
		t.Errorf("got %+v, error %v", crd, err)
	}
	if _, err := crds.Names([]byte(`{"spec":{"group":5}}`)); err == nil {
		t.Error("a group that is a number")
	}
}
