// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1beta1"
)

// Messages with something missing.
type (
	bare       struct{ Name string }
	notCopied  struct{ metav1.TypeMeta }
	noSettings struct{ metav1.TypeMeta }
	noOutcome  struct{ metav1.TypeMeta }
)

func (m *noSettings) DeepCopyObject() runtime.Object { return new(*m) }
func (m *noOutcome) DeepCopyObject() runtime.Object  { return new(*m) }

type (
	request  = hooksv1.BeforeClusterCreateRequest
	response = hooksv1.BeforeClusterCreateResponse
)

// Functions that could be hooks, and some that could not.
func Nap(*request, *response)                                                           {}
func Alone(*request)                                                                    {}
func Answering(*request, *response) error                                               { return nil }
func ByValue(request, response)                                                         {}
func Twins(*request, *request)                                                          {}
func Bare(*bare, *bare2)                                                                {}
func NotCopied(*notCopied, *response)                                                   {}
func NoSettings(*noSettings, *response)                                                 {}
func NoOutcome(*request, *noOutcome)                                                    {}
func Generic[T any](*request, *response)                                                {}
func Beforeclustercreate(*hooksv1.UpdateMachineRequest, *hooksv1.UpdateMachineResponse) {}

type bare2 struct{ Name string }

func (bare2) Method(*request, *response) {}

func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	gv := schema.GroupVersion{Group: "g.example", Version: "v1"}
	hooks := func(functions ...any) []catalog.Version {
		v := catalog.Version{GroupVersion: gv}
		for _, f := range functions {
			v.Hooks = append(v.Hooks, catalog.Hook{Func: f})
		}
		return []catalog.Version{v}
	}
	tests := map[string]struct {
		versions []catalog.Version
		want     []string
	}{
		"no function":      {hooks("Nap"), []string{"hook without a name of g.example/v1: string is not a function"}},
		"nothing":          {hooks(nil), []string{"hook without a name of g.example/v1: <nil> is not a function"}},
		"a nil function":   {hooks((func(*request, *response))(nil)), []string{"hook without a name of g.example/v1: the function is nil"}},
		"a closure":        {hooks(func(*request, *response) {}), []string{"hook TestEveryMistakeIsNamed.func2 of g.example/v1: a hook is known by the name of a function of a package: a closure, a method and a generic function have none"}},
		"a method":         {hooks(bare2{}.Method), []string{"hook bare2.Method-fm of g.example/v1: a hook is known by the name of a function of a package: a closure, a method and a generic function have none"}},
		"generic":          {hooks(Generic[int]), []string{"hook Generic[...] of g.example/v1: a hook is known by the name of a function of a package: a closure, a method and a generic function have none"}},
		"one parameter":    {hooks(Alone), []string{"hook Alone of g.example/v1: func(*v1alpha1.BeforeClusterCreateRequest) is not of the form func(*Request, *Response)"}},
		"a result":         {hooks(Answering), []string{"hook Answering of g.example/v1: func(*v1alpha1.BeforeClusterCreateRequest, *v1alpha1.BeforeClusterCreateResponse) error is not of the form func(*Request, *Response)"}},
		"no pointers":      {hooks(ByValue), []string{"hook ByValue of g.example/v1: the request v1alpha1.BeforeClusterCreateRequest is not a pointer to a struct", "the response v1alpha1.BeforeClusterCreateResponse is not a pointer to a struct"}},
		"one type twice":   {hooks(Twins), []string{"hook Twins of g.example/v1: request and response are both *v1alpha1.BeforeClusterCreateRequest"}},
		"no TypeMeta":      {hooks(Bare), []string{"hook Bare of g.example/v1: the request *catalog_test.bare does not embed metav1.TypeMeta", "the response *catalog_test.bare2 does not embed metav1.TypeMeta"}},
		"no deep copy":     {hooks(NotCopied), []string{"hook NotCopied of g.example/v1: the request *catalog_test.notCopied is no runtime.Object: it has no DeepCopyObject"}},
		"no settings":      {hooks(NoSettings), []string{"hook g.example/v1/NoSettings: the request *catalog_test.noSettings is no hooksv1.RequestObject: it has no settings"}},
		"no outcome":       {hooks(NoOutcome), []string{"hook g.example/v1/NoOutcome: the response *catalog_test.noOutcome is no hooksv1.ResponseObject: it has no status and message"}},
		"twice":            {hooks(Nap, Nap), []string{"hook g.example/v1/Nap: its function belongs to g.example/v1/Nap already"}},
		"one path":         {hooks(hooksv1.BeforeClusterCreate, Beforeclustercreate), []string{"hook g.example/v1/Beforeclustercreate has the path of g.example/v1/BeforeClusterCreate"}},
		"types twice":      {hooks(Nap, hooksv1.BeforeClusterCreate), []string{"hook g.example/v1/BeforeClusterCreate: v1alpha1.BeforeClusterCreateRequest belongs to g.example/v1/Nap already", "hook g.example/v1/BeforeClusterCreate: v1alpha1.BeforeClusterCreateResponse belongs to g.example/v1/Nap already"}},
		"no group":         {[]catalog.Version{{GroupVersion: schema.GroupVersion{Version: "v1"}}}, []string{`version "v1" has no group`}},
		"a bad group":      {[]catalog.Version{{GroupVersion: schema.GroupVersion{Group: "G", Version: "v1"}}}, []string{`group "G": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		"a bad version":    {[]catalog.Version{{GroupVersion: schema.GroupVersion{Group: "g", Version: "1"}}}, []string{`group "g": version "1" is not of the form v1, v1beta1 or v1alpha1`}},
		"no version":       {[]catalog.Version{{GroupVersion: schema.GroupVersion{Group: "g"}}}, []string{`group "g": version "" is not of the form v1, v1beta1 or v1alpha1`}},
		"a version twice":  {[]catalog.Version{catalog.V1Alpha1(), catalog.V1Alpha1()}, []string{"group version hooks.runtime.cluster.x-k8s.io/v1alpha1 is given twice"}},
		"several mistakes": {hooks(nil, Alone, Nap, Nap), []string{"hook without a name of g.example/v1: <nil> is not a function", "hook Alone of g.example/v1: func(*v1alpha1.BeforeClusterCreateRequest) is not of the form func(*Request, *Response)", "hook g.example/v1/Nap: its function belongs to g.example/v1/Nap already"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantMistakes(t, tc.versions, tc.want)
		})
	}
}

func wantMistakes(t *testing.T, versions []catalog.Version, want []string) {
	t.Helper()
	c, err := catalog.New(versions...)
	if err == nil || c != nil {
		t.Fatalf("no mistake was found, want %q", want)
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMistakesInConversionsAreNamed(t *testing.T) {
	t.Parallel()
	const hook = "hooks.runtime.cluster.x-k8s.io/"
	with := func(versions []catalog.Version, conversions ...catalog.Conversion) []catalog.Version {
		for i := range versions {
			versions[i].Conversions = nil
		}
		versions[0].Conversions = conversions
		return versions
	}
	two := []catalog.Version{catalog.V1Alpha1(), v1alpha2.Version()}
	three := func() []catalog.Version {
		return []catalog.Version{catalog.V1Alpha1(), v1alpha2.Version(), v1beta1.Version()}
	}
	good := v1alpha2.Version().Conversions[0]
	skips := catalog.Convert(v1beta1.BeforeClusterUpgrade, hooksv1.BeforeClusterUpgrade,
		func(*v1beta1.BeforeClusterUpgradeRequest, *hooksv1.BeforeClusterUpgradeRequest) error { return nil },
		func(*hooksv1.BeforeClusterUpgradeResponse, *v1beta1.BeforeClusterUpgradeResponse) error { return nil })
	reversed := catalog.Convert(hooksv1.BeforeClusterUpgrade, v1alpha2.BeforeClusterUpgrade,
		func(*hooksv1.BeforeClusterUpgradeRequest, *v1alpha2.BeforeClusterUpgradeRequest) error { return nil },
		func(*v1alpha2.BeforeClusterUpgradeResponse, *hooksv1.BeforeClusterUpgradeResponse) error { return nil })
	across := catalog.Convert(v1alpha2.BeforeClusterUpgrade, hooksv1.BeforeClusterCreate,
		func(*v1alpha2.BeforeClusterUpgradeRequest, *hooksv1.BeforeClusterCreateRequest) error { return nil },
		func(*hooksv1.BeforeClusterCreateResponse, *v1alpha2.BeforeClusterUpgradeResponse) error { return nil })
	clone := func(vs []catalog.Version) []catalog.Version { return append([]catalog.Version(nil), vs...) }
	missing := "hook " + hook + "v1alpha2/BeforeClusterUpgrade has no conversion to v1alpha1 (rule 2)"
	tests := map[string]struct {
		versions []catalog.Version
		want     []string
	}{
		"missing":  {with(clone(two)), []string{missing}},
		"twice":    {with(clone(two), good, good), []string{"conversion of " + hook + "v1alpha2/BeforeClusterUpgrade to v1alpha1 is given twice"}},
		"reversed": {with(clone(two), good, reversed), []string{"conversion of " + hook + "v1alpha1/BeforeClusterUpgrade to v1alpha2: it must lead from a newer version to an older one"}},
		"across":   {with(clone(two), good, across), []string{"conversion of " + hook + "v1alpha2/BeforeClusterUpgrade to " + hook + "v1alpha1/BeforeClusterCreate: these are different hooks"}},
		"unknown":  {with([]catalog.Version{catalog.V1Alpha1()}, good), []string{"conversion of BeforeClusterUpgrade, which is not in this catalog"}},
		"empty":    {with([]catalog.Version{catalog.V1Alpha1()}, catalog.Conversion{}), []string{"conversion of a hook whose function is nil", "conversion of a hook whose function is nil"}},
		"a step is left out": {with(three(), good, skips), []string{
			"conversion of " + hook + "v1beta1/BeforeClusterUpgrade to v1alpha1 skips v1alpha2",
		}},
		"no functions": {with(clone(two), catalog.Convert(v1alpha2.BeforeClusterUpgrade, hooksv1.BeforeClusterUpgrade, nil, v1alpha2.Up)), []string{
			"conversion of " + hook + "v1alpha2/BeforeClusterUpgrade to v1alpha1 lacks a function", missing,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantMistakes(t, tc.versions, tc.want)
		})
	}
}

func TestDeprecationsNeedAReplacement(t *testing.T) {
	t.Parallel()
	announced := catalog.Deprecation{Since: "v1.4.0", Date: "2026-11-20"}
	deprecate := func(v catalog.Version, d catalog.Deprecation) catalog.Version {
		for i := range v.Hooks {
			if strings.HasSuffix(v.GroupVersion.Version, "alpha1") && i != 3 { // BeforeClusterUpgrade
				continue
			}
			v.Hooks[i].Deprecated = &d
		}
		return v
	}
	const hook = "hook hooks.runtime.cluster.x-k8s.io/"
	tests := map[string]struct {
		versions []catalog.Version
		want     []string
	}{
		"none is newer": {
			[]catalog.Version{deprecate(catalog.V1Alpha1(), announced)},
			[]string{hook + "v1alpha1/BeforeClusterUpgrade is deprecated, but no newer version is at least as stable (rule 3)"},
		},
		"the newer one goes too": {
			[]catalog.Version{deprecate(catalog.V1Alpha1(), announced), deprecate(v1alpha2.Version(), announced)},
			[]string{
				hook + "v1alpha1/BeforeClusterUpgrade is deprecated, but no newer version is at least as stable (rule 3)",
				hook + "v1alpha2/BeforeClusterUpgrade is deprecated, but no newer version is at least as stable (rule 3)",
			},
		},
		"a beta goes, an older alpha stays": {
			[]catalog.Version{catalog.V1Alpha1(), v1alpha2.Version(), deprecate(v1beta1.Version(), announced)},
			[]string{hook + "v1beta1/BeforeClusterUpgrade is deprecated, but no newer version is at least as stable (rule 3)"},
		},
		"it says neither since when nor when": {
			[]catalog.Version{deprecate(catalog.V1Alpha1(), catalog.Deprecation{Date: "soon"}), v1alpha2.Version()},
			[]string{
				hook + "v1alpha1/BeforeClusterUpgrade is deprecated, but since which release is not said",
				hook + `v1alpha1/BeforeClusterUpgrade is deprecated, but the date "soon" is not of the form 2026-11-20`,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantMistakes(t, tc.versions, tc.want)
		})
	}
	c, err := catalog.New(deprecate(catalog.V1Alpha1(), announced), v1alpha2.Version(), v1beta1.Version())
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Lookup(hooksv1.BeforeClusterUpgrade)
	want := catalog.Deprecation{Since: "v1.4.0", Date: "2026-11-20", Use: "hooks.runtime.cluster.x-k8s.io/v1beta1/BeforeClusterUpgrade"}
	if err != nil || d.Deprecated == nil || *d.Deprecated != want {
		t.Errorf("got %+v, %v, want %+v", d.Deprecated, err, want)
	}
	if announced.Use != "" {
		t.Error("the caller's deprecation was changed")
	}
}

func TestAVersionHasATrack(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]catalog.Track{"v1": catalog.GA, "v12": catalog.GA, "v1beta2": catalog.Beta, "v2alpha10": catalog.Alpha} {
		if got, err := catalog.TrackOf(version); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", version, got, err, want)
		}
	}
	for _, version := range []string{"", "1", "v0", "v1gamma1", "v1alpha", "v1alpha0", "V1", "v1-1"} {
		if _, err := catalog.TrackOf(version); err == nil {
			t.Errorf("%q has a track", version)
		}
	}
}
