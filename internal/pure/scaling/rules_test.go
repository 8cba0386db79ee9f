// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestObjections(t *testing.T) {
	t.Parallel()
	stable := func(v string) *ControlPlane { return &ControlPlane{Name: "KubeadmControlPlane ns/cp", Version: v} }
	tests := map[string]struct {
		p       Preflight
		want    []string
		wantErr string
	}{
		"no control plane object":            {p: Preflight{Version: "v1.36.0"}},
		"a control plane without a version":  {p: Preflight{ControlPlane: &ControlPlane{Provisioning: true}, Version: "v1.36.0"}},
		"a stable control plane":             {p: Preflight{ControlPlane: stable("v1.36.0"), Version: "v1.36.0", Kubeadm: true}},
		"a Machine without a version":        {p: Preflight{ControlPlane: stable("v1.36.0"), Kubeadm: true, Topology: true}},
		"another major version is not ours":  {p: Preflight{ControlPlane: stable("v2.0.0"), Version: "v1.36.0"}},
		"three minor versions below is fine": {p: Preflight{ControlPlane: stable("v1.36.0"), Version: "v1.33.9"}},
		"provisioning": {
			p:    Preflight{ControlPlane: &ControlPlane{Name: "KubeadmControlPlane ns/cp", Version: "v1.36.0", Provisioning: true}, Version: "v1.36.0"},
			want: []string{"KubeadmControlPlane ns/cp is provisioning (\"ControlPlaneIsStable\" preflight check failed)"},
		},
		"upgrading": {
			p:    Preflight{ControlPlane: &ControlPlane{Name: "KubeadmControlPlane ns/cp", Version: "v1.36.0", Upgrading: true}, Version: "v1.36.0"},
			want: []string{"KubeadmControlPlane ns/cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)"},
		},
		"above the control plane": {
			p:    Preflight{ControlPlane: stable("v1.35.0"), Version: "v1.36.0"},
			want: []string{"version v1.36.0 is above v1.35.0 of the control plane (\"KubernetesVersionSkew\" preflight check failed)"},
		},
		"too far below the control plane": {
			p:    Preflight{ControlPlane: stable("v1.36.0"), Version: "v1.32.0"},
			want: []string{"version v1.32.0 is more than 3 minor versions below v1.36.0 of the control plane (\"KubernetesVersionSkew\" preflight check failed)"},
		},
		"kubeadm joins only its own minor version": {
			p:    Preflight{ControlPlane: stable("v1.36.0"), Version: "v1.35.0", Kubeadm: true},
			want: []string{"kubeadm of version v1.35.0 joins only a control plane of the same minor version, not v1.36.0 (\"KubeadmVersionSkew\" preflight check failed)"},
		},
		"a topology wants one version": {
			p:    Preflight{ControlPlane: stable("v1.36.1"), Version: "v1.36.0", Topology: true},
			want: []string{"version v1.36.0 is not v1.36.1 of the control plane (\"ControlPlaneVersionSkew\" preflight check failed)"},
		},
		"one check is skipped": {
			p:    Preflight{ControlPlane: &ControlPlane{Name: "cp", Version: "v1.35.0", Upgrading: true}, Version: "v1.36.0", Skip: SkipList("KubernetesVersionSkew, KubeadmVersionSkew")},
			want: []string{"cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)"},
		},
		"all checks are skipped":    {p: Preflight{ControlPlane: &ControlPlane{Version: "v1.35.0", Upgrading: true}, Version: "v1.36.0", Skip: SkipList("All")}},
		"a control plane's rubbish": {p: Preflight{ControlPlane: stable("rubbish")}, wantErr: "read version of KubeadmControlPlane ns/cp"},
		"a Machine's rubbish":       {p: Preflight{ControlPlane: stable("v1.36.0"), Version: "rubbish"}, wantErr: "read spec.template.spec.version"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.p.Objections()
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objections (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemediation(t *testing.T) {
	t.Parallel()
	sick := func(m *clusterv1.Machine) *clusterv1.Machine {
		return with(with(m, clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
	}
	recovered := func(m *clusterv1.Machine) *clusterv1.Machine {
		return with(with(m, clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionTrue), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
	}
	var many []*clusterv1.Machine
	var batch []string
	for i := range 100 {
		many = append(many, sick(bare(fmt.Sprintf("m%03d", i))))
		if i < 10 {
			batch = append(batch, fmt.Sprintf("replace m%03d: it is unhealthy", i))
		}
	}
	tests := map[string]struct {
		u    Unhealthy
		want []string
	}{
		"a great many go in batches":              {u: Unhealthy{Machines: many, MaxInFlight: -1}, want: batch},
		"healthy machines stay":                   {u: Unhealthy{Machines: machines(healthyOne("a")), MaxInFlight: -1}},
		"unhealthy, but no request to replace it": {u: Unhealthy{Machines: machines(with(bare("a"), clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse)), MaxInFlight: -1}},
		"asked, but health is not known":          {u: Unhealthy{Machines: machines(with(bare("a"), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)), MaxInFlight: -1}},
		"a machine recovers":                      {u: Unhealthy{Machines: machines(recovered(bare("a"))), MaxInFlight: -1}, want: []string{"keep a: it is healthy again"}},
		"a deleting machine is left alone":        {u: Unhealthy{Machines: machines(recovered(deletingOne("a"))), MaxInFlight: -1}},
		"all go when nothing bounds them": {
			u:    Unhealthy{Machines: machines(sick(bare("a")), sick(bare("b"))), MaxInFlight: -1},
			want: []string{"replace b: it is unhealthy", "replace a: it is unhealthy"},
		},
		"the newest goes first, one at a time": {
			u: Unhealthy{Machines: machines(sick(bare("a")), sick(bare("b"))), MaxInFlight: 1},
			want: []string{
				"replace b: it is unhealthy",
				"keep a: Waiting for other Machines to be replaced: at most 1 at a time (spec.remediation.maxInFlight)",
			},
		},
		"one being deleted is in flight": {
			u:    Unhealthy{Machines: machines(sick(bare("a")), sick(deletingOne("b"))), MaxInFlight: 1},
			want: []string{"keep a: Waiting for other Machines to be replaced: at most 1 at a time (spec.remediation.maxInFlight)"},
		},
		"one whose order does not stand stays": {
			u:    Unhealthy{Machines: machines(sick(bare("a")), sick(bare("b"))), Held: []string{"b"}, MaxInFlight: 1},
			want: []string{"replace a: it is unhealthy"},
		},
		"none goes without a replacement": {
			u:    Unhealthy{Machines: machines(sick(bare("a"))), MaxInFlight: -1, Blocked: []string{"cp is upgrading"}},
			want: []string{"keep a: Waiting because no replacement can be created: cp is upgrading"},
		},
		"an outdated set leaves it to the rollout": {
			u:    Unhealthy{Machines: machines(sick(bare("a"))), MaxInFlight: -1, Outdated: true},
			want: []string{"keep a: Machine is not replaced on its own: the rollout under way will replace it"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, v := range Remediation(tc.u) {
				got = append(got, v.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value string
		want  int
	}{
		"no bound":             {"", -1},
		"a number":             {"2", 2},
		"a share, rounded up":  {"25%", 2},
		"what is neither none": {"lots", 0},
	} {
		md := &clusterv1.MachineDeployment{}
		md.Spec.Replicas = new(int32(5))
		if tc.value != "" {
			md.Spec.Remediation.MaxInFlight = new(intstr.Parse(tc.value))
		}
		if got := MaxInFlight(md); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
	if got := MaxInFlight(nil); got != -1 {
		t.Errorf("without MachineDeployment: got %d, want no bound", got)
	}
}
