// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// definition returns one of a provider with an old version, and some conversion.
func definition(provider string, by *apiextensionsv1.CustomResourceConversion) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.ProviderNameLabel: provider}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true}, {Name: "v1beta2", Served: true, Storage: true}},
			Conversion: by,
		},
	}
}

func TestWhoConverts(t *testing.T) {
	t.Parallel()
	here := Conversion{URL: "https://here:1/convert", CABundle: []byte("ours\n"), Providers: []string{"core"}}
	ours, theirs, plane := byWebhook(here.URL, here.CABundle), byWebhook("https://there/convert", []byte("theirs\n")), byWebhook(conversion.InProcessURL, nil)
	more, rotated := byWebhook(here.URL, []byte("others\nours\n")), byWebhook(here.URL, []byte("before\n"))
	none := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	tests := map[string]struct {
		by       Conversion
		provider string
		live     *apiextensionsv1.CustomResourceConversion // nil: no definition
		want     *apiextensionsv1.CustomResourceConversion
	}{
		"a new definition":                                    {here, "cluster-api", nil, ours},
		"a new definition of a provider elsewhere":            {here, "bootstrap-kubeadm", nil, ours},
		"one without a converter":                             {here, "cluster-api", none, ours},
		"one of an earlier start":                             {here, "cluster-api", ours, ours},
		"one with more authorities":                           {here, "cluster-api", more, more},
		"one with an authority that has gone":                 {here, "cluster-api", rotated, ours},
		"one of another manager":                              {here, "cluster-api", theirs, ours},
		"one of a provider elsewhere":                         {here, "bootstrap-kubeadm", theirs, theirs},
		"one that the API server converts by itself":          {here, "cluster-api", plane, plane},
		"a new definition without a converter":                {Conversion{}, "cluster-api", nil, nil},
		"one that stays without a converter":                  {Conversion{}, "cluster-api", none, nil},
		"one of another manager, no converter here":           {Conversion{}, "cluster-api", theirs, theirs},
		"one that the API server converts, no converter here": {Conversion{Providers: []string{"core"}}, "cluster-api", plane, plane},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := definition(tc.provider, nil)
			var live *apiextensionsv1.CustomResourceDefinition
			if tc.live != nil {
				live = definition(tc.provider, tc.live)
			}
			tc.by.choose(want, live)
			if diff := cmp.Diff(tc.want, want.Spec.Conversion); diff != "" {
				t.Errorf("conversion (-want +got):\n%s", diff)
			}
			served := slices.ContainsFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served && !v.Storage })
			if served != (tc.want != nil) || !want.Spec.Versions[1].Served {
				t.Errorf("the old version is served: %v", served)
			}
		})
	}
}
