// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/manifests"
)

func TestControllersAreKnownByNameAndProvider(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Name] || c.Name != strings.ToLower(c.Name) || c.Name == "" {
			t.Errorf("the name %q is taken, empty or not in lower case", c.Name)
		}
		seen[c.Name] = true
		if !slices.Contains(PlaneProviders(), c.Provider) {
			t.Errorf("%s: nothing chooses the provider %q", c.Name, c.Provider)
		}
		if c.Gate != "" && !slices.Contains(gateNames, c.Gate) || c.Finishes && c.Gate == "" {
			t.Errorf("%s: gate %q, finishes %v", c.Name, c.Gate, c.Finishes)
		}
		if _, partial := c.Kind.(*metav1.PartialObjectMetadata); partial {
			continue
		}
		if _, err := apiutil.GVKForObject(c.Kind, scheme); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// TestGatesStopTheirControllersAlone: without a feature, only controllers that remove
// finalizers still run.
func TestGatesStopTheirControllersAlone(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		GateClusterTopology: {"clusterclass", "topology, finishes"},
		GateMachinePool:     {"localmachinepool, finishes", "machinepool, finishes"},
		GateRuntimeSDK:      {"extensionconfig"},
	}
	got := map[string][]string{}
	for _, c := range All() {
		text := c.Name
		if c.Finishes {
			text += ", finishes"
		}
		if c.Gate != "" {
			got[c.Gate] = append(got[c.Gate], text)
		}
	}
	for _, names := range got {
		slices.Sort(names)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestControllersBuildForEachProvider builds them as a world does, with what every
// provider has.
func TestControllersBuildForEachProvider(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mgmt, clock := fake.NewClientBuilder().WithScheme(scheme).Build(), testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var recorders []string
	o := Outside{
		Deps: deps.Deps{Mgmt: mgmt, Live: mgmt, Clock: clock, Debounce: patch.NewStatusDebounce(time.Second, clock)},
		Recorders: func(name string) events.EventRecorder {
			recorders = append(recorders, name)
			return nil
		},
	}
	for _, c := range append(All(), ExtensionFollower()) {
		before := len(recorders)
		if c.Stepped(o) == nil {
			t.Errorf("%s was not built", c.Name)
		}
		for _, name := range recorders[before:] {
			if name != c.Name {
				t.Errorf("%s records events as %s", c.Name, name)
			}
		}
	}
	if d := (Outside{Recorders: o.Recorders, Features: Gates{Off: []string{GateDeprecatedV1Beta1Status}}}).of("x"); d.Deprecated {
		t.Error("without its gate, the deprecated status is still written")
	}
	if d := (Outside{Recorders: o.Recorders}).of("x"); !d.Deprecated {
		t.Error("by default, the deprecated status is not written")
	}
}

// TestExtensionFollowerReplacesItsController: a process has one of the two.
func TestExtensionFollowerReplacesItsController(t *testing.T) {
	t.Parallel()
	follower := ExtensionFollower()
	for _, c := range All() {
		if c.Name == follower.Name && (c.Provider != Core || follower.Provider != Kubeadm || c.Gate != follower.Gate) {
			t.Errorf("it runs with %s and gate %q in place of %s and %q", follower.Provider, follower.Gate, c.Provider, c.Gate)
		}
	}
	if follower.Name != "extensionconfig" || follower.Finishes {
		t.Errorf("got %+v", follower)
	}
}

func TestClusterAPIIsAnyOfItsProviders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, Certificates: false, Core: true, Kubeadm: true, Local: true, Certificates + " " + Local: true, "other": false} {
		if got := ClusterAPI(strings.Fields(text)); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	all := PlaneProviders()
	all[0] = "changed"
	if got := PlaneProviders(); !slices.Equal(got, []string{"core", "kubeadm", "local", "certificates"}) {
		t.Errorf("the providers of a plane are %v", got)
	}
}

// TestSchemeHasTheKindsOfAllDefinitions: webhooks and controllers read any of them.
func TestSchemeHasTheKindsOfAllDefinitions(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			if v.Storage && crd.Spec.Group != clusterctlv1.GroupVersion().Group && !scheme.Recognizes(kind) { // the inventory is that of the CLI
				t.Errorf("%s is missing", kind)
			}
		}
	}
}

// TestRolesAllowWatchingEachKind: a controller without that permission never starts. Every
// provider has the role of core, too.
func TestRolesAllowWatchingEachKind(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	roles, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	allows := func(provider string, resource schema.GroupVersionResource, verb string) bool {
		has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
		return slices.ContainsFunc(roles, func(role *rbacv1.ClusterRole) bool {
			return (role.Name == "capstan-core" || role.Name == "capstan-"+provider) && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return has(r.APIGroups, resource.Group) && has(r.Resources, resource.Resource) && has(r.Verbs, verb) && len(r.ResourceNames) == 0
			})
		})
	}
	for _, c := range append(All(), ExtensionFollower()) {
		kind, err := apiutil.GVKForObject(c.Kind, scheme)
		if err != nil || c.Provider == Certificates { // only a plane has that, as an administrator
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		for _, verb := range []string{"get", "list", "watch"} {
			if !allows(c.Provider, resource, verb) {
				t.Errorf("%s: capstan-%s must not %s %s", c.Name, c.Provider, verb, resource.GroupResource())
			}
		}
	}
}
