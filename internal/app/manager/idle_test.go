// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/manifests"
)

func TestKindsThatNoControllerActsOnAreWarnedOf(t *testing.T) {
	t.Parallel()
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for provider, want := range map[string][]string{
		controllers.Core:    nil,
		controllers.Kubeadm: {"KubeadmControlPlaneTemplate"},
		controllers.Local:   {"LocalClusterTemplate", "LocalMachinePoolTemplate"},
	} {
		var got []string
		for _, w := range idleWarnings(scheme, provider) {
			got = append(got, w.Kind.Kind)
			answer := w.Admit(t.Context(), &admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte("{}")}})
			text := w.Kind.Kind + " is not available in this version: the object is stored, but no controller acts on it"
			if diff := cmp.Diff([]string{text}, answer.Warnings); diff != "" || !answer.Allowed {
				t.Errorf("%s: allowed %v, warnings (-want +got):\n%s", w.Kind.Kind, answer.Allowed, diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
	}
}

// TestIdleKindsAreInstalled holds the plurals that are made from kinds, and
// the list of groups, to the definitions.
func TestIdleKindsAreInstalled(t *testing.T) {
	t.Parallel()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	plurals, grouped := map[string]string{}, map[string]bool{"ipam.cluster.x-k8s.io": true, "clusterctl.cluster.x-k8s.io": true}
	for _, crd := range crds {
		plurals[crd.Spec.Names.Kind] = crd.Spec.Names.Plural
	}
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range controllers.Providers() {
		for _, w := range idleWarnings(scheme, provider) {
			if plurals[w.Kind.Kind] != w.Resource {
				t.Errorf("the plural of %s is %q, not %q", w.Kind.Kind, plurals[w.Kind.Kind], w.Resource)
			}
		}
		for _, gv := range groups[provider] {
			grouped[gv.Group] = true
		}
	}
	for _, crd := range crds {
		if !grouped[crd.Spec.Group] {
			t.Errorf("group %s belongs to no provider", crd.Spec.Group)
		}
	}
}
