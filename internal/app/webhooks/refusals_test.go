// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/manifests"
)

var providers = []string{"core", "kubeadm", "local"}

// off returns the gates with some disabled.
func off(t *testing.T, names ...string) (g controllers.Gates) {
	t.Helper()
	for _, name := range names {
		if err := g.Set(name + "=false"); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func TestKindsOfAFeatureThatIsOffAreRefused(t *testing.T) {
	t.Parallel()
	for gate, kinds := range map[string][]string{
		controllers.GateClusterTopology: {"ClusterClass", "KubeadmControlPlaneTemplate", "LocalClusterTemplate", "LocalMachinePoolTemplate"},
		controllers.GateMachinePool:     {"MachinePool", "MachinePool/scale", "LocalMachinePool", "LocalMachinePoolTemplate"},
		controllers.GateRuntimeSDK:      {"ExtensionConfig"},
		controllers.GateInPlaceUpdates:  nil, // extensions are not called; no kind is refused
	} {
		var refused []string
		for _, w := range refusals(off(t, gate), providers) {
			if slices.Contains([]string{"Cluster", "ClusterClass"}, w.Kind.Kind) && !slices.Contains(kinds, w.Kind.Kind) {
				continue // some of its fields
			}
			_, sub, _ := strings.Cut(w.Resource, "/")
			refused = append(refused, strings.TrimSuffix(w.Kind.Kind+"/"+sub, "/"))
			stored := object(t, w.Kind.Kind, "spec: {a: b}")
			for name, tc := range map[string]struct {
				obj, old map[string]any
				want     bool // to be called, and refuse it
			}{
				"made":          {stored, nil, true},
				"changed":       {object(t, w.Kind.Kind, "spec: {a: c}"), stored, true},
				"labelled":      {object(t, w.Kind.Kind, "metadata: {labels: {a: b}, ownerReferences: []}\nspec: {a: b}"), stored, false},
				"being deleted": {object(t, w.Kind.Kind, "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nspec: {a: c}"), stored, false},
			} {
				if got := called(t, w, tc.obj, tc.old); got != tc.want {
					t.Errorf("%s, %s: asked %v, want %v", w.Kind.Kind, name, got, tc.want)
				}
			}
			want := w.Kind.Kind + "." + w.Kind.Group + ` "name" is invalid: spec: Forbidden: can be set only if the ` + gate + " feature flag is enabled: start Capstan with --feature-gates " + gate + "=true"
			if got := w.Admit(t.Context(), request(t, stored, nil)); got.Allowed || got.Result.Message != want {
				t.Errorf("%v, want %q", got.Result, want)
			}
		}
		if diff := cmp.Diff(kinds, refused); diff != "" {
			t.Errorf("%s (-want +got):\n%s", gate, diff)
		}
	}
}

func TestFieldsOfAFeatureThatIsOffAreRefused(t *testing.T) {
	t.Parallel()
	const (
		spec     = "spec: {topology: {classRef: {name: x}, version: v1.34.0, workers: {machineDeployments: [{class: a, name: a}], machinePools: [{class: a, name: a, replicas: 1}]}}}"
		version  = "spec: {topology: {classRef: {name: x}, version: v1.35.0, workers: {machineDeployments: [{class: a, name: a}], machinePools: [{class: a, name: a, replicas: 1}]}}}"
		paused   = "spec: {paused: true, topology: {classRef: {name: x}, version: v1.34.0, workers: {machineDeployments: [{class: a, name: a}], machinePools: [{class: a, name: a, replicas: 1}]}}}"
		scaled   = "spec: {topology: {classRef: {name: x}, version: v1.34.0, workers: {machineDeployments: [{class: a, name: a}], machinePools: [{class: a, name: a, replicas: 2}]}}}"
		unpooled = "spec: {topology: {classRef: {name: x}, version: v1.34.0, workers: {machineDeployments: [{class: a, name: a}]}}}"
		class    = "spec: {patches: [{name: a, external: {generatePatchesExtension: a.b}}, {name: b, definitions: []}]}"
	)
	for name, tc := range map[string]struct {
		gate, kind, obj, old string
		want                 string // the refused field
	}{
		"a topology":                          {controllers.GateClusterTopology, "Cluster", spec, "", "spec.topology"},
		"a topology that is added":            {controllers.GateClusterTopology, "Cluster", spec, "spec: {paused: true}", "spec.topology"},
		"a topology that changes":             {controllers.GateClusterTopology, "Cluster", version, spec, "spec.topology"},
		"a topology that stays":               {controllers.GateClusterTopology, "Cluster", paused, spec, ""},
		"no topology":                         {controllers.GateClusterTopology, "Cluster", "spec: {paused: true}", "", ""},
		"a pool of a topology":                {controllers.GateMachinePool, "Cluster", spec, "", "spec.topology.workers.machinePools[a]"},
		"a pool of a topology that is scaled": {controllers.GateMachinePool, "Cluster", scaled, spec, "spec.topology.workers.machinePools[a]"},
		"a pool of a topology that stays":     {controllers.GateMachinePool, "Cluster", version, spec, ""},
		"a pool of a topology that goes":      {controllers.GateMachinePool, "Cluster", unpooled, spec, ""},
		"a topology without pools":            {controllers.GateMachinePool, "Cluster", unpooled, "", ""},
		"patches by an extension":             {controllers.GateRuntimeSDK, "ClusterClass", class, "", "spec.patches[0].external"},
		"patches by an extension that stay":   {controllers.GateRuntimeSDK, "ClusterClass", strings.Replace(class, "name: b", "name: c", 1), class, ""},
		"plans by an extension":               {controllers.GateRuntimeSDK, "ClusterClass", "spec: {upgrade: {external: {generateUpgradePlanExtension: a.b}}}", "", "spec.upgrade.external"},
		"a class without extensions":          {controllers.GateRuntimeSDK, "ClusterClass", "spec: {patches: [{name: b, definitions: []}]}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range refusals(off(t, tc.gate), providers) {
				if w.Kind.Kind != tc.kind {
					continue
				}
				obj, old := object(t, tc.kind, tc.obj), map[string]any(nil)
				if tc.old != "" {
					old = object(t, tc.kind, tc.old)
				}
				want, got := "", w.Admit(t.Context(), request(t, obj, old))
				if tc.want != "" {
					want = tc.kind + `.cluster.x-k8s.io "name" is invalid: ` + tc.want + ": Forbidden: can be set only if the " + tc.gate + " feature flag is enabled: start Capstan with --feature-gates " + tc.gate + "=true"
				}
				if got.Allowed != (want == "") || got.Result != nil && got.Result.Message != want {
					t.Errorf("allowed %v, %v, want %q", got.Allowed, got.Result, want)
				}
				if !called(t, w, obj, old) && want != "" {
					t.Error("not asked")
				}
				return
			}
			t.Errorf("no extension is called for a %s", tc.kind)
		})
	}
}

// TestRefusalsAreOfKindsThatAreInstalled compares the plurals and scopes with the
// definitions, and the list with the providers that run.
func TestRefusalsAreOfKindsThatAreInstalled(t *testing.T) {
	t.Parallel()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	installed := map[string]bool{}
	for _, crd := range crds {
		at := crd.Spec.Group + "/" + crd.Spec.Names.Kind + " " + crd.Spec.Names.Plural
		installed[at+", "+string(crd.Spec.Scope)] = true
		for _, v := range crd.Spec.Versions {
			installed[at+"/scale, "+string(crd.Spec.Scope)] = v.Subresources != nil && v.Subresources.Scale != nil
		}
	}
	all := off(t, controllers.GateClusterTopology, controllers.GateInPlaceUpdates, controllers.GateMachinePool, controllers.GateRuntimeSDK)
	by := map[string]int{}
	for _, provider := range providers {
		for _, w := range Of(Clients{}, localinfra.Backends{}, all, provider) {
			if !strings.HasPrefix(w.Name(), "gate.") {
				continue
			}
			by[provider]++
			scope := "Namespaced"
			if w.Scope != "" {
				scope = string(w.Scope)
			}
			if at := w.Kind.Group + "/" + w.Kind.Kind + " " + w.Resource + ", " + scope; !installed[at] {
				t.Errorf("there is no %s", at)
			}
		}
	}
	if want := map[string]int{"core": 5, "kubeadm": 1, "local": 3}; !maps.Equal(by, want) {
		t.Errorf("refusals by provider: %v, want %v", by, want)
	}
	if none := refusals(controllers.Gates{}, providers); len(none) > 0 {
		t.Errorf("with all features: %v", none)
	}
}
