// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	theircatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	theirhooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/catalog"
)

// hook is what callers and extensions have to agree on.
type hook struct {
	Request, Response        schema.GroupVersionKind
	PathOfHook, PathOfServer string
	Singleton                bool
	Deprecated               bool
}

func TestTheCatalogHasTheHooksOfThePeer(t *testing.T) {
	t.Parallel()
	c := theircatalog.New()
	if err := theirhooksv1.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	theirs, ours := map[string]hook{}, map[string]hook{}
	for gvh, d := range c.AllKnownHooks() {
		theirs[gvh.Hook+" of "+gvh.Group+"/"+gvh.Version] = hook{
			Request: d.Request, Response: d.Response, Singleton: d.Metadata.Singleton, Deprecated: d.Metadata.Deprecated,
			PathOfHook: theircatalog.GVHToPath(gvh, "My-Handler"), PathOfServer: theircatalog.GVHToPath(gvh, ""),
		}
	}
	for _, d := range catalog.Default().Hooks() {
		ours[d.Hook+" of "+d.GroupVersion().String()] = hook{
			Request: d.Request, Response: d.Response, Singleton: d.Singleton, Deprecated: d.Deprecated != nil,
			PathOfHook: d.Path("My-Handler"), PathOfServer: d.Path(""),
		}
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("hooks (-theirs +ours):\n%s", diff)
	}
}
