// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// BeforeClusterDelete is a second version of that hook.
func BeforeClusterDelete(*deleteRequest, *deleteResponse) {}

type deleteRequest struct {
	metav1.TypeMeta `json:",inline"`
	hooksv1.CommonRequest
	Cluster clusterv1.Cluster `json:"cluster"`
	Reason  string            `json:"reason"`
}

func (r *deleteRequest) DeepCopyObject() runtime.Object { return new(*r) }

type deleteResponse struct {
	metav1.TypeMeta `json:",inline"`
	hooksv1.CommonRetryResponse
}

func (r *deleteResponse) DeepCopyObject() runtime.Object { return new(*r) }

func twoVersions(t *testing.T) *catalog.Catalog {
	t.Helper()
	older := catalog.V1Alpha1()
	for i := range older.Hooks {
		if _, ok := older.Hooks[i].Func.(func(*hooksv1.BeforeClusterDeleteRequest, *hooksv1.BeforeClusterDeleteResponse)); ok {
			older.Hooks[i].Deprecated = &catalog.Deprecation{Since: "v1.9.0", Date: "2026-01-02"}
		}
	}
	c, err := catalog.New(older, catalog.Version{
		GroupVersion: schema.GroupVersion{Group: hooksv1.GroupVersion().Group, Version: "v1alpha2"},
		Hooks:        []catalog.Hook{{Func: BeforeClusterDelete, Summary: "Delete."}},
		Conversions: []catalog.Conversion{catalog.Convert(BeforeClusterDelete, hooksv1.BeforeClusterDelete,
			func(*deleteRequest, *hooksv1.BeforeClusterDeleteRequest) error { return nil },
			func(*hooksv1.BeforeClusterDeleteResponse, *deleteResponse) error { return nil })},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTwoVersionsOfAHookAreServedSideBySide(t *testing.T) {
	t.Parallel()
	var log lines
	s := mustNew(t, Options{Catalog: twoVersions(t), Log: log.logger(0)})
	if err := Handle(s, hooksv1.BeforeClusterDelete, agreeToDelete); err != nil {
		t.Fatal(err)
	}
	newer := func(_ context.Context, req *deleteRequest, resp *deleteResponse) error {
		resp.Message = req.Reason
		return nil
	}
	if err := Handle(s, BeforeClusterDelete, newer); err == nil || !strings.Contains(err.Error(), "give another with server.Name") {
		t.Errorf("the same name: %v", err)
	}
	if err := Handle(s, BeforeClusterDelete, newer, Name("newer")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range s.handlers() {
		got = append(got, h.Name+" "+h.RequestHook.APIVersion)
	}
	if diff := cmp.Diff([]string{"before-cluster-delete hooks.runtime.cluster.x-k8s.io/v1alpha1", "newer hooks.runtime.cluster.x-k8s.io/v1alpha2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := log.matching("Serving a deprecated version"); len(got) != 1 || !strings.Contains(got[0], `"since"="v1.9.0" "use"="hooks.runtime.cluster.x-k8s.io/v1alpha2/BeforeClusterDelete"`) {
		t.Errorf("logged %q", got)
	}
	const path = "/hooks.runtime.cluster.x-k8s.io/v1alpha2/beforeclusterdelete/newer"
	code, text := do(s, path, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha2","kind":"deleteRequest","reason":"cost","cluster":{"metadata":{"name":"c1"}}}`)
	if code != 200 || !strings.Contains(text, `"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha2"`) || !strings.Contains(text, `"message":"cost"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, text := do(s, path, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1"}`); code != 400 || !strings.Contains(text, "but this path takes hooks.runtime.cluster.x-k8s.io/v1alpha2") {
		t.Errorf("the older version: %d %s", code, text)
	}
}

func TestACatalogWithoutDiscoveryIsRefused(t *testing.T) {
	t.Parallel()
	empty, err := catalog.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Catalog: empty}); err == nil || !strings.Contains(err.Error(), "discovery") {
		t.Errorf("got %v", err)
	}
}

func FuzzBodiesAreAnsweredOrRefused(f *testing.F) {
	for _, seed := range []string{beforeCreateBody, "", "{", "[]", `{"kind":7}`, `{"cluster":{"spec":null}}`, `{"cluster":{"metadata":{"creationTimestamp":"x"}}}`} {
		f.Add(seed)
	}
	s, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	if err := Handle(s, hooksv1.BeforeClusterCreate, agree); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if code, text := do(s, beforeCreate, body); code != 200 && code != 400 {
			t.Errorf("%q: %d %s", body, code, text)
		}
	})
}
