// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

func agree(context.Context, *createRequest, *createResponse) error { return nil }

func agreeToDelete(context.Context, *hooksv1.BeforeClusterDeleteRequest, *hooksv1.BeforeClusterDeleteResponse) error {
	return nil
}

func strangeHook(*createRequest, *createResponse) {}

type notAnObject struct{}

func TestHandleRefusesWithAnErrorThatSaysWhy(t *testing.T) {
	t.Parallel()
	var (
		noHook func(*createRequest, *createResponse)
		noFunc func(context.Context, *createRequest, *createResponse) error
	)
	tests := map[string]struct {
		register func(s *Server) error
		want     string
	}{
		"no server":                  {func(*Server) error { return Handle(nil, hooksv1.BeforeClusterCreate, agree) }, "the server is nil"},
		"no hook":                    {func(s *Server) error { return Handle(s, noHook, agree) }, "the hook is nil"},
		"a function that is no hook": {func(s *Server) error { return Handle(s, strangeHook, agree) }, "strangeHook"},
		"types that are no messages": {func(s *Server) error {
			return Handle(s, func(*notAnObject, *notAnObject) {}, func(context.Context, *notAnObject, *notAnObject) error { return nil })
		}, "it is not in this catalog"},
		"no function": {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, noFunc) }, "the function is nil"},
		"discovery": {func(s *Server) error {
			return Handle(s, hooksv1.Discovery, func(context.Context, *hooksv1.DiscoveryRequest, *hooksv1.DiscoveryResponse) error { return nil })
		}, "the server answers this hook itself"},
		"an empty name":        {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Name("")) }, `the name "" cannot be used`},
		"a name with a dot":    {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Name("a.b")) }, `the name "a.b" cannot be used`},
		"a name in upper case": {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Name("Budget")) }, `the name "Budget" cannot be used`},
		"a name that is long": {func(s *Server) error {
			return Handle(s, hooksv1.BeforeClusterCreate, agree, Name(strings.Repeat("x", 64)))
		}, "cannot be used"},
		"a name taken":      {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Name("taken")) }, `the name "taken" is taken by the handler for hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterDelete`},
		"a timeout of zero": {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Timeout(0)) }, "the timeout 0s is not a whole number of seconds from 1 to 30"},
		"a timeout below":   {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Timeout(-time.Second)) }, "the timeout -1s"},
		"a timeout above":   {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Timeout(31*time.Second)) }, "the timeout 31s"},
		"a timeout in between": {func(s *Server) error {
			return Handle(s, hooksv1.BeforeClusterCreate, agree, Timeout(1500*time.Millisecond))
		}, "the timeout 1.5s"},
		"an unknown policy":      {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, OnFailure("Retry")) }, `the failure policy "Retry"`},
		"two mistakes, both":     {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Name("_"), OnFailure("")) }, "cannot be used"},
		"two mistakes, the next": {func(s *Server) error { return Handle(s, hooksv1.BeforeClusterCreate, agree, Name("_"), OnFailure("")) }, `the failure policy ""`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustNew(t, Options{})
			if err := Handle(s, hooksv1.BeforeClusterDelete, agreeToDelete, Name("taken")); err != nil {
				t.Fatal(err)
			}
			err := tc.register(s)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if got := len(s.handlers()); got != 1 {
				t.Errorf("there are %d handlers after a refusal, want 1", got)
			}
		})
	}
}

func TestTheSameHookCanHaveSeveralHandlers(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{}, agree)
	if err := Handle(s, hooksv1.BeforeClusterCreate, agree, nil, Name("second")); err != nil {
		t.Error(err)
	}
	if err := Handle(s, hooksv1.BeforeClusterCreate, agree); err == nil || !strings.Contains(err.Error(), `"before-cluster-create" is taken`) {
		t.Errorf("the default name a second time: %v", err)
	}
}

func TestHandleIsTooLateAfterStart(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, agree)
	start(t, s)
	err := Handle(s, hooksv1.BeforeClusterDelete, agreeToDelete)
	if err == nil || !strings.Contains(err.Error(), "the server has started") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultNamesAreLabels(t *testing.T) {
	t.Parallel()
	for _, hook := range catalog.Default().Hooks() {
		if why := validation.IsDNS1123Label(kebab(hook.Hook)); len(why) > 0 {
			t.Errorf("%s: %q: %v", hook.Hook, kebab(hook.Hook), why)
		}
	}
	for hook, want := range map[string]string{"CanUpdateMachineSet": "can-update-machine-set", "Discovery": "discovery"} {
		if got := kebab(hook); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDiscoveryListsHandlersByName(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{})
	for _, err := range []error{
		Handle(s, hooksv1.BeforeClusterDelete, agreeToDelete, Name("zebra"), Timeout(30*time.Second)),
		Handle(s, hooksv1.BeforeClusterCreate, agree, OnFailure(hooksv1.FailurePolicyIgnore), Timeout(time.Second)),
		Handle(s, hooksv1.BeforeClusterDelete, agreeToDelete, Name("aardvark"), OnFailure(hooksv1.FailurePolicyFail)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"kind":"DiscoveryResponse","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success","handlers":[` +
		`{"name":"aardvark","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterDelete"},"failurePolicy":"Fail"},` +
		`{"name":"before-cluster-create","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"},"timeoutSeconds":1,"failurePolicy":"Ignore"},` +
		`{"name":"zebra","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterDelete"},"timeoutSeconds":30}]}`
	for range 3 { // the same each time
		code, text := do(s, discoveryPath, discoveryBody)
		if diff := cmp.Diff(want, text); code != 200 || diff != "" {
			t.Errorf("code %d (-want +got):\n%s", code, diff)
		}
	}
}
