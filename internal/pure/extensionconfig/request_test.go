// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
)

func TestSettingsOfTheRequestComeFirst(t *testing.T) {
	t.Parallel()
	type m = map[string]string
	for name, tc := range map[string]struct{ config, request, want m }{
		"none":                {nil, nil, nil},
		"only the config's":   {m{"a": "1"}, nil, m{"a": "1"}},
		"only the request's":  {nil, m{"a": "1"}, m{"a": "1"}},
		"the request decides": {m{"a": "1", "b": "1"}, m{"b": "2", "c": "2"}, m{"a": "1", "b": "2", "c": "2"}},
		"an empty one too":    {m{"a": "1"}, m{"a": ""}, m{"a": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, request := len(tc.config), len(tc.request)
			if diff := cmp.Diff(tc.want, Settings(tc.config, tc.request)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if len(tc.config) != config || len(tc.request) != request {
				t.Error("one of the maps given was changed")
			}
		})
	}
}

func TestClusterIsSentWithoutWhatOnlyToolsRead(t *testing.T) {
	t.Parallel()
	in := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo", Namespace: "default", UID: "u", ResourceVersion: "7", Labels: map[string]string{"l": "1"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": "{}",
				"cluster.x-k8s.io/conversion-data":                 "{}",
				"mine":                                             "kept",
			},
		},
		Spec:   clusterv1.ClusterSpec{Paused: new(true)},
		Status: clusterv1.ClusterStatus{Phase: "Provisioned"},
	}
	before := in.DeepCopy()
	got := Cluster(in)
	want := clusterv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo", Namespace: "default", UID: "u", ResourceVersion: "7",
			Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"mine": "kept"},
		},
		Spec: clusterv1.ClusterSpec{Paused: new(true)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	got.Labels["l"], *got.Spec.Paused = "2", false
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("the Cluster given was changed (-before +after):\n%s", diff)
	}
	delete(in.Annotations, "mine")
	if got := Cluster(in); got.Annotations != nil {
		t.Errorf("annotations: got %v, want none", got.Annotations)
	}
}

func TestDeprecatedSaysEachVersionOnce(t *testing.T) {
	t.Parallel()
	deprecated := catalog.V1Alpha1()
	hook := func(name string) runtimev1.GroupVersionHook {
		return runtimev1.GroupVersionHook{APIVersion: v1alpha1, Hook: name}
	}
	handlers := []runtimev1.ExtensionHandler{
		{Name: "a.x", RequestHook: hook("AfterClusterUpgrade")},
		{Name: "b.x", RequestHook: hook("AfterClusterUpgrade")},
		{Name: "c.x", RequestHook: hook("BeforeClusterDelete")},
		{Name: "d.x", RequestHook: hook("BeforeClusterCreate")},
		{Name: "e.x", RequestHook: runtimev1.GroupVersionHook{APIVersion: "not/a/version", Hook: "BeforeClusterCreate"}},
		{Name: "f.x", RequestHook: hook("Gone")},
	}
	if got := Deprecated(catalog.Default(), handlers); len(got) != 0 {
		t.Errorf("published hooks: got %q, want none deprecated", got)
	}
	for i, h := range deprecated.Hooks {
		for f, use := range map[string]string{"AfterClusterUpgrade": "", "BeforeClusterDelete": "BeforeLunch"} {
			if catalogName(t, h) == f {
				deprecated.Hooks[i].Deprecated = &catalog.Deprecation{Since: "v1.4.0", Date: "2026-11-20", Use: use}
			}
		}
	}
	c, err := catalog.New(deprecated, newer(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		v1alpha1 + " AfterClusterUpgrade is deprecated since v1.4.0: use hooks.runtime.cluster.x-k8s.io/v1beta1/AfterClusterUpgrade",
		v1alpha1 + " BeforeClusterDelete is deprecated since v1.4.0: use BeforeLunch",
	}
	if diff := cmp.Diff(want, Deprecated(c, handlers)); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}

func catalogName(t *testing.T, h catalog.Hook) string {
	t.Helper()
	d, err := catalog.Default().Lookup(h.Func)
	if err != nil {
		t.Fatal(err)
	}
	return d.Hook
}

// newer is a later version of the two hooks that are deprecated.
func newer(t *testing.T) catalog.Version {
	t.Helper()
	return catalog.Version{
		GroupVersion: schema.GroupVersion{Group: hooksv1.GroupVersion().Group, Version: "v1beta1"},
		Hooks:        []catalog.Hook{{Func: AfterClusterUpgrade}, {Func: BeforeClusterDelete}},
		Conversions: []catalog.Conversion{
			catalog.Convert(AfterClusterUpgrade, hooksv1.AfterClusterUpgrade,
				func(*AfterRequest, *hooksv1.AfterClusterUpgradeRequest) error { return nil },
				func(*hooksv1.AfterClusterUpgradeResponse, *AfterResponse) error { return nil }),
			catalog.Convert(BeforeClusterDelete, hooksv1.BeforeClusterDelete,
				func(*BeforeRequest, *hooksv1.BeforeClusterDeleteRequest) error { return nil },
				func(*hooksv1.BeforeClusterDeleteResponse, *BeforeResponse) error { return nil }),
		},
	}
}

type (
	AfterRequest struct {
		hooksv1.DiscoverVariablesRequest
	}
	AfterResponse struct {
		hooksv1.BeforeClusterCreateResponse
	}
	BeforeRequest struct {
		hooksv1.DiscoverVariablesRequest
	}
	BeforeResponse struct {
		hooksv1.BeforeClusterCreateResponse
	}
)

func AfterClusterUpgrade(*AfterRequest, *AfterResponse)   {}
func BeforeClusterDelete(*BeforeRequest, *BeforeResponse) {}
