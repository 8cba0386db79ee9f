// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

func TestTakeInfrastructure(t *testing.T) {
	t.Parallel()
	fields := func(provisioned any, host string) map[string]any {
		return map[string]any{
			"spec":   map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": int64(6443)}},
			"status": map[string]any{"initialization": map[string]any{"provisioned": provisioned}, "failureDomains": []any{map[string]any{"name": "a"}}},
		}
	}
	taken := clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	for name, tc := range map[string]struct {
		change       func(*Facts)
		fields       map[string]any
		version      string
		wantNews     bool
		wantEndpoint clusterv1.APIEndpoint
		wantDomains  int
		wantErr      string
	}{
		"provisioned now":                      {fields: fields(true, "10.0.0.1"), wantNews: true, wantEndpoint: taken, wantDomains: 1},
		"provisioned before":                   {change: provisioned, fields: fields(true, "10.0.0.1"), wantEndpoint: taken, wantDomains: 1},
		"what was done stays done":             {change: provisioned, fields: fields(false, "10.0.0.1"), wantEndpoint: taken, wantDomains: 1},
		"nothing is copied before":             {fields: fields(false, "10.0.0.1")},
		"the endpoint never changes":           {change: func(f *Facts) { f.Cluster.Spec.ControlPlaneEndpoint = taken }, fields: fields(true, "10.0.0.9"), wantNews: true, wantEndpoint: taken, wantDomains: 1},
		"an endpoint that is none stays unset": {fields: fields(true, ""), wantNews: true, wantDomains: 1},
		"rubbish":                              {fields: fields("yes", ""), wantErr: "status.initialization.provisioned of Net demo"},
		"an unknown contract":                  {fields: fields(true, ""), version: "v0", wantErr: "v0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts()
			if tc.change != nil {
				tc.change(&f)
			}
			if tc.version == "" {
				tc.version = "v1beta2"
			}
			news, err := TakeInfrastructure(f.Cluster, object("Net", tc.fields), tc.version)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want %q in it", err, tc.wantErr)
			}
			if news != tc.wantNews || f.Cluster.Spec.ControlPlaneEndpoint != tc.wantEndpoint || len(f.Cluster.Status.FailureDomains) != tc.wantDomains {
				t.Errorf("changed %v, endpoint %v, failure domains %v", news, f.Cluster.Spec.ControlPlaneEndpoint, f.Cluster.Status.FailureDomains)
			}
		})
	}
}

func TestControlPlane(t *testing.T) {
	t.Parallel()
	brain := object("Brain", map[string]any{
		"spec":   map[string]any{"controlPlaneEndpoint": map[string]any{"host": "10.0.0.1", "port": int64(6443)}, "replicas": int64(3)},
		"status": map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true}, "replicas": int64(2), "version": "v1.36.3"},
	})
	f := facts()
	for i, wantNews := range []bool{true, false} {
		news, err := TakeControlPlane(f.Cluster, brain, "v1beta2")
		if err != nil || news != wantNews || f.Cluster.Spec.ControlPlaneEndpoint.Host != "10.0.0.1" {
			t.Errorf("time %d: changed %v, endpoint %v, error %v", i, news, f.Cluster.Spec.ControlPlaneEndpoint, err)
		}
	}
	r, versions, err := ReadControlPlane(brain, "v1beta2")
	if diff := cmp.Diff(contract.Replicas{Desired: new(int32(3)), Current: new(int32(2))}, r); err != nil || diff != "" {
		t.Errorf("error %v, replicas (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 2}}, versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestWithoutObjects(t *testing.T) {
	t.Parallel()
	joined := machine("cp0", "", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n0" })
	for name, tc := range map[string]struct {
		change                           func(*Facts)
		machines                         []*clusterv1.Machine
		wantProvisioned, wantInitialized bool
	}{
		"infrastructure is not waited for": {change: bare, machines: []*clusterv1.Machine{machine("cp0", "")}, wantProvisioned: true},
		"but that of a topology is":        {change: topology},
		"a Node proves a control plane":    {change: bare, machines: []*clusterv1.Machine{machine("cp1", ""), joined}, wantProvisioned: true, wantInitialized: true},
	} {
		c := facts(tc.change).Cluster
		WithoutInfrastructure(c)
		WithoutControlPlane(c, tc.machines)
		i := c.Status.Initialization
		if got := i.InfrastructureProvisioned != nil; got != tc.wantProvisioned {
			t.Errorf("%s: provisioned %v", name, got)
		}
		if got := i.ControlPlaneInitialized != nil; got != tc.wantInitialized {
			t.Errorf("%s: initialized %v", name, got)
		}
	}
}
