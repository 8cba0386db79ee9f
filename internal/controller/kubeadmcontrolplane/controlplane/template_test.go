// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// templated is a control plane with all that its machines take from it.
func templated(change ...func(*controlplanev1.KubeadmControlPlane)) *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp", UID: "uid"}}
	kcp.Spec.Version = "v1.36.0"
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://e"}
	mt := &kcp.Spec.MachineTemplate
	mt.ObjectMeta = clusterv1.ObjectMeta{
		Labels:      map[string]string{"app": "x", clusterv1.MachineControlPlaneNameLabel: "forged"},
		Annotations: map[string]string{"note": "1"},
	}
	mt.Spec.Taints = []clusterv1.MachineTaint{{Key: "t"}}
	mt.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(5))
	mt.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}, {ConditionType: controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition}}
	for _, f := range change {
		f(kcp)
	}
	return kcp
}

func TestMachineTemplate(t *testing.T) {
	t.Parallel()
	want := machinetemplate.Template{
		Maker:       metav1.OwnerReference{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "cp", UID: "uid"},
		Namespace:   "ns",
		Labels:      map[string]string{"app": "x", clusterv1.ClusterNameLabel: "c", clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineControlPlaneNameLabel: "cp"},
		Annotations: map[string]string{"note": "1"},
		Own:         map[string]string{controlplanev1.PreTerminateHookCleanupAnnotation: "", controlplanev1.RemediationForAnnotation: "record"},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c", Version: "v1.36.0", Taints: []clusterv1.MachineTaint{{Key: "t"}},
			Deletion: clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: new(int32(5))},
			ReadinessGates: []clusterv1.MachineReadinessGate{
				{ConditionType: controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition},
				{ConditionType: controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition},
				{ConditionType: controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition},
				{ConditionType: controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition},
				{ConditionType: "Gate"},
			},
		},
	}
	kcp := templated(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations = map[string]string{controlplanev1.RemediationInProgressAnnotation: "record"}
	})
	before := kcp.DeepCopy()
	if diff := cmp.Diff(want, MachineTemplate(kcp, "c")); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, kcp); diff != "" {
		t.Errorf("the control plane has changed (-want +got):\n%s", diff)
	}
}

func TestAMachineKeepsWhatIsAboutItAlone(t *testing.T) {
	t.Parallel()
	kcp := templated(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations = map[string]string{controlplanev1.RemediationInProgressAnnotation: "for another machine"}
	})
	m := MachineTemplate(templated(), "c").Machine("m")
	m.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] = "2027-01-01T00:00:00Z"
	m.Spec.MinReadySeconds = new(int32(3))
	if of := TemplateOf(kcp, "c", m); !of.InStep(m) {
		t.Errorf("annotations wanted %v, there are %v; minReadySeconds wanted %v", of.Own, m.Annotations, of.Spec.MinReadySeconds)
	}
	delete(m.Annotations, controlplanev1.PreTerminateHookCleanupAnnotation)
	to, err := TemplateOf(kcp, "c", m).Follow(m, "us")
	if err != nil {
		t.Fatal(err)
	}
	if _, hooked := to.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; !hooked {
		t.Error("the removed hook does not come back")
	}
}

func TestReadinessGatesAreLimited(t *testing.T) {
	t.Parallel()
	kcp := templated(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.ReadinessGates = nil
		for i := range MaxReadinessGates {
			kcp.Spec.MachineTemplate.Spec.ReadinessGates = append(kcp.Spec.MachineTemplate.Spec.ReadinessGates, clusterv1.MachineReadinessGate{ConditionType: fmt.Sprint("Own", i)})
		}
	})
	gates := MachineTemplate(kcp, "c").Spec.ReadinessGates
	if len(gates) != 32 || gates[0].ConditionType != controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition || gates[31].ConditionType != "Own27" {
		t.Errorf("%d gates: %v", len(gates), gates)
	}
	_, blocked := Facts{ControlPlane: kcp, Cluster: &clusterv1.Cluster{}}.create(Create{})
	if want := "spec.machineTemplate.spec.readinessGates has 4 more than a Machine can have in addition to those of its components: remove some"; !slices.Contains(blocked, want) {
		t.Errorf("blocked by %q", blocked)
	}
}
