// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	machine := func(status metav1.ConditionStatus, since time.Duration) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		conditions.Set(m, noon.Add(-since), conditions.New(clusterv1.MachineNodeReadyCondition, status, "R", ""))
		return m
	}
	facts := func(change ...func(*Facts)) Facts {
		p := &clusterv1.MachinePool{Spec: clusterv1.MachinePoolSpec{Replicas: new(int32(2))}}
		f := Facts{Pool: p, Now: noon}
		for _, o := range []*reference.Object{&f.BootstrapConfig, &f.Infrastructure} {
			o.Ref = clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Pool", Name: "p"}
			o.Obj = &unstructured.Unstructured{Object: map[string]any{}}
		}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	up := func(f *Facts) {
		f.Pool.Status.Initialization.InfrastructureProvisioned, f.Pool.Status.Replicas = new(true), new(int32(2))
		f.Pool.Spec.Template.Spec.Bootstrap.DataSecretName, f.Pool.Spec.Template.Spec.MinReadySeconds = new("data"), new(int32(60))
		f.Machines = []*clusterv1.Machine{machine("True", time.Hour), machine("True", time.Second)}
	}
	const boot, infra, ready = "BootstrapReady True", "InfrastructureReady True", "ReplicasReady True"
	tests := map[string]struct {
		facts    Facts
		want     []string
		counters [3]int32 // ready, available, unavailable
		failure  string
	}{
		"on its way": {facts(), []string{
			"Ready False Info WaitingForDataSecret", "BootstrapReady False Info WaitingForDataSecret", "InfrastructureReady False Info WaitingForInfrastructure", "ReplicasReady False Info WaitingForReplicasReady",
		}, [3]int32{}, ""},
		"all is well": {facts(up), []string{"Ready True", boot, infra, ready}, [3]int32{2, 1, 1}, ""},
		"one is not ready": {
			facts(up, func(f *Facts) { f.Machines[1] = machine("False", time.Hour) }),
			[]string{"Ready False Info WaitingForReplicasReady", boot, infra, "ReplicasReady False Info WaitingForReplicasReady"}, [3]int32{1, 1, 1}, "",
		},
		"the Nodes are not seen": {
			facts(up, func(f *Facts) {
				f.Unseen = "no connection"
				f.Pool.Status.Deprecated = &clusterv1.MachinePoolDeprecatedStatus{V1Beta1: &clusterv1.MachinePoolV1Beta1DeprecatedStatus{ReadyReplicas: 2, AvailableReplicas: 2}}
			}),
			[]string{"Ready True", boot, infra}, [3]int32{2, 2, 0}, "",
		},
		"without a bootstrap config": {
			facts(up, func(f *Facts) {
				f.BootstrapConfig, f.Pool.Spec.Template.Spec.Bootstrap.DataSecretName = reference.Object{}, nil
			}),
			[]string{"Ready False Info WaitingForDataSecret", "BootstrapReady False Info WaitingForDataSecret", infra, ready}, [3]int32{2, 1, 1}, "",
		},
		"the infrastructure has gone": {
			facts(up, func(f *Facts) { f.Infrastructure.Obj, f.Infrastructure.Missing = nil, true }),
			[]string{"Ready False Error Deleted: Pool p has been deleted", boot, "InfrastructureReady False Error Deleted: Pool p has been deleted", ready}, [3]int32{2, 1, 1},
			"InvalidConfiguration",
		},
		"being deleted": {
			facts(up, func(f *Facts) { f.Pool.DeletionTimestamp = &metav1.Time{Time: noon} }),
			[]string{"Ready False Info Deleting", "BootstrapReady False Info Deleting", "InfrastructureReady False Info Deleting", ready}, [3]int32{2, 1, 1}, "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			FillDeprecated(tc.facts)
			st := tc.facts.Pool.Status.Deprecated.V1Beta1
			if diff := cmp.Diff(tc.want, builder.Deprecated(st.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got := [3]int32{st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas}; got != tc.counters {
				t.Errorf("ready, available, unavailable %v, want %v", got, tc.counters)
			}
			if (st.FailureReason == nil) != (tc.failure == "") || st.FailureReason != nil && *st.FailureReason != tc.failure {
				t.Errorf("failure reason %v, want %q", st.FailureReason, tc.failure)
			}
		})
	}
}
