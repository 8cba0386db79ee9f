// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

// TestAnAPIServerAcceptsEveryCRD runs what the API server runs on creation:
// structural schemas, defaults, CEL rules and their cost.
func TestAnAPIServerAcceptsEveryCRD(t *testing.T) {
	t.Parallel()
	for _, crd := range mustCRDs(t) {
		t.Run(crd.Name, func(t *testing.T) {
			t.Parallel()
			apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
			internal := &apiextensions.CustomResourceDefinition{}
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
				t.Fatal(err)
			}
			// The server itself sets what was stored.
			for _, v := range crd.Spec.Versions {
				if v.Storage {
					internal.Status.StoredVersions = []string{v.Name}
				}
			}
			for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
				t.Error(err)
			}
		})
	}
}
