// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/causes"
)

// fault is a patch of an object of a cluster, and the cause that it is.
type fault struct {
	object func(f fleet) client.Object
	patch  string
	remove bool // after the patch
	want   causes.Link
}

// faultsOf are faults of a cluster "demo" whose machines are of a kind.
func faultsOf(machine string) map[string]fault {
	workers := func(fleet) client.Object {
		return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "demo-workers"}}
	}
	return map[string]fault{
		"paused cluster": {object: func(fleet) client.Object { return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}} },
			patch: `{"spec":{"paused":true}}`,
			want:  causes.Link{Object: causes.Key{Kind: "Cluster", Name: "demo"}, Condition: "Paused"}},
		"missing template": {object: workers,
			patch: `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"missing"}}}}}`,
			want:  causes.Link{Object: causes.Key{Kind: machine + "Template", Name: "missing"}, Condition: "Missing"}},
		"version above control plane": {object: workers,
			patch: `{"spec":{"template":{"spec":{"version":"v1.38.0"}}}}`,
			want:  causes.Link{Object: causes.Key{Kind: "MachineSet"}, Condition: clusterv1.MachineSetScalingUpCondition}},
		"hook annotation": {object: workerMachine,
			patch: `{"metadata":{"annotations":{"pre-drain.delete.hook.machine.cluster.x-k8s.io/backup":"x"}}}`, remove: true,
			want: causes.Link{Object: causes.Key{Kind: "Machine"}, Condition: clusterv1.MachineDeletingCondition}},
		"broken CA key": {object: func(fleet) client.Object { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-ca"}} },
			patch: `{"data":{"tls.key":"Z2FyYmFnZQ=="}}`,
			want:  causes.Link{Object: causes.Key{Kind: "KubeadmControlPlane", Name: "demo-control-plane"}, Condition: controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition}},
	}
}

// TestWhyNamesCauseOfFault causes a fault in a cluster each and requires the explanation of
// the Cluster to name it first.
func TestWhyNamesCauseOfFault(t *testing.T) {
	t.Parallel()
	for name, tc := range faultsOf("LocalMachine") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.create("demo", shape{workers: 1, version: "v1.36.3"})
			f.whyNames(tc)
		})
	}
}

// whyNames causes a fault in cluster "demo", and waits until its explanation names it first.
func (f fleet) whyNames(tc fault) {
	f.Helper()
	c, err := clusterctl.New(f.Config)
	f.must(err)
	f.becomes("demo")
	key := causes.Key{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Namespace: f.Namespace, Name: "demo"}
	f.eventually(func() error {
		if r, err := c.Why(f.Context(), key); err != nil || len(r.Causes) > 0 {
			return fmt.Errorf("before the fault: %+v, %w", r, err)
		}
		return nil
	})
	obj := tc.object(f)
	obj.SetNamespace(f.Namespace)
	f.must(f.Client.Patch(f.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(tc.patch))))
	if tc.remove {
		f.must(f.Client.Delete(f.Context(), obj))
	}
	f.eventually(func() error {
		r, err := c.Why(f.Context(), key)
		if err != nil || !r.Certain {
			return fmt.Errorf("no cause: %+v, %w", r, err)
		}
		got := r.Causes[0].Chain[0]
		if got.Object.Kind != tc.want.Object.Kind || got.Condition != tc.want.Condition || tc.want.Object.Name != "" && got.Object.Name != tc.want.Object.Name {
			return fmt.Errorf("the first cause is %+v, want %+v", got, tc.want)
		}
		return nil
	})
}

// workerMachine is a Machine of the cluster that is not of its control plane.
func workerMachine(f fleet) client.Object {
	machines, err := f.machines("demo")
	f.must(err)
	for i := range machines {
		if _, controlPlane := machines[i].Labels[clusterv1.MachineControlPlaneLabel]; !controlPlane {
			return &machines[i]
		}
	}
	f.Fatal("the cluster has no worker")
	return nil
}
