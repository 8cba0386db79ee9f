// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groupOf is the group of a kind of the provider of these tests.
func groupOf(kind string) string {
	switch {
	case strings.HasPrefix(kind, "FakeConfig"):
		return "bootstrap.example.com"
	case strings.HasPrefix(kind, "FakeControlPlane"):
		return "controlplane.example.com"
	}
	return "infrastructure.example.com"
}

type (
	crd   = apiextensionsv1.CustomResourceDefinition
	props = apiextensionsv1.JSONSchemaProps
)

// fields builds a schema of fields, each "path: type", with * for the items of a list or
// a map. Other fields are allowed.
func fields(all ...string) props {
	root := props{Type: "object", XPreserveUnknownFields: new(true)}
	for _, one := range all {
		path, kind, _ := strings.Cut(one, ": ")
		root = with(root, strings.Split(path, "."), kind)
	}
	return root
}

func with(at props, path []string, kind string) props {
	if len(path) == 0 {
		at.Type = kind
		if kind == "array" && at.Items == nil {
			at.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &props{XPreserveUnknownFields: new(true)}}
		}
		if kind == "object" {
			at.XPreserveUnknownFields = new(true)
		}
		return at
	}
	if path[0] == "*" {
		at.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(with(*at.Items.Schema, path[1:], kind))}
		return at
	}
	if at.Properties == nil {
		at.Properties = map[string]props{}
	}
	next, ok := at.Properties[path[0]]
	if !ok {
		next = props{Type: "object"}
	}
	at.Properties[path[0]] = with(next, path[1:], kind)
	return at
}

// define builds a definition that implements the contract.
func define(kind string, all ...string) *crd {
	singular := strings.ToLower(kind)
	d := &crd{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + groupOf(kind), Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1", "clusterctl.cluster.x-k8s.io": ""}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: groupOf(kind), Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: new(fields(all...))},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	return d
}

var common = []string{"spec: object", "status: object", "status.conditions: array", "status.conditions.*.type: string", "status.conditions.*.status: string"}

// definitions are those of the provider of these tests, by kind.
func definitions() map[string]*crd {
	all := map[string]*crd{}
	for kind, own := range map[string][]string{
		"FakeCluster": {
			"spec.controlPlaneEndpoint: object", "spec.controlPlaneEndpoint.host: string", "spec.controlPlaneEndpoint.port: integer",
			"status.initialization: object", "status.initialization.provisioned: boolean", "status.failureDomains: array",
		},
		"FakeMachine": {
			"spec.providerID: string", "status.initialization: object", "status.initialization.provisioned: boolean",
			"status.addresses: array", "status.addresses.*.type: string", "status.addresses.*.address: string", "status.failureDomain: string",
		},
		"FakeConfig": {"status.dataSecretName: string", "status.initialization: object", "status.initialization.dataSecretCreated: boolean"},
		"FakeControlPlane": {
			"spec.replicas: integer", "spec.version: string", "spec.machineTemplate: object", "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds: integer", "spec.machineTemplate.nodeDrainTimeout: string", "status.initialization: object", "status.initialization.controlPlaneInitialized: boolean",
			"status.replicas: integer", "status.readyReplicas: integer", "status.availableReplicas: integer", "status.upToDateReplicas: integer",
			"status.selector: string", "status.version: string",
		},
		"FakeMachinePool": {
			"spec.providerIDList: array", "status.initialization: object", "status.initialization.provisioned: boolean", "status.ready: boolean",
			"status.replicas: integer", "status.infrastructureMachineKind: string", "status.instances: array",
		},
	} {
		all[kind] = define(kind, append(common, own...)...)
		all[kind+"Template"] = define(kind+"Template", "spec: object", "spec.template: object", "spec.template.spec: object",
			"spec.template.spec.size: integer", "spec.template.spec.frozen: boolean", "status: object")
		all[kind+"Template"].Spec.Versions[0].Subresources = nil // the status of a template is set with it
		freeze(all[kind+"Template"])
	}
	all["FakeControlPlane"].Spec.Versions[0].Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
		SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: new(".status.selector"),
	}
	return all
}

// keepOlder makes a definition one of the contract v1beta1.
func keepOlder(d *crd) {
	d.Labels["cluster.x-k8s.io/v1beta1"] = d.Labels["cluster.x-k8s.io/v1beta2"]
	delete(d.Labels, "cluster.x-k8s.io/v1beta2")
	delete(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties, "failureDomains") // a map there
}

// grants gives the manager the permissions that it needs for the kinds.
func grants() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "capstan-conformance-fake", Labels: map[string]string{"cluster.x-k8s.io/aggregate-to-manager": "true"}},
	}
	for _, d := range definitions() {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{d.Spec.Group}, Resources: []string{d.Spec.Names.Plural}, Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	return role
}

// freeze gives templates a rule that refuses changes, in dry runs too.
func freeze(d *crd) {
	at := d.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, step := range []string{"spec", "template"} {
		next := at.Properties[step]
		defer func(at *props) { at.Properties[step] = next }(at)
		at = &next
	}
	spec := at.Properties["spec"]
	spec.XValidations = apiextensionsv1.ValidationRules{{Rule: "!has(self.frozen) || self == oldSelf", Message: "it is frozen"}}
	at.Properties["spec"] = spec
}
