// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	core         = clusterctlv1.CoreProviderType
	bootstrap    = clusterctlv1.BootstrapProviderType
	controlPlane = clusterctlv1.ControlPlaneProviderType
	infra        = clusterctlv1.InfrastructureProviderType
)

// release is one of a provider in a namespace of its name, with a definition of a name.
func release(t *testing.T, name string, kind clusterctlv1.ProviderType, contract, definition string) Release {
	t.Helper()
	c, err := components.Load(components.Input{Provider: config.Provider{Name: name, Type: kind}, Version: "v1.2.0", Raw: fmt.Appendf(nil, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s-system}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s}
spec: {group: x.cluster.x-k8s.io, names: {kind: Proxy}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[1]s-system}
spec: {template: {spec: {containers: [{name: manager, image: "example.com/%[1]s:v1"}]}}}
`, name, definition)})
	if err != nil {
		t.Fatal(err)
	}
	return Release{Components: c, Contract: contract}
}

func TestWhatMayBeInstalled(t *testing.T) {
	t.Parallel()
	const right = "proxies.x.cluster.x-k8s.io"
	capi, aws := release(t, "cluster-api", core, "v1beta2", right), release(t, "aws", infra, "v1beta1", right)
	there := inventory.Providers{inventory.Object("cluster-api", "cluster-api", core, "v1.11.0", "capi-system")}
	awsThere := append(inventory.Providers{inventory.Object("infrastructure-aws", "aws", infra, "v1.1.0", "other")}, there...)
	for name, tc := range map[string]struct {
		installed inventory.Providers
		releases  []Release
		want      []string // errors
	}{
		"a first installation":     {nil, []Release{capi, aws}, nil},
		"one more provider":        {there, []Release{aws}, nil},
		"a definition's exception": {there, []Release{excepted(release(t, "aws", infra, "v1beta2", "proxys.x.cluster.x-k8s.io"))}, nil},

		"no core":                 {nil, []Release{aws}, []string{"there would be no core provider: give one with --core"}},
		"two cores":               {there, []Release{release(t, "other", core, "v1beta2", right)}, []string{"there would be more than one core provider (cluster-api v1.11.0 in namespace capi-system, other): give one"}},
		"another version of core": {there, []Release{capi}, []string{"cluster-api is installed already, version v1.11.0 in namespace capi-system, and there can be no second one"}},
		"a second instance":       {awsThere, []Release{aws}, []string{"infrastructure-aws is installed already, version v1.1.0 in namespace other"}},
		"one that is named twice": {there, []Release{aws, aws}, []string{"infrastructure-aws is named twice"}},
		"a contract of tomorrow":  {there, []Release{release(t, "aws", infra, "v1beta3", right)}, []string{"infrastructure-aws v1.2.0 keeps the contract v1beta3, and v1beta2 or v1beta1 is needed: choose another version"}},
		"a core of yesterday":     {nil, []Release{release(t, "cluster-api", core, "v1beta1", right)}, []string{"cluster-api v1.2.0 keeps the contract v1beta1, and v1beta2 is needed"}},
		"all that is wrong is said": {nil, []Release{release(t, "aws", infra, "v1alpha4", "proxys.x.cluster.x-k8s.io")}, []string{
			"there would be no core provider", "keeps the contract v1alpha4", "proxies.x.cluster.x-k8s.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Validate(tc.installed, tc.releases)
			if tc.want == nil && err != nil {
				t.Errorf("got %v, want none", err)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func excepted(r Release) Release {
	for _, obj := range r.Objects() {
		obj.SetAnnotations(map[string]string{clusterctlv1.SkipCRDNamePreflightCheckAnnotation: ""})
	}
	return r
}

func TestProvidersAreNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selection Selection
		want      []Wanted
		err       string
	}{
		"in the order of their installation": {Selection{infra: {"b", "a:v1.0.0"}, bootstrap: {"kubeadm"}, core: {"cluster-api:v1.11.0-rc.1"}}, []Wanted{
			{Name: "cluster-api", Type: core, Version: "v1.11.0-rc.1"}, {Name: "kubeadm", Type: bootstrap}, {Name: "b", Type: infra}, {Name: "a", Type: infra, Version: "v1.0.0"}}, ""},
		"with a namespace":  {Selection{infra: {"capa-system/aws:v1.0.0"}}, []Wanted{{Name: "aws", Type: infra, Version: "v1.0.0", Namespace: "capa-system"}}, ""},
		"missing":           {Selection{bootstrap: {"-"}}, []Wanted{{Name: "-", Type: bootstrap}}, ""},
		"no core":           {Selection{core: {"-"}}, nil, `CoreProvider "-" names no provider`},
		"no name":           {Selection{infra: {":v1.0.0"}}, nil, `InfrastructureProvider ":v1.0.0" names no provider`},
		"no version":        {Selection{infra: {"aws:"}}, nil, `version "" is not semantic`},
		"two parts of one":  {Selection{infra: {"aws:1.0"}}, nil, `InfrastructureProvider "aws:1.0": version "1.0" is not semantic: give one such as v1.2.3`},
		"no namespace":      {Selection{infra: {"/aws"}}, nil, "no namespace before the slash"},
		"each with a fault": {Selection{infra: {"aws:x", ":"}}, nil, "names no provider"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.selection.Wanted()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v; providers (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDefaultsAreForAFirstInstallationAndForWhatIsNotNamed(t *testing.T) {
	t.Parallel()
	got := Selection{infra: {"aws"}, bootstrap: {"-"}}.withDefaults(inventory.Providers{inventory.Object("control-plane-other", "other", controlPlane, "v1.0.0", "x")})
	if diff := cmp.Diff(Selection{core: {"cluster-api"}, bootstrap: {"-"}, infra: {"aws"}}, got); diff != "" {
		t.Errorf("selection (-want +got):\n%s", diff)
	}
}

// TestInstalledFindsNamedProviders for a deletion or an upgrade.
func TestInstalledFindsNamedProviders(t *testing.T) {
	t.Parallel()
	aws := inventory.Object("infrastructure-aws", "aws", infra, "v1.1.0", "capa-system")
	second := inventory.Object("infrastructure-aws", "aws", infra, "v1.2.0", "team")
	own := inventory.Object("infrastructure-local", "local", infra, "v1.0.0", manifests.Namespace)
	for name, tc := range map[string]struct {
		installed inventory.Providers
		text      string
		want      string // namespace of the provider
		err       string
	}{
		"one":                       {inventory.Providers{aws}, "aws", "capa-system", ""},
		"in its version":            {inventory.Providers{aws}, "aws:v1.1.0", "capa-system", ""},
		"in another version":        {inventory.Providers{aws}, "aws:v1.2.0", "", "infrastructure-aws is installed in version v1.1.0, not v1.2.0"},
		"one of two":                {inventory.Providers{aws, second}, "team/aws", "team", ""},
		"of two":                    {inventory.Providers{aws, second}, "aws", "", "infrastructure-aws is installed 2 times: say which, as NAMESPACE/aws"},
		"in another namespace":      {inventory.Providers{aws}, "team/aws", "", "infrastructure-aws is not installed in namespace team"},
		"none, with a typing error": {inventory.Providers{aws}, "awz", "", `infrastructure-awz is not installed: did you mean "aws"?`},
		"built in":                  {inventory.Providers{own}, "local", "", "infrastructure-local is built into the management cluster"},
		"no name":                   {nil, ":v1.0.0", "", "names no provider"},
	} {
		found, err := Installed(Selection{infra: {tc.text}}, tc.installed, sameVersion)
		switch {
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: error %v, want %q", name, err, tc.err)
		case tc.err == "" && (err != nil || len(found) != 1 || found[0].Namespace != tc.want):
			t.Errorf("%s: %+v, error %v", name, found, err)
		}
	}
}

func TestStoredAtIsTheStorageVersion(t *testing.T) {
	t.Parallel()
	version := func(name any, storage any) any { return map[string]any{"name": name, "storage": storage} }
	for want, versions := range map[string]any{
		"v1beta2": []any{version("v1beta1", false), version("v1beta2", true)},
		"":        []any{version("v1beta1", false), "v1beta2", version("v1beta2", "true")},
	} {
		got, err := storedAt(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": versions}}})
		if err != nil || got != want {
			t.Errorf("%q, want %q, error %v", got, want, err)
		}
	}
	if _, err := storedAt(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": "v1"}}}); err == nil {
		t.Error("versions that are no list have a storage version")
	}
}
