// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCRDName(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"LocalMachine":        "localmachines.x.io",
		"Proxy":               "proxies.x.io",
		"ClusterClass":        "clusterclasses.x.io",
		"KubeadmControlPlane": "kubeadmcontrolplanes.x.io",
		"Gateway":             "gateways.x.io",
		"IPAddress":           "ipaddresses.x.io",
	} {
		if got := CRDName("x.io", kind); got != want {
			t.Errorf("CRDName(%s) = %s, want %s", kind, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		labels                      map[string]string
		wantContract, wantAPI, want string
	}{
		"one version":                {map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"}, V1Beta2, "v1beta2", ""},
		"the newest contract wins":   {map[string]string{"cluster.x-k8s.io/v1beta1": "v3", "cluster.x-k8s.io/v1beta2": "v1"}, V1Beta2, "v1", ""},
		"the older contract is read": {map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta2", "cluster.x-k8s.io/provider": "x"}, V1Beta1, "v1beta2", ""},
		"the latest version wins":    {map[string]string{"cluster.x-k8s.io/v1beta2": "v1_v1beta9_v2alpha1"}, V1Beta2, "v1", ""},
		"as AWS v2.11.1 has them":    {map[string]string{"cluster.x-k8s.io/provider": "infrastructure-aws", "cluster.x-k8s.io/v1alpha3": "v1alpha3", "cluster.x-k8s.io/v1alpha4": "v1alpha4", "cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"}, V1Beta1, "v1beta2", ""},
		"no label":                   {map[string]string{"cluster.x-k8s.io/provider": "x", "app": "y"}, "", "", "no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 lists the API versions that follow the contract: install the provider's CRDs with their labels, or set one by: kubectl label crd NAME cluster.x-k8s.io/v1beta2=VERSION"},
		"an unsupported contract":    {map[string]string{"cluster.x-k8s.io/v1alpha4": "v1"}, "", "", "label cluster.x-k8s.io/v1alpha4: contract v1alpha4 is not supported; use a provider version for one of v1beta2, v1beta1"},
		"an empty label is passed":   {map[string]string{"cluster.x-k8s.io/v1beta2": "", "cluster.x-k8s.io/v1beta1": "v1"}, V1Beta1, "v1", ""},
		"an empty label":             {map[string]string{"cluster.x-k8s.io/v1beta2": ""}, "", "", "label cluster.x-k8s.io/v1beta2 names no API version: list those that follow the contract, joined by _"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, api, err := Choose(tc.labels)
			text := ""
			if err != nil {
				text = err.Error()
			}
			got, want := [3]string{c, api, text}, [3]string{tc.wantContract, tc.wantAPI, tc.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("contract, API version, error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFollowed(t *testing.T) {
	t.Parallel()
	kubeadm := map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
	tests := map[string]struct {
		labels    map[string]string
		api, want string
		err       string
	}{
		"each contract has its own":        {kubeadm, "v1beta1", V1Beta1, ""},
		"the newest of them":               {kubeadm, "v1beta2", V1Beta2, ""},
		"names have no order of contracts": {map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2"}, "v1beta2", V1Beta1, ""},
		"both contracts list it":           {map[string]string{"cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": "v1_v2"}, "v1", V1Beta2, ""},
		"no contract lists it":             {kubeadm, "v1alpha4", "", "no label of a contract lists API version v1alpha4: use v1beta2, or install the provider's CRDs with their labels"},
		"no label":                         {nil, "v1", "", "no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 lists the API versions that follow the contract: install the provider's CRDs with their labels, or set one by: kubectl label crd NAME cluster.x-k8s.io/v1beta2=VERSION"},
		"only a contract of the past":      {map[string]string{"cluster.x-k8s.io/v1alpha4": "v1"}, "v1", "", "label cluster.x-k8s.io/v1alpha4: contract v1alpha4 is not supported; use a provider version for one of v1beta2, v1beta1"},
		"an empty version is not one":      {map[string]string{"cluster.x-k8s.io/v1beta1": "v1_"}, "", "", "no label of a contract lists API version : use v1, or install the provider's CRDs with their labels"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Followed(tc.labels, tc.api)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([2]string{tc.want, tc.err}, [2]string{got, text}); diff != "" {
				t.Errorf("contract, error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryRoleKnowsEveryVersionAndNoOther(t *testing.T) {
	t.Parallel()
	roles := map[string]func(string) error{
		"infra cluster":  func(v string) error { _, err := InfraClusterFor(v); return err },
		"infra machine":  func(v string) error { _, err := InfraMachineFor(v); return err },
		"infra template": func(v string) error { _, err := InfraMachineTemplateFor(v); return err },
		"infra pool":     func(v string) error { _, err := InfraMachinePoolFor(v); return err },
		"bootstrap":      func(v string) error { _, err := BootstrapConfigFor(v); return err },
		"control plane":  func(v string) error { _, err := ControlPlaneFor(v); return err },
	}
	for role, get := range roles {
		for _, v := range Versions() {
			if err := get(v); err != nil {
				t.Errorf("%s %s: %v", role, v, err)
			}
		}
		if get("v1alpha4") == nil {
			t.Errorf("%s: v1alpha4 is accepted", role)
		}
	}
}

func TestControlPlaneState(t *testing.T) {
	t.Parallel()
	type state struct{ Provisioning, Upgrading, Scaling bool }
	full := func(kv ...any) map[string]any {
		s := m("replicas", int64(3), "readyReplicas", int64(3), "upToDateReplicas", int64(3), "availableReplicas", int64(3), "observedGeneration", int64(0))
		for k, v := range m(kv...) {
			s[k] = v
		}
		return s
	}
	old := func(kv ...any) map[string]any {
		s := m("version", "v1.36.1", "replicas", int64(3), "readyReplicas", int64(3), "updatedReplicas", int64(3))
		for k, v := range m(kv...) {
			s[k] = v
		}
		return s
	}
	spec := m("version", "v1.36.1", "replicas", int64(3))
	tests := map[string]struct {
		spec, status map[string]any
		want         state
		version      string // of the contract; by default the latest
	}{
		"nothing reported yet":              {spec, m(), state{Provisioning: true, Scaling: true}, ""},
		"in steady state":                   {spec, full("version", "v1.36.1"), state{}, ""},
		"an old version runs":               {spec, full("versions", []any{m("version", "v1.36.0"), m("version", "v1.36.1")}), state{Upgrading: true}, ""},
		"versions come before version":      {spec, full("version", "v1.35.0", "versions", []any{m("version", "v1.36.1")}), state{}, ""},
		"minor versions of a managed plane": {m("version", "v1.31", "replicas", int64(3)), full("version", "1.30"), state{Upgrading: true}, ""},
		"a managed plane in steady state":   {m("version", "v1.31", "replicas", int64(3)), full("version", "v1.31.4"), state{}, ""},
		"a newer version runs":              {spec, full("version", "v1.36.2"), state{}, ""},
		"another build runs":                {m("version", "v1.36.1+b.1", "replicas", int64(3)), full("version", "v1.36.1+b.2"), state{Upgrading: true}, ""},
		"a newer version of another build":  {m("version", "v1.36.1+b.1", "replicas", int64(3)), full("version", "v1.36.2+b.2"), state{}, ""},
		"one replica is not available":      {spec, full("version", "v1.36.1", "availableReplicas", int64(2)), state{Scaling: true}, ""},
		"no version and no replicas wanted": {m(), m(), state{}, ""},
		"v1beta1 in steady state":           {spec, old("unavailableReplicas", int64(0)), state{}, V1Beta1},
		"v1beta1 leaves zero out":           {spec, old(), state{}, V1Beta1},
		"v1beta1 has one unavailable":       {spec, old("unavailableReplicas", int64(1)), state{Scaling: true}, V1Beta1},
		"v1beta1 has one outdated":          {spec, old("updatedReplicas", int64(2)), state{Scaling: true}, V1Beta1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.version == "" {
				tc.version = V1Beta2
			}
			o, c := obj(m("spec", tc.spec, "status", tc.status)), controlPlanes[tc.version]
			var got state
			for _, q := range []struct {
				to  *bool
				ask func() (bool, error)
			}{
				{&got.Provisioning, func() (bool, error) { return c.IsProvisioning(o) }},
				{&got.Upgrading, func() (bool, error) { return c.IsUpgrading(o) }},
				{&got.Scaling, func() (bool, error) { return c.IsScaling(o) }},
			} {
				var err error
				if *q.to, err = q.ask(); err != nil {
					t.Fatal(err)
				}
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		version string
		status  map[string]any
		want    Replicas
	}{
		"v1beta2": {
			V1Beta2, m("replicas", int64(4), "readyReplicas", int64(3), "upToDateReplicas", int64(2), "availableReplicas", int64(1)),
			Replicas{new(int32(3)), new(int32(4)), new(int32(3)), new(int32(2)), new(int32(1))},
		},
		"v1beta1 reports the unavailable": {
			V1Beta1, m("replicas", int64(3), "readyReplicas", int64(3), "updatedReplicas", int64(2), "unavailableReplicas", int64(1)),
			Replicas{new(int32(3)), new(int32(3)), new(int32(3)), new(int32(2)), new(int32(2))},
		},
		"v1beta1 never goes below zero": {V1Beta1, m("unavailableReplicas", int64(9)), Replicas{Desired: new(int32(3)), Available: new(int32(0))}},
		"nothing reported":              {V1Beta2, m(), Replicas{Desired: new(int32(3))}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := controlPlanes[tc.version].Counters(obj(m("spec", m("replicas", int64(3)), "status", tc.status)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
		})
	}
}
