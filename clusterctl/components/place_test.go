// SPDX-License-Identifier: Apache-2.0

package components

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/clusterctl/template"
)

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := template.Objects([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestPlaceChangesReferencesToWhatMoves has an object of each form of reference, in a file
// whose objects are in the namespace mine.
func TestPlaceChangesReferencesToWhatMoves(t *testing.T) {
	t.Parallel()
	const account = "---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: mine}}\n"
	for name, tc := range map[string]struct{ is, want string }{
		"an object without a namespace": {
			"{apiVersion: v1, kind: Service, metadata: {name: a}}",
			"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: to}}",
		},
		"a kind without namespaces": {
			"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}}",
			"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}}",
		},
		"the Namespace itself, and another": {
			"{apiVersion: v1, kind: Namespace, metadata: {name: mine}, spec: {}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: other}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: to}, spec: {}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: other}}",
		},
		"subjects of a binding": {
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, subjects: [
{kind: ServiceAccount, name: x}, {kind: ServiceAccount, name: x, namespace: mine}, {kind: ServiceAccount, name: robot, namespace: elsewhere}, {kind: ServiceAccount, name: x, namespace: kube-system},
{kind: Group, name: 'system:serviceaccounts:mine'}, {kind: Group, name: 'system:serviceaccounts:other'}, {kind: Group, name: 'system:authenticated'},
{kind: User, name: 'system:serviceaccount:mine:x'}, {kind: User, name: 'system:serviceaccount:other:robot'}, {kind: User, name: 'system:serviceaccount:other:x'}, {kind: User, name: jane}, 1]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}, subjects: [
{kind: ServiceAccount, name: x, namespace: to}, {kind: ServiceAccount, name: x, namespace: to}, {kind: ServiceAccount, name: robot, namespace: to}, {kind: ServiceAccount, name: x, namespace: kube-system},
{kind: Group, name: 'system:serviceaccounts:to'}, {kind: Group, name: 'system:serviceaccounts:other'}, {kind: Group, name: 'system:authenticated'},
{kind: User, name: 'system:serviceaccount:to:x'}, {kind: User, name: 'system:serviceaccount:to:robot'}, {kind: User, name: 'system:serviceaccount:other:x'}, {kind: User, name: jane}, 1]}`,
		},
		"services of webhooks": {
			"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{clientConfig: {service: {name: s, namespace: any}}}, {clientConfig: {url: 'https://x'}}]}",
			"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{clientConfig: {service: {name: s, namespace: to}}}, {clientConfig: {url: 'https://x'}}]}",
		},
		"the service of an API": {
			"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, spec: {service: {name: s, namespace: any}}}",
			"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: a}, spec: {service: {name: s, namespace: to}}}",
		},
		"the conversion of a definition, and no schema of it": {
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: x.io, names: {kind: A}, conversion: {webhook: {clientConfig: {service: {name: s, namespace: any}}}}, versions: [{schema: {name: x, namespace: mine}}]}}",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: x.io, names: {kind: A}, conversion: {webhook: {clientConfig: {service: {name: s, namespace: to}}}}, versions: [{schema: {name: x, namespace: mine}}]}}",
		},
		"a kind that the file defines for the whole cluster": {
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: x.io, scope: Cluster, names: {kind: A}}}\n---\n{apiVersion: x.io/v1, kind: A, metadata: {name: a}}",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: x.io, scope: Cluster, names: {kind: A}}}\n---\n{apiVersion: x.io/v1, kind: A, metadata: {name: a}}",
		},
		"names of a certificate": {
			"{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a}, spec: {commonName: s.any.svc, dnsNames: [s.any.svc, s.any.svc.cluster.local, s.mine, s.other, mine, 1]}}",
			"{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: a, namespace: to}, spec: {commonName: s.to.svc, dnsNames: [s.to.svc, s.to.svc.cluster.local, s.to, s.other, mine, 1]}}",
		},
		"a Certificate of another group": {
			"{apiVersion: x.io/v1, kind: Certificate, metadata: {name: a}, spec: {dnsNames: [s.any.svc]}}",
			"{apiVersion: x.io/v1, kind: Certificate, metadata: {name: a, namespace: to}, spec: {dnsNames: [s.any.svc]}}",
		},
		"annotations of cert-manager": {
			"{apiVersion: x.io/v1, kind: A, metadata: {name: a, annotations: {cert-manager.io/inject-ca-from: any/c, cert-manager.io/inject-ca-from-secret: c, other: any/c}}}",
			"{apiVersion: x.io/v1, kind: A, metadata: {name: a, namespace: to, annotations: {cert-manager.io/inject-ca-from: to/c, cert-manager.io/inject-ca-from-secret: c, other: any/c}}}",
		},
		"a reference of any kind": {
			"{apiVersion: x.io/v1, kind: A, metadata: {name: a}, spec: {refs: [{name: x, namespace: mine}, {name: x, namespace: other}, {namespace: mine}], topology: {classNamespace: mine}}}",
			"{apiVersion: x.io/v1, kind: A, metadata: {name: a, namespace: to}, spec: {refs: [{name: x, namespace: to}, {name: x, namespace: other}, {namespace: mine}], topology: {classNamespace: to}}}",
		},
		"selectors of a namespace": {
			"{apiVersion: x.io/v1, kind: A, metadata: {name: a}, spec: {matchLabels: {kubernetes.io/metadata.name: mine}, matchExpressions: [{key: kubernetes.io/metadata.name, values: [mine, other, 1]}, {key: app, values: [mine]}]}}",
			"{apiVersion: x.io/v1, kind: A, metadata: {name: a, namespace: to}, spec: {matchLabels: {kubernetes.io/metadata.name: to}, matchExpressions: [{key: kubernetes.io/metadata.name, values: [to, other, 1]}, {key: app, values: [mine]}]}}",
		},
		"data is text": {
			"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {name: x, namespace: mine}}",
			"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: to}, data: {name: x, namespace: mine}}",
		},
		"fields of other types than they should have": {
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, subjects: mine}\n---\n{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: b}, spec: mine}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a, namespace: to}, subjects: mine}\n---\n{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: b, namespace: to}, spec: mine}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tc.is+"\n"+account)
			if err := Place(got, "to"); err != nil {
				t.Fatal(err)
			}
			want := parse(t, tc.want+"\n"+strings.ReplaceAll(account, "mine", "to"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlaceRefusesObjectsThatWouldBecomeOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"of two namespaces":          {"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: one}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: two}}", `Secret a is in the namespaces "one" and "two", and all go into to: give them different names`},
		"of one namespace":           {"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: one}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: one}}", ""},
		"of two groups":              {"{apiVersion: a.io/v1, kind: A, metadata: {name: a, namespace: one}}\n---\n{apiVersion: b.io/v1, kind: A, metadata: {name: a, namespace: two}}", ""},
		"whose names are generated":  {"{apiVersion: v1, kind: Secret, metadata: {generateName: a-, namespace: one}}\n---\n{apiVersion: v1, kind: Secret, metadata: {generateName: a-, namespace: two}}", ""},
		"of a kind without any":      {"{apiVersion: v1, kind: Node, metadata: {name: a, namespace: one}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: a}}", ""},
		"in two versions of a group": {"{apiVersion: a.io/v1, kind: A, metadata: {name: a, namespace: one}}\n---\n{apiVersion: a.io/v2, kind: A, metadata: {name: a, namespace: two}}", `A a is in the namespaces "one" and "two"`},
	} {
		if err := Place(parse(t, tc.text), "to"); (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

func TestObjectsAreInTheOrderOfTheirDependencies(t *testing.T) {
	t.Parallel()
	c := load(t, Input{Raw: []byte(`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: manager}]}}}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}}
---
{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: i}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: as.a.io}, spec: {group: a.io, names: {kind: A}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: home}}
`)})
	var got []string
	for _, obj := range c.Objects() {
		got = append(got, describe(obj))
		if labels := obj.GetLabels(); labels["cluster.x-k8s.io/provider"] != "infrastructure-x" {
			t.Errorf("%s has the labels %v", describe(obj), labels)
		}
	}
	if diff := cmp.Diff([]string{"Namespace home", "CustomResourceDefinition as.a.io", "Issuer i", "Certificate c", "Deployment d", "Secret s"}, got); diff != "" || len(c.Warnings) > 0 {
		t.Errorf("warnings %q, order (-want +got):\n%s", c.Warnings, diff)
	}
}

func TestLoadWarnsOfObjectsThatAreThereTwice(t *testing.T) {
	t.Parallel()
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: %}}\n---\n"
	c := load(t, Input{Namespace: "to", Raw: []byte(strings.ReplaceAll(secret, "%", "MQ==") + strings.ReplaceAll(secret, "%", "Mg==") + "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{name: manager}]}}}}")})
	if diff := cmp.Diff([]string{"Secret a is in the file twice: the last stays"}, c.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestGrantNamesTheAccountsOfAllPods, and nothing that is not deleted with the provider.
func TestGrantNamesTheAccountsOfAllPods(t *testing.T) {
	t.Parallel()
	pod := func(kind, name, account string) string {
		return "---\n{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: " + name + "}, spec: {template: {spec: {" + account + "containers: [{name: manager, image: i}]}}}}\n"
	}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"x.io"}, Resources: []string{"things"}, Verbs: []string{"get"}}}
	c := load(t, Input{Raw: []byte(oneNamespace + pod("Deployment", "d", "serviceAccountName: robot, ") + pod("DaemonSet", "e", "") + pod("Deployment", "f", "serviceAccountName: robot, "))})
	before := len(c.Objects())
	accounts, err := c.Grant("things", rules)
	if diff := cmp.Diff([]string{"capx-system/default", "capx-system/robot"}, accounts); diff != "" || err != nil {
		t.Fatalf("%v, accounts (-want +got):\n%s", err, diff)
	}
	added := c.Objects()[before:]
	if len(added) != 2 {
		t.Fatalf("%d objects are added", len(added))
	}
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	for i, into := range []any{role, binding} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(added[i].Object, into, true); err != nil {
			t.Fatal(err)
		}
		if name := added[i].GetName(); name != "capx-system-infrastructure-x-things" || added[i].GetLabels()["cluster.x-k8s.io/provider"] != "infrastructure-x" {
			t.Errorf("%s has the labels %v", name, added[i].GetLabels())
		}
	}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role.Name}, binding.RoleRef); diff != "" {
		t.Errorf("role of the binding (-want +got):\n%s", diff)
	}
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "capx-system", Name: "robot"}, {Kind: "ServiceAccount", Namespace: "capx-system", Name: "default"}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	none := load(t, Input{Raw: []byte(oneNamespace)})
	if accounts, err := none.Grant("things", rules); accounts != nil || err != nil || len(none.Objects()) != 1 {
		t.Errorf("without Pods: %v, %v, %d objects", accounts, err, len(none.Objects()))
	}
}

func TestReplaceImagesReplacesVolumesToo(t *testing.T) {
	t.Parallel()
	objects := parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{image: a}, {image: ''}, 1], volumes: [{image: {reference: v}}, {emptyDir: {}}, {image: 1}]}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, spec: {containers: [{image: no}]}}")
	images, err := ReplaceImages(objects, "c", func(component, image string) (string, error) { return component + "/" + image, nil })
	if diff := cmp.Diff([]string{"c/a", "c/v"}, images); diff != "" || err != nil {
		t.Errorf("%v, images (-want +got):\n%s", err, diff)
	}
	if images, err := ReplaceImages(objects, "c", nil); cmp.Diff([]string{"c/a", "c/v"}, images) != "" || err != nil {
		t.Errorf("kept: %q, %v", images, err)
	}
}
