// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/capstan-dev/capstan/manifests"
)

// TestADefinitionThatStoppedHalfwayIsEstablished plays an API server that, as the
// real one, establishes a definition only after a change of it.
func TestADefinitionThatStoppedHalfwayIsEstablished(t *testing.T) {
	t.Parallel()
	all, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	halfway := all[0].DeepCopy()
	halfway.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "Installing"},
	}
	c := fake.NewSimpleClientset(halfway)
	c.PrependReactor("update", "customresourcedefinitions", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "status" {
			return false, nil, nil
		}
		crd := a.(clienttesting.UpdateAction).GetObject().(*apiextensionsv1.CustomResourceDefinition).DeepCopy()
		if equality.Semantic.DeepEqual(crd.Status, halfway.Status) {
			return true, crd, nil // no event comes of that
		}
		crd.Status.Conditions[1].Status = apiextensionsv1.ConditionTrue
		return true, crd, c.Tracker().Update(a.GetResource(), crd, "")
	})
	fresh, err := installCRDs(t.Context(), c.ApiextensionsV1().CustomResourceDefinitions(), all[:1])
	if err != nil || len(fresh) != 1 || fresh[0].Name != halfway.Name {
		t.Errorf("newly established: %v, error %v", fresh, err)
	}
}
