// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
)

func TestBindLocalGrantsWhatTheTypeNeeds(t *testing.T) {
	t.Parallel()
	local := inventory.Providers{{ProviderName: "local", Type: string(infra)}}
	const read = "get,list,watch *"
	for name, tc := range map[string]struct {
		kind      clusterctlv1.ProviderType
		installed inventory.Providers
		want      []string // rules
	}{
		"an add-on provider":        {clusterctlv1.AddonProviderType, local, []string{read}},
		"a bootstrap provider":      {bootstrap, local, []string{read}},
		"a control plane provider":  {controlPlane, local, []string{read, "create,update,patch,delete localmachines,localmachinetemplates"}},
		"an infrastructure":         {infra, local, nil},
		"a core":                    {core, local, nil},
		"IPAM":                      {clusterctlv1.IPAMProviderType, local, nil},
		"an extension":              {clusterctlv1.RuntimeExtensionProviderType, local, nil},
		"where there is no local":   {controlPlane, nil, nil},
		"where another one is":      {controlPlane, inventory.Providers{{ProviderName: "x", Type: string(infra)}}, nil},
		"where local is no machine": {controlPlane, inventory.Providers{{ProviderName: "local", Type: string(core)}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := release(t, "x", tc.kind, "v1beta2", "proxies.x.cluster.x-k8s.io")
			before := len(r.Objects())
			var shown []string
			if err := BindLocal(r, tc.installed, func(text string) { shown = append(shown, text) }); err != nil {
				t.Fatal(err)
			}
			added := r.Objects()[before:]
			if tc.want == nil {
				if len(added)+len(shown) > 0 {
					t.Errorf("added %v, shown %q, want nothing", added, shown)
				}
				return
			}
			if len(shown) != 1 || !strings.Contains(shown[0], "infrastructure.capstan.dev") || !strings.HasSuffix(shown[0], ": x-system/default") {
				t.Errorf("shown %q", shown)
			}
			if len(added) != 2 {
				t.Fatalf("added %v, want a role and its binding", added)
			}
			name := "x-system-" + r.Label() + "-capstan-local"
			for _, obj := range added {
				if obj.GetName() != name || obj.GetNamespace() != "" || obj.GetLabels()["cluster.x-k8s.io/provider"] != r.Label() {
					t.Errorf("%s %s/%s with labels %v", obj.GetKind(), obj.GetNamespace(), obj.GetName(), obj.GetLabels())
				}
			}
			if diff := cmp.Diff(tc.want, rules(t, added[0])); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			role, _, _ := unstructured.NestedStringMap(added[1].Object, "roleRef")
			subjects, _, _ := unstructured.NestedSlice(added[1].Object, "subjects")
			if diff := cmp.Diff([]any{map[string]any{"kind": "ServiceAccount", "namespace": "x-system", "name": "default"}}, subjects); diff != "" || role["name"] != name {
				t.Errorf("role %v, subjects (-want +got):\n%s", role, diff)
			}
		})
	}
}

// rules are those of a role, all of the group of the local kinds.
func rules(t *testing.T, role *unstructured.Unstructured) (all []string) {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, rule := range list {
		of := map[string]string{}
		for _, field := range []string{"apiGroups", "verbs", "resources"} {
			values, _, err := unstructured.NestedStringSlice(rule.(map[string]any), field)
			if err != nil {
				t.Fatal(err)
			}
			of[field] = strings.Join(values, ",")
		}
		if of["apiGroups"] != "infrastructure.capstan.dev" {
			t.Errorf("groups %s", of["apiGroups"])
		}
		all = append(all, of["verbs"]+" "+of["resources"])
	}
	return all
}
