// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/manifests"
)

// Definitions returns the definitions as an API server of a plane that runs
// providers, and has no other definitions, has stored them some time before now:
// all their kinds are served.
func Definitions(providers []string) func(now time.Time) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return func(now time.Time) ([]*apiextensionsv1.CustomResourceDefinition, error) {
		return settled(now, providers)
	}
}

// ofPlane returns the definitions of a plane that runs providers. A plane without
// providers of Cluster API leaves its definitions to the manager that runs them, as
// any other API server does: they define the converter, which is then not this
// process.
func ofPlane(providers []string) (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	if controllers.ClusterAPI(providers) {
		if crds, err = manifests.CRDs(); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(providers, controllers.Certificates) {
		return crds, nil
	}
	more, err := manifests.Certificates()
	return append(crds, more...), err
}

func settled(now time.Time, providers []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := ofPlane(providers)
	if err != nil {
		return nil, err
	}
	since := metav1.NewTime(now.Add(-heldBack))
	for _, crd := range crds {
		if len(crd.Spec.Versions) > 1 {
			convertInProcess(crd, nil)
		}
		setDefaults(crd)
		needsNoMigration(crd)
		crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: crd.Spec.Names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: since, Reason: "NoConflicts", Message: "no conflicts found"},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: since, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
			},
		}
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				crd.Status.StoredVersions = []string{v.Name}
			}
		}
	}
	return crds, nil
}

// needsNoMigration marks a new definition as migrated: it has no objects yet.
func needsNoMigration(crd *apiextensionsv1.CustomResourceDefinition) {
	metav1.SetMetaDataAnnotation(&crd.ObjectMeta, clusterv1.CRDMigrationObservedGenerationAnnotation, "1")
}

func setDefaults(crd *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
}
