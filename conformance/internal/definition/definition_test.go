// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/conformance"
)

type props = apiextensionsv1.JSONSchemaProps

func text() props { return props{Type: "string"} }

func object(fields map[string]props) props { return props{Type: "object", Properties: fields} }

func list(of props) props {
	return props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &of}}
}

// define builds a definition with one version, v1, that follows the contract v1beta2.
func define(kind string, status map[string]props) crd {
	singular := strings.ToLower(kind)
	template := object(map[string]props{"template": object(map[string]props{"spec": object(nil)}), "replicas": {Type: "integer"}})
	d := crd{ObjectMeta: metav1.ObjectMeta{Name: singular + "s.example.com", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1", clusterctlLabel: ""}}}
	d.Spec.Group, d.Spec.Scope = "example.com", apiextensionsv1.NamespaceScoped
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: singular + "s"}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: new(object(map[string]props{"spec": template, "status": object(status)}))},
		Subresources: &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: new(".status.selector")},
		},
	}}
	return d
}

// installed are a kind and its template, with a role for both, all of which keep the
// contract.
func installed() *Source {
	status := map[string]props{"conditions": list(object(map[string]props{"type": text(), "status": text()})), "ready": {Type: "boolean"}, "failureReason": text()}
	role := rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"cluster.x-k8s.io/aggregate-to-manager": "true"}}}
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"hosts", "hosttemplates"}, Verbs: []string{"*"}}}
	return &Source{definitions: []crd{define("Host", status), define("HostTemplate", nil)}, roles: []rbacv1.ClusterRole{role}, installed: true}
}

var host = schema.GroupKind{Group: "example.com", Kind: "Host"}

// needed are fields that a role needs.
var needed = []Promise{
	{Path: "status.ready", Type: "boolean", Must: true, Or: "status.initialization.provisioned"},
	{Path: "status.conditions.*.type", Type: "string", Must: true},
	{Path: "status.old", Type: "string", Must: true, In: "v1beta1"},
}

// checks are the checks of a kind, in the order in which a suite runs them.
var checks = []struct {
	name string
	run  func(*Kind) error
}{
	{"There", (*Kind).There}, {"Labelled", (*Kind).Labelled}, {"LabelsTrue", (*Kind).LabelsTrue}, {"UpToDate", (*Kind).UpToDate}, {"Movable", (*Kind).Movable},
	{"WellNamed", (*Kind).WellNamed}, {"Namespaced", (*Kind).Namespaced}, {"Listed", (*Kind).Listed}, {"StatusApart", (*Kind).StatusApart},
	{"RightsGranted", (*Kind).RightsGranted}, {"Templated", (*Kind).Templated}, {"TemplateShaped", (*Kind).TemplateShaped}, {"Scalable", (*Kind).Scalable},
	{"FieldsThere", func(k *Kind) error { return k.FieldsThere(needed) }}, {"FieldsTyped", func(k *Kind) error { return k.FieldsTyped(needed) }},
}

// run returns the outcome of each check that does not pass.
func run(k *Kind) map[string]string {
	out := map[string]string{}
	for _, c := range checks {
		r := conformance.Check{Name: c.name}.Evaluate(c.run(k), "")
		if r.Outcome != conformance.Passed {
			out[c.name] = string(r.Outcome) + ": " + r.Problem
		}
		if c.name == "Labelled" && !k.Usable() {
			return out // a suite ends here
		}
	}
	return out
}

// TestEachCheckFails breaks one rule at a time: the check of that rule fails, and no other.
func TestEachCheckFails(t *testing.T) {
	t.Parallel()
	schemaOf := func(d *crd) *props { return d.Spec.Versions[0].Schema.OpenAPIV3Schema }
	status := func(d *crd) map[string]props { return schemaOf(d).Properties["status"].Properties }
	for name, tc := range map[string]struct {
		spoil func(s *Source, kind, template *crd)
		check string // that fails; empty if none does
		want  string // part of its outcome
	}{
		"nothing is wrong": {},
		"no definition":    {func(_ *Source, kind, _ *crd) { kind.Spec.Names.Kind = "Other" }, "There", "there is no CustomResourceDefinition of Host in group example.com"},
		"another group":    {func(_ *Source, kind, _ *crd) { kind.Spec.Group = "example.org" }, "There", "in group example.com"},
		"no label":         {func(_ *Source, kind, _ *crd) { kind.Labels = nil }, "Labelled", "no label"},
		"a label of a version that does not exist": {func(_ *Source, kind, _ *crd) { kind.Labels["cluster.x-k8s.io/v1beta2"] = "v1_v2" }, "Labelled", `hosts.example.com has no version "v2", which Cluster API would use`},
		"a version that is not served":             {func(_ *Source, kind, _ *crd) { kind.Spec.Versions[0].Served = false }, "Labelled", `version "v1", which Cluster API would use, is not served`},
		"a template without a label":               {func(_ *Source, _, template *crd) { delete(template.Labels, "cluster.x-k8s.io/v1beta2") }, "Labelled", "hosttemplates.example.com: no label"},
		"an unused label of no version":            {func(_ *Source, kind, _ *crd) { kind.Labels["cluster.x-k8s.io/v1beta1"] = "v1alpha1" }, "LabelsTrue", `label cluster.x-k8s.io/v1beta1: hosts.example.com has no version "v1alpha1"`},
		"an unused version in the used label":      {func(_ *Source, kind, _ *crd) { kind.Labels["cluster.x-k8s.io/v1beta2"] = "v1alpha1_v1" }, "LabelsTrue", `"v1alpha1"`},
		"no label of clusterctl":                   {func(_ *Source, kind, _ *crd) { delete(kind.Labels, clusterctlLabel) }, "Movable", "hosts.example.com does not have the label"},
		"a template without a label of clusterctl": {func(_ *Source, _, template *crd) { delete(template.Labels, clusterctlLabel) }, "Movable", "hosttemplates.example.com"},
		"another name":                             {func(_ *Source, kind, _ *crd) { kind.Name = "host.example.com" }, "WellNamed", "is called host.example.com, want hosts.example.com"},
		"the scope of the kind":                    {func(_ *Source, kind, _ *crd) { kind.Spec.Scope = apiextensionsv1.ClusterScoped }, "Namespaced", "hosts.example.com is Cluster"},
		"the scope of the template":                {func(_ *Source, _, template *crd) { template.Spec.Scope = apiextensionsv1.ClusterScoped }, "Namespaced", "hosttemplates.example.com is Cluster"},
		"another list kind":                        {func(_ *Source, kind, _ *crd) { kind.Spec.Names.ListKind = "Hosts" }, "Listed", "is Hosts, want HostList"},
		"the usual list kind":                      {spoil: func(_ *Source, kind, _ *crd) { kind.Spec.Names.ListKind = "HostList" }},
		"no status subresource":                    {func(_ *Source, kind, _ *crd) { kind.Spec.Versions[0].Subresources.Status = nil }, "StatusApart", "version v1 of hosts.example.com has no subresource status"},
		"a permission is missing": {func(s *Source, _, _ *crd) {
			s.roles[0].Rules[0].Verbs = []string{"create", "get", "list", "patch", "update", "watch"}
		}, "RightsGranted", "grants delete on hosts in example.com"},
		"a template is only read": {func(s *Source, _, _ *crd) {
			s.roles[0].Rules = append(s.roles[0].Rules, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"hosttemplates"}, Verbs: []string{"get", "list", "watch"}})
			s.roles[0].Rules[0].Resources = []string{"hosts"}
		}, "RightsGranted", "grants patch, update on hosttemplates in example.com"},
		"a role that is not aggregated":    {func(s *Source, _, _ *crd) { s.roles[0].Labels = nil }, "RightsGranted", "aggregate-to-manager"},
		"a permission for one object":      {func(s *Source, _, _ *crd) { s.roles[0].Rules[0].ResourceNames = []string{"h"} }, "RightsGranted", "grants create, delete, get, list, patch, update, watch on hosts"},
		"a permission of another group":    {func(s *Source, _, _ *crd) { s.roles[0].Rules[0].APIGroups = []string{"example.org"} }, "RightsGranted", "on hosts in example.com"},
		"a template without spec.template": {func(_ *Source, _, template *crd) { schemaOf(template).Properties["spec"] = object(nil) }, "TemplateShaped", "version v1 of hosttemplates.example.com has no object spec.template.spec"},
		"a template of a text": {func(_ *Source, _, template *crd) {
			schemaOf(template).Properties["spec"] = object(map[string]props{"template": object(map[string]props{"spec": text()})})
		}, "TemplateShaped", "no object spec.template.spec"},
		"no scale subresource": {func(_ *Source, kind, _ *crd) { kind.Spec.Versions[0].Subresources.Scale = nil }, "Scalable", "version v1 of hosts.example.com has no subresource scale"},
		"a scale of other paths": {func(_ *Source, kind, _ *crd) {
			kind.Spec.Versions[0].Subresources.Scale.StatusReplicasPath = ".status.ready"
		}, "Scalable", `the paths ".spec.replicas", ".status.ready" and ".status.selector"`},
		"a scale with no selector": {func(_ *Source, kind, _ *crd) { kind.Spec.Versions[0].Subresources.Scale.LabelSelectorPath = nil }, "Scalable", `and ""`},
		"no replicas to scale":     {func(_ *Source, kind, _ *crd) { delete(schemaOf(kind).Properties["spec"].Properties, "replicas") }, "Scalable", "skipped: it has no spec.replicas"},
		"a field is missing":       {func(_ *Source, kind, _ *crd) { delete(status(kind), "conditions") }, "FieldsThere", "version v1 of hosts.example.com: it has no status.conditions.*.type"},
		"both fields are missing":  {func(_ *Source, kind, _ *crd) { delete(status(kind), "ready") }, "FieldsThere", "it has neither status.ready nor status.initialization.provisioned"},
		"the other field is there": {spoil: func(_ *Source, kind, _ *crd) {
			delete(status(kind), "ready")
			status(kind)["initialization"] = object(map[string]props{"provisioned": {Type: "boolean"}})
		}},
		"a schema that leaves fields open": {spoil: func(_ *Source, kind, _ *crd) {
			kind.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"] = props{Type: "object", XPreserveUnknownFields: new(true)}
		}},
		"a field of another type": {func(_ *Source, kind, _ *crd) { status(kind)["failureReason"] = props{Type: "integer"} }, "FieldsTyped", "status.failureReason is of type integer, want string"},
		"an item of another type": {func(_ *Source, kind, _ *crd) {
			status(kind)["conditions"] = list(object(map[string]props{"type": text(), "status": {Type: "boolean"}}))
		}, "FieldsTyped", "status.conditions.*.status is of type boolean, want string"},
		"a release, not an installation": {func(s *Source, _, _ *crd) { s.installed = false }, "Movable", "skipped: clusterctl sets it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := installed()
			if tc.spoil != nil {
				tc.spoil(s, &s.definitions[0], &s.definitions[1])
			}
			got := run(&Kind{GroupKind: host, Source: s})
			if tc.check == "There" {
				delete(got, "Labelled") // needs the definition
			}
			outcome, failed := got[tc.check]
			delete(got, tc.check)
			for check, other := range got {
				if strings.HasPrefix(other, string(conformance.Skipped)) {
					delete(got, check) // it needs what is wrong
				}
			}
			if failed != (tc.check != "") || !strings.Contains(outcome, tc.want) || len(got) > 0 {
				t.Errorf("%s is %q, want %q; others: %q", tc.check, outcome, tc.want, got)
			}
		})
	}
}

// TestOlderContractIsAdvisedAndCheckedByItsFields has a kind of contract v1beta1 without a
// template.
func TestOlderContractIsAdvisedAndCheckedByItsFields(t *testing.T) {
	t.Parallel()
	s := installed()
	s.definitions = s.definitions[:1]
	s.definitions[0].Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1", clusterctlLabel: ""}
	k := &Kind{GroupKind: host, Source: s}
	got := run(k)
	for check, want := range map[string]string{
		"UpToDate": "keeps the contract v1beta1", "FieldsThere": "it has no status.old", "Templated": "there is no CustomResourceDefinition of HostTemplate", "TemplateShaped": "skipped: there is no",
	} {
		if !strings.Contains(got[check], want) {
			t.Errorf("%s is %q, want %q", check, got[check], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("outcomes %q", got)
	}
	if _, err := k.TemplateVersion(); err == nil {
		t.Error("a template that does not exist has a version")
	}
	if !k.Has("status.ready") || k.Has("status.absent") {
		t.Error("fields of the kind are not found, or others are")
	}
}

// TestRightsOfProjectGroupsAreTheManagers own.
func TestRightsOfProjectGroupsAreTheManagers(t *testing.T) {
	t.Parallel()
	s := &Source{}
	for _, group := range ofTheProject {
		if err := (&Kind{GroupKind: schema.GroupKind{Group: group, Kind: "Host"}, Source: s}).RightsGranted(); err != nil {
			t.Errorf("%s: %v", group, err)
		}
	}
}

func TestNamedFindsKindsOfRole(t *testing.T) {
	t.Parallel()
	s := installed()
	plain, unlabeled := define("BigHost", nil), define("SmallHost", nil)
	unlabeled.Labels = nil
	s.definitions = append(s.definitions, plain, unlabeled, define("ExtraHost", nil), define("ExtraHostTemplate", nil))
	for want, got := range map[string][]schema.GroupKind{
		"BigHost.example.com ExtraHost.example.com": s.Named("Host", false),
		"ExtraHost.example.com":                     s.Named("Host", true),
		"":                                          s.Named("Cluster", false),
	} {
		var names []string
		for _, k := range got {
			names = append(names, k.String())
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%q, want %q", names, want)
		}
	}
}

func TestReadTakesDefinitionsAndRoles(t *testing.T) {
	t.Parallel()
	const crdText = "kind: CustomResourceDefinition\nmetadata: {name: hosts.example.com}\nspec: {group: example.com, names: {kind: Host}}\n"
	for name, tc := range map[string]struct {
		text        string
		kinds, role int
		want        string // part of the error
	}{
		"both":                              {crdText + "---\nkind: ClusterRole\nmetadata: {name: r}\nrules: [{verbs: [get]}]\n", 1, 1, ""},
		"variables in other objects":        {"kind: Deployment\nspec: {replicas: ${N:=1}}\n---\n# nothing\n---\n" + crdText, 1, 0, ""},
		"an empty file":                     {"", 0, 0, ""},
		"a definition of wrong types":       {"kind: Secret\n---\nkind: CustomResourceDefinition\nspec: {versions: none}\n", 0, 0, "read CustomResourceDefinition in document 2 of "},
		"a role of wrong types":             {"kind: ClusterRole\nrules: 1\n", 0, 0, "read ClusterRole in document 1 of "},
		"a document that is no object":      {"- kind: ClusterRole\n---\n" + crdText, 1, 0, ""},
		"a List, which no release contains": {"kind: List\nitems: []\n", 0, 0, ""},
	} {
		file := filepath.Join(t.TempDir(), "components.yaml")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Read([]string{file})
		switch {
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		case tc.want == "" && (err != nil || len(s.definitions) != tc.kinds || len(s.roles) != tc.role || s.installed):
			t.Errorf("%s: %+v, error %v", name, s, err)
		}
	}
	if _, err := Read([]string{filepath.Join(t.TempDir(), "none.yaml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestListReadsManagementCluster(t *testing.T) {
	t.Parallel()
	sch := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(sch), rbacv1.AddToScheme(sch)); err != nil {
		t.Fatal(err)
	}
	kind := define("Host", nil)
	mgmt := fake.NewClientBuilder().WithScheme(sch).WithObjects(&kind, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}}).Build()
	s, err := List(t.Context(), mgmt)
	if err != nil || len(s.definitions) != 1 || len(s.roles) != 1 || !s.installed {
		t.Errorf("%+v, error %v", s, err)
	}
	for _, want := range []string{"list CustomResourceDefinitions: ", "list ClusterRoles: "} {
		failing := interceptor.NewClient(mgmt, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, roles := l.(*rbacv1.ClusterRoleList); roles == strings.Contains(want, "Role") {
				return errors.New("forbidden")
			}
			return c.List(ctx, l, opts...)
		}})
		if _, err := List(t.Context(), failing); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestUnusableKindHasNoFields: no check of a kind that is not defined panics.
func TestUnusableKindHasNoFields(t *testing.T) {
	t.Parallel()
	k := &Kind{GroupKind: host, Source: &Source{}}
	if k.Usable() {
		t.Error("a kind that is not defined is usable")
	}
	for _, c := range checks {
		if slices.Contains([]string{"There", "Labelled", "LabelsTrue", "WellNamed", "Namespaced", "Listed", "RightsGranted", "Templated"}, c.name) {
			if err := c.run(k); err == nil || !strings.Contains(err.Error(), "there is no CustomResourceDefinition of Host") {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}
