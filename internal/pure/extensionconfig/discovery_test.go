// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
)

const v1alpha1 = "hooks.runtime.cluster.x-k8s.io/v1alpha1"

func handler(name, hook string, change ...func(*hooksv1.ExtensionHandler)) hooksv1.ExtensionHandler {
	h := hooksv1.ExtensionHandler{Name: name, RequestHook: hooksv1.GroupVersionHook{APIVersion: v1alpha1, Hook: hook}}
	for _, c := range change {
		c(&h)
	}
	return h
}

func timeout(s int32) func(*hooksv1.ExtensionHandler) {
	return func(h *hooksv1.ExtensionHandler) { h.TimeoutSeconds = new(s) }
}

func policy(p hooksv1.FailurePolicy) func(*hooksv1.ExtensionHandler) {
	return func(h *hooksv1.ExtensionHandler) { h.FailurePolicy = new(p) }
}

func version(apiVersion string) func(*hooksv1.ExtensionHandler) {
	return func(h *hooksv1.ExtensionHandler) { h.RequestHook.APIVersion = apiVersion }
}

func discovered(handlers ...hooksv1.ExtensionHandler) *hooksv1.DiscoveryResponse {
	out := &hooksv1.DiscoveryResponse{Handlers: handlers}
	out.SetStatus(hooksv1.ResponseStatusSuccess)
	return out
}

func TestHandlersFillsInWhatIsLeftOutAndSorts(t *testing.T) {
	t.Parallel()
	got, err := Handlers(catalog.Default(), "my.config", discovered(
		handler("b", "GeneratePatches", timeout(30), policy(hooksv1.FailurePolicyIgnore)),
		handler("a", "BeforeClusterCreate"),
		handler("c", "BeforeClusterCreate", timeout(0), policy(hooksv1.FailurePolicyFail)),
	))
	if err != nil {
		t.Fatal(err)
	}
	hook := func(name string) runtimev1.GroupVersionHook {
		return runtimev1.GroupVersionHook{APIVersion: v1alpha1, Hook: name}
	}
	want := []runtimev1.ExtensionHandler{
		{Name: "a.my.config", RequestHook: hook("BeforeClusterCreate"), TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail},
		{Name: "b.my.config", RequestHook: hook("GeneratePatches"), TimeoutSeconds: 30, FailurePolicy: runtimev1.FailurePolicyIgnore},
		{Name: "c.my.config", RequestHook: hook("BeforeClusterCreate"), TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handlers (-want +got):\n%s", diff)
	}
}

func TestHandlersNamesEveryMistake(t *testing.T) {
	t.Parallel()
	many := make([]hooksv1.ExtensionHandler, MaxHandlers+1)
	for i := range many {
		many[i] = handler(fmt.Sprintf("h%d", i), "BeforeClusterCreate")
	}
	failure := discovered(handler("a", "BeforeClusterCreate"))
	failure.SetStatus(hooksv1.ResponseStatusFailure)
	failure.SetMessage("no licence")
	odd := discovered()
	odd.SetStatus("Perhaps")
	tests := map[string]struct {
		answer *hooksv1.DiscoveryResponse
		want   []string // one line each
	}{
		"Failure is an error with its message": {failure, []string{"the extension answered Failure: no licence"}},
		"a status must be one of two":          {odd, []string{`the extension answered with status "Perhaps": want Success or Failure`}},
		"a status must be set":                 {&hooksv1.DiscoveryResponse{}, []string{`the extension answered with status "": want Success or Failure`}},
		"there is a highest number":            {discovered(many...), []string{"513 handlers: at most 512 can be registered"}},
		"no name":                              {discovered(handler("", "BeforeClusterCreate")), []string{`handlers[0] "": name: must be set`}},
		"the error of an upper-case name has the lower-case name": {discovered(handler("My-Hook", "BeforeClusterCreate")), []string{`handlers[0] "My-Hook": name: must be lower-case, as paths are: "my-hook"`}},
		"a name with a dot": {discovered(handler("a.b", "BeforeClusterCreate")), []string{`handlers[0] "a.b": name: must not contain dots`}},
		"a name twice": {discovered(handler("a", "BeforeClusterCreate"), handler("b", "BeforeClusterCreate"), handler("a", "GeneratePatches")), []string{
			`handlers[2] "a": name: handlers[0] has it already`,
		}},
		"an apiVersion without group": {discovered(handler("a", "BeforeClusterCreate", version("v1alpha1"))), []string{
			`handlers[0] "a": requestHook.apiVersion: "v1alpha1": must be group/version`,
		}},
		"another version of a hook": {discovered(handler("a", "BeforeClusterCreate", version("hooks.runtime.cluster.x-k8s.io/v1alpha9"))), []string{
			`handlers[0] "a": requestHook: "BeforeClusterCreate" of "hooks.runtime.cluster.x-k8s.io/v1alpha9" is not known; known of it: ` + v1alpha1,
		}},
		"another spelling of a hook": {discovered(handler("a", "generatePatches")), []string{
			`handlers[0] "a": requestHook: "generatePatches" of "` + v1alpha1 + `" is not known; it is written GeneratePatches`,
		}},
		"an unknown hook": {discovered(handler("a", "BeforeLunch"), handler("b", "BeforeLunch", version("x/v1"))), []string{
			`handlers[0] "a": requestHook: "BeforeLunch" of "` + v1alpha1 + `" is not known; that version has no hook of this name`,
			`handlers[1] "b": requestHook: "BeforeLunch" of "x/v1" is not known`,
		}},
		"no hook":          {discovered(handler("a", "")), []string{`handlers[0] "a": requestHook.hook: must be set`}},
		"discovery itself": {discovered(handler("a", "Discovery")), []string{`handlers[0] "a": requestHook: Discovery is answered by the extension as a whole: it needs no handler`}},
		"all that can be wrong with one": {discovered(handler("-", "BeforeLunch", version("x"), timeout(31), policy("Panic")), handler("b", "BeforeClusterCreate", timeout(-1))), []string{
			`handlers[0] "-": name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`handlers[0] "-": requestHook.apiVersion: "x": must be group/version`,
			`handlers[0] "-": timeoutSeconds: 31: must be 0 to 30`,
			`handlers[0] "-": failurePolicy: "Panic": must be Ignore or Fail`,
			`handlers[1] "b": timeoutSeconds: -1: must be 0 to 30`,
		}},
		"two without a name are not the same": {discovered(handler("", "BeforeClusterCreate"), handler("", "BeforeClusterCreate")), []string{
			`handlers[0] "": name: must be set`,
			`handlers[1] "": name: must be set`,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Handlers(catalog.Default(), "config", tc.answer)
			if err == nil {
				t.Fatalf("got %v, want an error", got)
			}
			if got != nil {
				t.Errorf("got %d handlers in addition to the error, want none", len(got))
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandlersBoundsComposedNamesAndWhatItQuotes(t *testing.T) {
	t.Parallel()
	_, err := Handlers(catalog.Default(), strings.Repeat("c", 500), discovered(handler("twelve-bytes", "BeforeClusterCreate")))
	if want := "name: 513 characters together with the ExtensionConfig's name: at most 512 are allowed"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := Handlers(catalog.Default(), strings.Repeat("c", 500), discovered(handler("eleven-byte", "BeforeClusterCreate"))); err != nil {
		t.Errorf("512 characters: %v", err)
	}
	_, err = Handlers(catalog.Default(), "config", discovered(handler("a", strings.Repeat("x", 1<<20), version(strings.Repeat("y", 1<<20)))))
	if n := len(err.Error()); n > 500 {
		t.Errorf("a long name makes an error of %d bytes", n)
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names     []string
		want, err string
	}{
		"none": {nil, "", ""},
		"one":  {[]string{"a.x"}, "a.x", ""},
		"two":  {[]string{"a.x", "b.y"}, "", "hook UpdateMachine must have no more than one handler, but has a.x, b.y: remove all but one ExtensionConfig, or keep them apart by namespaceSelector"},
	} {
		got, err := Only("UpdateMachine", tc.names)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: got %q, %v, want %q, %s", name, got, err, tc.want, tc.err)
		}
	}
}
