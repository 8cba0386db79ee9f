// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func contains(err error, want string) bool {
	return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
}

func TestTakeData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status     map[string]any
		version    string
		want       Taken
		wantSecret string
		wantErr    string
	}{
		"made":                            {status: map[string]any{"initialization": map[string]any{"dataSecretCreated": true}, "dataSecretName": "s"}, want: Taken{News: true}, wantSecret: "s"},
		"not made":                        {status: map[string]any{"dataSecretName": "s"}},
		"made, but it does not say which": {status: map[string]any{"initialization": map[string]any{"dataSecretCreated": true}}, want: Taken{Lacks: "status.dataSecretName"}},
		"rubbish":                         {status: map[string]any{"initialization": "yes"}, wantErr: "status.initialization.dataSecretCreated of Config m0"},
		"an unknown contract":             {version: "v0", wantErr: "v0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine()
			if tc.version == "" {
				tc.version = "v1beta2"
			}
			got, err := TakeData(m, object("Config", map[string]any{"status": tc.status}), tc.version)
			if !contains(err, tc.wantErr) {
				t.Errorf("error %v, want %q in it", err, tc.wantErr)
			}
			secret := ""
			if m.Spec.Bootstrap.DataSecretName != nil {
				secret = *m.Spec.Bootstrap.DataSecretName
			}
			if got != tc.want || secret != tc.wantSecret || (m.Status.Initialization.BootstrapDataSecretCreated != nil) != tc.want.News {
				t.Errorf("taken %+v, Secret %q, status %+v", got, secret, m.Status.Initialization)
			}
		})
	}
	if m := machine(); BroughtData(m) || m.Status.Initialization.BootstrapDataSecretCreated != nil {
		t.Error("there are data without a source")
	}
}

func TestTakeHost(t *testing.T) {
	t.Parallel()
	host := func(id string, provisioned any) map[string]any {
		return map[string]any{
			"spec": map[string]any{"providerID": id, "failureDomain": "a"},
			"status": map[string]any{
				"initialization": map[string]any{"provisioned": provisioned}, "failureDomain": "b",
				"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}},
			},
		}
	}
	broken := host("x://m0", true)
	broken["status"].(map[string]any)["addresses"] = "none"
	for name, tc := range map[string]struct {
		change  func(*clusterv1.Machine)
		fields  map[string]any
		version string
		want    Taken
		wantID  string
		wantErr string
	}{
		"provisioned now":                  {fields: host("x://m0", true), want: Taken{News: true}, wantID: "x://m0"},
		"no change until it is stored":     {change: func(m *clusterv1.Machine) { m.Spec.ProviderID = "x://m0" }, fields: host("x://m0", true), wantID: "x://m0"},
		"provisioned before":               {change: running, fields: host("x://m0", true), wantID: "x://m0"},
		"what was done stays done":         {change: running, fields: host("x://m0", false), wantID: "x://m0"},
		"nothing is copied before":         {fields: host("x://m0", false)},
		"provisioned without an ID":        {fields: host("", true), want: Taken{Lacks: "spec.providerID"}},
		"an ID that is no longer reported": {change: running, fields: host("", true)},
		"rubbish":                          {fields: host("", "yes"), wantErr: "status.initialization.provisioned of Host m0"},
		"rubbish among the rest":           {fields: broken, want: Taken{News: true}, wantID: "x://m0", wantErr: "status.addresses of Host m0"},
		"an unknown contract":              {fields: host("", true), version: "v0", wantErr: "v0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine()
			if tc.change != nil {
				tc.change(m)
			}
			if tc.version == "" {
				tc.version = "v1beta2"
			}
			got, err := TakeHost(m, object("Host", tc.fields), tc.version)
			if !contains(err, tc.wantErr) {
				t.Errorf("error %v, want %q in it", err, tc.wantErr)
			}
			if got != tc.want || m.Spec.ProviderID != tc.wantID {
				t.Errorf("taken %+v, provider ID %q; want %+v, %q", got, m.Spec.ProviderID, tc.want, tc.wantID)
			}
			if copied := m.Spec.FailureDomain == "a" && m.Status.FailureDomain == "b" && len(m.Status.Addresses) == 1; copied != (tc.wantID != "" && err == nil) {
				t.Errorf("copied: %v, failure domains %q and %q, addresses %v", copied, m.Spec.FailureDomain, m.Status.FailureDomain, m.Status.Addresses)
			}
		})
	}
}

func TestTakeCertificatesExpiry(t *testing.T) {
	t.Parallel()
	const early, late = "2026-06-01T00:00:00Z", "2027-06-01T00:00:00Z"
	controlPlane := func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" }
	says := func(text string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			controlPlane(m)
			m.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] = text
		}
	}
	for name, tc := range map[string]struct {
		change        func(*clusterv1.Machine)
		config        string
		want, wantErr string
	}{
		"a worker has none":                {change: func(*clusterv1.Machine) {}, config: late},
		"by the bootstrap config":          {change: controlPlane, config: late, want: late},
		"the Machine wins":                 {change: says(early), config: late, want: early},
		"no longer reported":               {change: func(m *clusterv1.Machine) { controlPlane(m); m.Status.CertificatesExpiryDate = metav1.NewTime(now) }},
		"no time":                          {change: says("soon"), wantErr: "of the Machine must be a time as RFC 3339 has it"},
		"no time, by the bootstrap config": {change: controlPlane, config: "soon", wantErr: "of Config m0 must be a time as RFC 3339 has it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, config := machine(tc.change), object("Config", nil)
			config.SetAnnotations(map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: tc.config})
			if err := TakeCertificatesExpiry(m, config); !contains(err, tc.wantErr) {
				t.Errorf("error %v, want %q in it", err, tc.wantErr)
			}
			got := ""
			if at := m.Status.CertificatesExpiryDate; !at.IsZero() {
				got = at.UTC().Format(time.RFC3339)
			}
			if got != tc.want {
				t.Errorf("expiry %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBeforeNode(t *testing.T) {
	t.Parallel()
	ready := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	ready.Status.Initialization.InfrastructureProvisioned = new(true)
	for want, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		id      string
		machine *clusterv1.Machine
	}{
		"Waiting for Cluster demo to exist":                                {nil, "x://m0", machine()},
		"Waiting for the infrastructure of Cluster demo to be provisioned": {&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, "x://m0", machine()},
		"Waiting for Host m0 to report spec.providerID":                    {ready, "", machine()},
		"": {ready, "", machine(running)},
	} {
		if diff := cmp.Diff(want, BeforeNode(tc.machine, tc.cluster, tc.id, "Host m0")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestProviderID(t *testing.T) {
	t.Parallel()
	host := object("Host", map[string]any{"spec": map[string]any{"providerID": "x://host"}})
	own := func(m *clusterv1.Machine) { m.Spec.ProviderID = "x://own" }
	for want, m := range map[string]*clusterv1.Machine{"": machine(), "x://own": machine(own, deleted), "x://host": machine(deleted)} {
		if got, err := ProviderID(m, host, "v1beta2"); got != want || err != nil {
			t.Errorf("provider ID %q, error %v, want %q", got, err, want)
		}
	}
	if _, err := ProviderID(machine(deleted), host, "v0"); err == nil {
		t.Error("no error of an unknown contract")
	}
}
