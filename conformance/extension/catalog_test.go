// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance/extension"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/server"
)

// BeforeTeaRequest and the two below are a hook that only these tests know.
type BeforeTeaRequest struct {
	hooksv1.BeforeClusterCreateRequest `json:",inline"`
}

type BeforeTeaResponse struct {
	hooksv1.BeforeClusterCreateResponse `json:",inline"`
}

func BeforeTea(*BeforeTeaRequest, *BeforeTeaResponse) {}

func TestHooksOfOthersNeedRequestsOfTheirOwn(t *testing.T) {
	t.Parallel()
	hooks, err := catalog.New(catalog.V1Alpha1(), catalog.Version{
		GroupVersion: schema.GroupVersion{Group: "hooks.example.com", Version: "v1"},
		Hooks:        []catalog.Hook{{Func: BeforeTea, Summary: "Called before tea.", Description: "Holds up tea.", Tags: []string{"Tea"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Catalog: hooks})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Handle(s, BeforeTea, func(context.Context, *BeforeTeaRequest, *BeforeTeaResponse) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c := serve(t, s)
	c.Catalog = hooks
	r := extension.Run(t.Context(), c)
	asked := 0
	for _, res := range r.Results {
		if strings.HasPrefix(res.Handler, "before-tea") && res.Outcome == extension.Skipped {
			asked++
			if !strings.Contains(res.Problem, "hooks.example.com/v1/BeforeTea: give one") {
				t.Errorf("%s: %s", res.Check, res.Problem)
			}
		}
	}
	if r.Err() != nil || asked == 0 {
		t.Errorf("%d checks ask for a request, %v", asked, r.Err())
	}
	c.Requests = map[string][]byte{"BeforeTea": []byte("cluster: {metadata: {name: pot}}")}
	if r = extension.Run(t.Context(), c); r.Err() != nil {
		t.Error(r.Err())
	}
	for _, res := range r.Results {
		if res.Handler != "" && res.Outcome != extension.Passed {
			t.Error(res.Outcome, res)
		}
	}
}
