// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestAPoolTakesWhatItRefersTo(t *testing.T) {
	t.Parallel()
	bare := thing("Boot", "p", nil)
	held := thing("HostPool", "p", nil)
	held.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "other", UID: "o", Controller: new(true)}})
	w := newWorld(t, cluster(), machinePool(1), bare, held)
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Boot p", "patch status of MachinePool p"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.must(w.mgmt.Get(t.Context(), poolKey, bare))
	if diff := cmp.Diff(ours(thing("Boot", "p", nil)).GetOwnerReferences(), bare.GetOwnerReferences()); diff != "" {
		t.Errorf("owners of the bootstrap config (-want +got):\n%s", diff)
	}
	for conditionType, want := range map[string]string{
		clusterv1.BootstrapConfigReadyCondition: "False NotReady: Waiting for Boot p to create bootstrap data",
		clusterv1.InfrastructureReadyCondition:  "False NotReady: spec.template.spec.infrastructureRef: HostPool ns/p is held by MachinePool other: refer to another object, or remove that owner or label",
		clusterv1.AvailableCondition:            "False NotAvailable: Waiting for HostPool p to be provisioned",
		clusterv1.ScalingUpCondition:            "True ScalingUp: Scaling up from 0 to 1 replicas",
	} {
		if got := cond(p, conditionType); got != want {
			t.Errorf("%s = %s, want %s", conditionType, got, want)
		}
	}
	if p.Status.Phase != "Pending" {
		t.Errorf("phase %s", p.Status.Phase)
	}
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	provisioned := machinePool(1, func(p *clusterv1.MachinePool) {
		p.Status.Initialization = clusterv1.MachinePoolInitializationStatus{InfrastructureProvisioned: new(true), BootstrapDataSecretCreated: new(true)}
	})
	tests := map[string]struct {
		pool                *clusterv1.MachinePool
		wantBoot, wantInfra string
		wantErr             string
	}{
		"before it was": {
			pool:      machinePool(1),
			wantBoot:  "False ObjectDoesNotExist: Boot p does not exist: create it, or correct the reference",
			wantInfra: "False ObjectDoesNotExist: HostPool p does not exist: create it, or correct the reference",
		},
		"any more": {
			pool:      provisioned,
			wantBoot:  "False ObjectDeleted: Boot p has been deleted while the MachinePool still exists: new machines get the bootstrap data that it left",
			wantInfra: "False ObjectDeleted: HostPool p has been deleted while the MachinePool still exists: delete the MachinePool, or restore the object from a backup",
			wantErr:   "infrastructure: terminal error: HostPool ns/p has been deleted while the MachinePool still exists: delete the MachinePool, or restore the object from a backup",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, err := newWorld(t, cluster(), tc.pool).reconcile()
			if text := errText(err); text != tc.wantErr {
				t.Errorf("error %q, want %q", text, tc.wantErr)
			}
			if got := cond(p, clusterv1.BootstrapConfigReadyCondition); got != tc.wantBoot {
				t.Errorf("BootstrapConfigReady = %s, want %s", got, tc.wantBoot)
			}
			if got := cond(p, clusterv1.InfrastructureReadyCondition); got != tc.wantInfra {
				t.Errorf("InfrastructureReady = %s, want %s", got, tc.wantInfra)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAnotherBootstrapConfigTakesThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	next := thing("Boot", "next", nil)
	w := newWorld(t, cluster(), machinePool(0), boot(), hostPool(), next)
	w.settle()
	p := &clusterv1.MachinePool{}
	w.change(p, "p", func() { p.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "next" })
	p = w.settle()
	if got := *p.Spec.Template.Spec.Bootstrap.DataSecretName; got != "data" {
		t.Errorf("before the new one has data: %s", got)
	}
	w.change(next, "next", func() {
		next.Object["status"] = fields{"dataSecretName": "newer", "initialization": fields{"dataSecretCreated": true}}
	})
	p = w.settle()
	if got := *p.Spec.Template.Spec.Bootstrap.DataSecretName; got != "newer" {
		t.Errorf("dataSecretName %s, want newer", got)
	}
}

func TestFailuresAreShown(t *testing.T) {
	t.Parallel()
	infra := hostPool()
	infra.Object["status"] = fields{"failureReason": "Quota", "failureMessage": "no hosts left", "conditions": []any{
		fields{"type": "Ready", "status": "False", "reason": "NoQuota", "message": "out of hosts"},
	}}
	p := newWorld(t, cluster(), machinePool(1), boot(), infra).settle()
	d := p.Status.Deprecated
	if d == nil || *d.V1Beta1.FailureReason != "Quota" || *d.V1Beta1.FailureMessage != "HostPool p: no hosts left" {
		t.Errorf("deprecated %+v", d)
	}
	if got := cond(p, clusterv1.InfrastructureReadyCondition); got != "False NoQuota: out of hosts" {
		t.Errorf("InfrastructureReady = %s", got)
	}
	if p.Status.Phase != "Provisioning" {
		t.Errorf("phase %s", p.Status.Phase)
	}
}

func TestAPoolOfAnAutoscalerIsScalingWithoutADirection(t *testing.T) {
	t.Parallel()
	p := newWorld(t, cluster(), machinePool(3, func(p *clusterv1.MachinePool) {
		p.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "external-autoscaler"}
	}), boot(), hostPool("x://1"), node("n1", "x://1", true)).settle()
	if p.Status.Phase != "Scaling" || cond(p, clusterv1.AvailableCondition) != "True Available" {
		t.Errorf("phase %s, Available %s", p.Status.Phase, cond(p, clusterv1.AvailableCondition))
	}
	if *p.Spec.Replicas != 3 {
		t.Errorf("spec.replicas %d: it is for the provider to say how many the autoscaler wants", *p.Spec.Replicas)
	}
}

func TestAReportThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	infra := hostPool()
	if err := unstructured.SetNestedField(infra.Object, "many", "spec", "providerIDList"); err != nil {
		t.Fatal(err)
	}
	p, _, err := newWorld(t, cluster(), machinePool(1), boot(), infra).reconcile()
	const want = "infrastructure: decode spec.providerIDList of HostPool p: json: cannot unmarshal string into Go value of type []string"
	if errText(err) != want {
		t.Errorf("error %v", err)
	}
	if got := cond(p, clusterv1.InfrastructureReadyCondition); got != "Unknown InternalError: "+want[len("infrastructure: "):] {
		t.Errorf("InfrastructureReady = %s", got)
	}
}
