// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/manifests"
)

// TestEachDefinitionHasMigratorWithPermission compares the list with what is
// installed, and with the names in the roles.
func TestEachDefinitionHasMigratorWithPermission(t *testing.T) {
	t.Parallel()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{"cluster-api": Core, "bootstrap-kubeadm": Kubeadm, "control-plane-kubeadm": Kubeadm, "infrastructure-local": Local}
	want := map[string][]string{}
	for _, crd := range crds {
		if label, ok := crd.Labels[clusterv1.ProviderNameLabel]; ok {
			want[of[label]] = append(want[of[label]], crd.Name)
		}
	}
	roles, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	got, may := map[string][]string{}, map[string][]string{}
	for _, name := range Providers() {
		got[name] = Definitions(name, Gates{})
		role := roles[slices.IndexFunc(roles, func(r *rbacv1.ClusterRole) bool { return r.Name == "capstan-"+name })]
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "customresourcedefinitions/status") {
				may[name] = rule.ResourceNames
			}
		}
		slices.Sort(want[name])
		slices.Sort(got[name])
		slices.Sort(may[name])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-installed +migrated):\n%s", diff)
	}
	if diff := cmp.Diff(want, may); diff != "" {
		t.Errorf("definitions (-installed +in the roles):\n%s", diff)
	}
	if off := Definitions(Core, Gates{Off: []string{GateMachinePool}}); slices.Contains(off, "machinepools.cluster.x-k8s.io") || len(off) != len(got[Core])-1 {
		t.Errorf("without MachinePool: %v", off)
	}
}
