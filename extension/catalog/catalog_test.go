// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

func TestDefaultHasAllPublishedHooks(t *testing.T) {
	t.Parallel()
	hooks := catalog.Default().Hooks()
	if len(hooks) != 17 {
		t.Errorf("%d hooks, want 17", len(hooks))
	}
	var blocking, cacheable, singleton []string
	for _, d := range hooks {
		if d.Request.Kind != d.Hook+"Request" || d.Response.Kind != d.Hook+"Response" {
			t.Errorf("%s: kinds %s and %s", d, d.Request.Kind, d.Response.Kind)
		}
		if !strings.HasSuffix(d.Summary, ".") || len(d.Description) < 200 || len(d.Tags) != 1 {
			t.Errorf("%s: summary %q, description of %d bytes, tags %q", d, d.Summary, len(d.Description), d.Tags)
		}
		if d.Blocking {
			blocking = append(blocking, d.Hook)
		}
		if d.Cacheable {
			cacheable = append(cacheable, d.Hook)
		}
		if d.Singleton {
			singleton = append(singleton, d.Hook)
		}
		if says := strings.Contains(d.Description, "This hook blocks") || d.Hook == "UpdateMachine"; says != d.Blocking {
			t.Errorf("%s: its description says blocking: %t, its response: %t", d, says, d.Blocking)
		}
	}
	want := []string{"AfterClusterUpgrade", "AfterControlPlaneUpgrade", "AfterWorkersUpgrade", "BeforeClusterCreate", "BeforeClusterDelete", "BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "BeforeWorkersUpgrade", "UpdateMachine"}
	if !slices.Equal(blocking, want) {
		t.Errorf("blocking: got %q, want %q", blocking, want)
	}
	if want := []string{"CanUpdateMachine", "CanUpdateMachineSet", "DiscoverVariables", "GeneratePatches", "GenerateUpgradePlan"}; !slices.Equal(cacheable, want) {
		t.Errorf("cacheable: got %q, want %q", cacheable, want)
	}
	if want := []string{"Discovery"}; !slices.Equal(singleton, want) {
		t.Errorf("singleton: got %q, want %q", singleton, want)
	}
}

func TestHooksAreFoundByFunctionAndName(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	d, err := c.Lookup(hooksv1.BeforeClusterCreate)
	if err != nil {
		t.Fatal(err)
	}
	want := catalog.GroupVersionHook{Group: "hooks.runtime.cluster.x-k8s.io", Version: "v1alpha1", Hook: "BeforeClusterCreate"}
	if d.GroupVersionHook != want || d.RequestType != reflect.TypeFor[hooksv1.BeforeClusterCreateRequest]() || d.ResponseType != reflect.TypeFor[hooksv1.BeforeClusterCreateResponse]() {
		t.Errorf("got %s with %s and %s", d, d.RequestType, d.ResponseType)
	}
	if got, err := c.Find(want); err != nil || got.GroupVersionHook != want {
		t.Errorf("find %s: %s, %v", want, got, err)
	}
	for _, name := range []string{"BeforeClusterCreate", "beforeclustercreate", "hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate"} {
		if got, err := c.Named(name); err != nil || got.GroupVersionHook != want {
			t.Errorf("named %s: %s, %v", name, got, err)
		}
	}
	if got := c.Versions(want.GroupHook()); len(got) != 1 || got[0].GroupVersionHook != want {
		t.Errorf("versions: %v", got)
	}
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	lookup := func(hook any) error { _, err := c.Lookup(hook); return err }
	find := func(h catalog.GroupVersionHook) error { _, err := c.Find(h); return err }
	named := func(name string) error { _, err := c.Named(name); return err }
	known := catalog.GroupVersionHook{Group: "hooks.runtime.cluster.x-k8s.io", Version: "v1alpha9", Hook: "Discovery"}
	tests := map[string]struct {
		err  error
		want string
	}{
		"nil":              {lookup(nil), "look up a hook: <nil> is not a function"},
		"a string":         {lookup("Discovery"), "look up a hook: string is not a function"},
		"a nil function":   {lookup((func(*hooksv1.DiscoveryRequest, *hooksv1.DiscoveryResponse))(nil)), "look up hook without a name: it is not in this catalog"},
		"another function": {lookup(strings.Cut), "look up hook Cut: it is not in this catalog"},
		"another version":  {find(known), `hook Discovery of hooks.runtime.cluster.x-k8s.io has no version "v1alpha9", but v1alpha1`},
		"another group":    {find(catalog.GroupVersionHook{Group: "g", Version: "v1", Hook: "Discovery"}), "there is no hook g/v1/Discovery"},
		"another name":     {named("AfterLunch"), `there is no hook "AfterLunch"; there are AfterClusterUpgrade, AfterControlPlaneInitialized, AfterControlPlaneUpgrade, AfterWorkersUpgrade, BeforeClusterCreate, BeforeClusterDelete, BeforeClusterUpgrade, BeforeControlPlaneUpgrade, BeforeWorkersUpgrade, CanUpdateMachine, CanUpdateMachineSet, DiscoverVariables, Discovery, GeneratePatches, GenerateUpgradePlan, UpdateMachine, ValidateTopology`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.err == nil || tc.err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", tc.err, tc.want)
			}
		})
	}
}

func TestMessagesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	for _, d := range c.Hooks() {
		req, err := c.NewRequest(d.GroupVersionHook)
		if err != nil || req.GetObjectKind().GroupVersionKind() != d.Request || reflect.TypeOf(req).Elem() != d.RequestType {
			t.Errorf("%s: request %T, %v", d, req, err)
		}
		resp, err := c.NewResponse(d.GroupVersionHook)
		if err != nil || resp.GetObjectKind().GroupVersionKind() != d.Response || reflect.TypeOf(resp).Elem() != d.ResponseType {
			t.Errorf("%s: response %T, %v", d, resp, err)
		}
	}
	if _, err := c.NewRequest(catalog.GroupVersionHook{}); err == nil {
		t.Error("a request of no hook was made")
	}
	if _, err := c.NewResponse(catalog.GroupVersionHook{}); err == nil {
		t.Error("a response of no hook was made")
	}
}

func TestPathsAreInLowerCase(t *testing.T) {
	t.Parallel()
	h := catalog.GroupVersionHook{Group: "hooks.runtime.cluster.x-k8s.io", Version: "v1alpha1", Hook: "BeforeClusterCreate"}
	if got, want := h.Path("Quota"), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/quota"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.Hook = "Discovery"
	if got, want := h.Path(""), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
