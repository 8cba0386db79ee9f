// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/conformance/provider"
)

// misdefinition is one thing that is wrong in a release.
type misdefinition struct {
	name  string
	spoil func(all map[string]*crd, role *rbacv1.ClusterRole)
	misbehaviour
}

// release writes a release.
func release(t *testing.T, all map[string]*crd, role *rbacv1.ClusterRole) string {
	t.Helper()
	var text bytes.Buffer
	text.WriteString("# a comment alone\n---\nkind: Deployment\nspec: {replicas: ${REPLICAS:=1}}\n")
	for _, obj := range all {
		doc, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(doc))
	}
	doc, err := yaml.Marshal(role)
	if err != nil {
		t.Fatal(err)
	}
	text.WriteString("---\n" + string(doc))
	file := filepath.Join(t.TempDir(), "components.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEachWrongDefinitionFailsItsCheck(t *testing.T) {
	t.Parallel()
	for role := range provider.Roles() {
		for _, tc := range append(misdefinitions(role), misdefinition{name: "nothing is wrong"}) {
			t.Run(role+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				all, rights := definitions(), grants()
				if tc.spoil != nil {
					tc.spoil(all, rights)
				}
				c := provider.Config{Files: []string{release(t, all, rights)}}
				*subjectOf(&c, role) = &provider.Subject{Kinds: []metav1.GroupKind{{Group: groupOf(kindOf(role)), Kind: kindOf(role)}}}
				var want []misbehaviour
				if tc.spoil != nil {
					want = append(want, tc.misbehaviour)
				}
				wantFailures(t, role, provider.Examine(t.Context(), c), want...)
			})
		}
	}
}

// an writes a role with its article, in a sentence or at its beginning.
func an(role string, begins bool) string {
	article := "an "
	if strings.ContainsAny(role[:1], "BC") {
		article = "a "
	}
	if begins {
		article = strings.ToUpper(article[:1]) + article[1:]
	}
	return article + role
}

// kindOf is the kind of the provider of these tests in a role.
func kindOf(role string) string {
	return "Fake" + strings.TrimPrefix(strings.TrimPrefix(role, "Infra"), "Bootstrap")
}

func subjectOf(c *provider.Config, role string) **provider.Subject {
	return map[string]**provider.Subject{
		"InfraCluster": &c.InfraCluster, "InfraMachine": &c.InfraMachine, "BootstrapConfig": &c.BootstrapConfig,
		"ControlPlane": &c.ControlPlane, "InfraMachinePool": &c.InfraMachinePool,
	}[role]
}

func misdefinitions(role string) []misdefinition {
	kind, an, big := kindOf(role), an(role, false), an(role, true)
	of := " of " + an
	one := func(name string, spoil func(d *crd), check, problem string) misdefinition {
		return misdefinition{name, func(all map[string]*crd, _ *rbacv1.ClusterRole) { spoil(all[kind]) }, misbehaviour{"", check, problem}}
	}
	template := func(name string, spoil func(d *crd), check, problem string) misdefinition {
		return misdefinition{name, func(all map[string]*crd, _ *rbacv1.ClusterRole) { spoil(all[kind+"Template"]) }, misbehaviour{"", check, problem}}
	}
	labels := "The definition" + of + " says by labels which of its versions keep which version of the contract."
	scope := big + " lies in a namespace."
	properties := func(d *crd) map[string]props { return d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties }
	all := []misdefinition{
		one("there is none", func(d *crd) { d.Spec.Names.Kind = "Other" }, big+" is defined by a CustomResourceDefinition.", "no CustomResourceDefinition of "+kind),
		one("it has no label", func(d *crd) { d.Labels = nil }, labels, "no label"),
		one("its label names no version", func(d *crd) { d.Labels["cluster.x-k8s.io/v1beta2"] = "v1_v2" }, labels, `"v2"`),
		one("its label names a version that is gone", func(d *crd) { d.Labels["cluster.x-k8s.io/v1beta2"] = "v1alpha1_v1" }, "The labels of the definition"+of+" name versions that are there.", `"v1alpha1"`),
		one("it keeps an older contract", keepOlder, big+" keeps the latest version of the contract.", "v1beta1"),
		one("its label names a version that is not served", func(d *crd) { d.Spec.Versions[0].Served = false }, labels, `"v1"`),
		template("its template has no label", func(d *crd) { d.Labels = nil }, labels, "no label"),
		one("it has a name of its own", func(d *crd) { d.Name = "fakes." + groupOf(kind) }, "The definition"+of+" has the name that the contract computes.", "want "+strings.ToLower(kind)+"s."+groupOf(kind)),
		one("it is of the whole cluster", func(d *crd) { d.Spec.Scope = apiextensionsv1.ClusterScoped }, scope, "Cluster"),
		template("its template is of the whole cluster", func(d *crd) { d.Spec.Scope = apiextensionsv1.ClusterScoped }, scope, "Cluster"),
		one("its list has another name", func(d *crd) { d.Spec.Names.ListKind = "FakeList" }, big+" has a list kind of its name with List after it.", "FakeList"),
		one("it lacks fields", func(d *crd) {
			status := properties(d)["status"]
			status.XPreserveUnknownFields = nil
			delete(status.Properties, "initialization")
			delete(status.Properties, "ready")
			properties(d)["status"] = status
		}, "The definition"+of+" has the fields that Cluster API cannot do without.", "status.initialization"),
		one("a field is of another type", func(d *crd) { properties(d)["status"].Properties["failureReason"] = props{Type: "integer"} },
			"The fields"+of+" that Cluster API reads are of the types of the contract.", "status.failureReason is of type integer, want string"),
		one("its status is no subresource", func(d *crd) { d.Spec.Versions[0].Subresources.Status = nil }, "The status"+of+" is a subresource.", "no subresource status"),
		{"the manager may not delete it", func(_ map[string]*crd, role *rbacv1.ClusterRole) {
			for i := range role.Rules {
				role.Rules[i].Verbs = []string{"create", "get", "list", "patch", "update", "watch"}
			}
		}, misbehaviour{"", "The manager may read and write " + an + " of a group of its own.", "delete"}},
		{"the role is not aggregated", func(_ map[string]*crd, role *rbacv1.ClusterRole) { role.Labels = nil },
			misbehaviour{"", "The manager may read and write " + an + " of a group of its own.", "aggregate-to-manager"}},
		{"it has no template", func(all map[string]*crd, _ *rbacv1.ClusterRole) { delete(all, kind+"Template") },
			misbehaviour{"", big + "Template goes with " + an + ".", "no CustomResourceDefinition of " + kind + "Template"}},
		template("its template holds nothing", func(d *crd) {
			d.Spec.Versions[0].Schema.OpenAPIV3Schema = new(fields("spec: object"))
			spec := properties(d)["spec"]
			spec.XPreserveUnknownFields = nil
			properties(d)["spec"] = spec
		}, big+"Template holds what is made from it in spec.template.spec.", "no object spec.template.spec"),
	}
	if role == "ControlPlane" {
		scale := "A ControlPlane with replicas can be scaled as other things are."
		all = append(all,
			one("it cannot be scaled", func(d *crd) { d.Spec.Versions[0].Subresources.Scale = nil }, scale, "no subresource scale"),
			one("it is scaled without a selector", func(d *crd) { d.Spec.Versions[0].Subresources.Scale.LabelSelectorPath = nil }, scale, "has the paths"))
	}
	return all
}
