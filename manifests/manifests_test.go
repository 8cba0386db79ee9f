// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

func TestCRDsAreNamedAndLabelledAsTheContractsSay(t *testing.T) {
	t.Parallel()
	for _, crd := range mustCRDs(t) {
		if want := crd.Spec.Names.Plural + "." + crd.Spec.Group; crd.Name != want {
			t.Errorf("CRD %s should be named %s", crd.Name, want)
		}
		if want := crd.Spec.Names.Kind + "List"; crd.Spec.Names.ListKind != want {
			t.Errorf("CRD %s has list kind %s, want %s", crd.Name, crd.Spec.Names.ListKind, want)
		}
		if !slices.Contains(crd.Spec.Names.Categories, "cluster-api") {
			t.Errorf("CRD %s is not in category cluster-api", crd.Name)
		}
		_, moves := crd.Labels["clusterctl.cluster.x-k8s.io"]
		contract := crd.Labels["cluster.x-k8s.io/v1beta2"]
		if crd.Spec.Group == "plan.capstan.dev" {
			if moves || contract != "" || crd.Labels["cluster.x-k8s.io/provider"] != "cluster-api" {
				t.Errorf("CRD %s has labels %v: want no label of a contract or for move, and the provider", crd.Name, crd.Labels)
			}
			continue
		}
		if !moves {
			t.Errorf("CRD %s has no label for clusterctl move", crd.Name)
		}
		if crd.Spec.Group == "clusterctl.cluster.x-k8s.io" {
			continue
		}
		if contract != crd.Spec.Versions[len(crd.Spec.Versions)-1].Name {
			t.Errorf("CRD %s says version %q keeps the contract v1beta2, and has no such version", crd.Name, contract)
		}
		old, named := crd.Labels["cluster.x-k8s.io/v1beta1"], strings.HasSuffix(crd.Labels["cluster.x-k8s.io/provider"], "-kubeadm")
		if named != (old != "") || named && old != crd.Spec.Versions[0].Name {
			t.Errorf("CRD %s says version %q keeps the contract v1beta1", crd.Name, old)
		}
		if crd.Labels["cluster.x-k8s.io/provider"] == "" {
			t.Errorf("CRD %s belongs to no provider", crd.Name)
		}
	}
}

func TestCRDsLeaveOutWhatIsNoObject(t *testing.T) {
	t.Parallel()
	got := []string{}
	for _, crd := range mustCRDs(t) {
		if crd.Spec.Group == "clusterctl.cluster.x-k8s.io" {
			got = append(got, crd.Spec.Names.Kind)
		}
	}
	if diff := cmp.Diff([]string{"Provider"}, got); diff != "" {
		t.Errorf("clusterctl kinds (-want +got):\n%s", diff)
	}
}

func TestCallersGetTheirOwnCopies(t *testing.T) {
	t.Parallel()
	mustCRDs(t)[0].Name = "changed"
	if mustCRDs(t)[0].Name == "changed" {
		t.Error("CRDs returns the same objects twice")
	}
}

func TestManagerRoleIsAggregatedFromAllOthers(t *testing.T) {
	t.Parallel()
	roles, err := RBAC()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		if role.Name == ManagerRole {
			if len(role.Rules) != 0 || role.AggregationRule == nil {
				t.Errorf("%s has rules of its own", role.Name)
			} else if diff := cmp.Diff(map[string]string{AggregateLabel: "true"}, role.AggregationRule.ClusterRoleSelectors[0].MatchLabels); diff != "" {
				t.Errorf("%s aggregates (-want +got):\n%s", role.Name, diff)
			}
			continue
		}
		if role.Labels[AggregateLabel] != "true" {
			t.Errorf("%s is not aggregated", role.Name)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.APIGroups, "*") {
				t.Errorf("%s: %v %v: say which groups and verbs", role.Name, rule.APIGroups, rule.Resources)
			}
		}
	}
}

// TestRolesNameOnlyWhatHasACRD checks their spelling; tests that run a manager with them
// show that no permission is missing.
func TestRolesNameOnlyWhatHasACRD(t *testing.T) {
	t.Parallel()
	groups, known := map[string]bool{}, map[string]bool{}
	for _, crd := range mustCRDs(t) {
		groups[crd.Spec.Group] = true
		resource := crd.Spec.Group + "/" + crd.Spec.Names.Plural
		known[resource], known[resource+"/finalizers"] = true, true
		if s := crd.Spec.Versions[0].Subresources; s != nil && s.Status != nil {
			known[resource+"/status"] = true
		}
	}
	roles, err := RBAC()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					// A rule may name the resources of several groups.
					if groups[group] && resource != "*" && !slices.ContainsFunc(rule.APIGroups, func(g string) bool { return known[g+"/"+resource] }) {
						t.Errorf("%s: there is no %s in %v", role.Name, resource, rule.APIGroups)
					}
				}
			}
		}
	}
}

// TestRolesLimitByNameWhatTheyCan checks that no role can write objects of others where
// RBAC can distinguish them.
func TestRolesLimitByNameWhatTheyCan(t *testing.T) {
	t.Parallel()
	roles, err := RBAC()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		for _, rule := range role.Rules {
			if !slices.Contains(rule.APIGroups, "admissionregistration.k8s.io") {
				continue
			}
			if creates := slices.Equal(rule.Verbs, []string{"create"}); !creates && !slices.Equal(rule.ResourceNames, []string{role.Name}) {
				t.Errorf("%s: %v of %v is not limited to %s", role.Name, rule.Verbs, rule.Resources, role.Name)
			}
		}
	}
}

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
