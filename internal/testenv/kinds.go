// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is the definition of a kind of no known provider: namespaced objects of
// any fields, in version v1, which keep the contract v1beta2.
func Kind(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
}

// Define installs a Kind until the test ends. Objects of it can be created a moment
// later.
func (e *Env) Define(t testing.TB, kind *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if err := e.Client.Create(t.Context(), kind); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Client.Delete(context.Background(), kind); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete %s: %v", kind.Name, err)
		}
	})
}
