// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// wantWrites reconciles once and checks the writes to Machines.
func (l *lab) wantWrites(failure string, want ...string) {
	l.Helper()
	l.wrote = nil
	if _, err := l.once(); (err == nil) != (failure == "") || err != nil && err.Error() != failure {
		l.Errorf("error %v, want %q", err, failure)
	}
	if diff := cmp.Diff(want, l.wrote); diff != "" {
		l.Errorf("writes on Machines (-want +got)\n%s", diff)
	}
}

func TestAMachineIsWrittenOnceBeforeItIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.serving("kube-scheduler", "cp-2", "cp-3")
	l.markForRemediation("cp-1")
	l.etcd.deaf = true
	failure := "remediate: Machine cp-1: no other member could take the leadership of etcd: etcd does not listen\netcd does not listen"
	l.wantWrites(failure, "patch status of cp-1")
	l.want(l.machines()[0], "OwnerRemediated False InternalError", "SchedulerPodHealthy False Failed")
	l.wantWrites(failure)
	l.etcd.deaf = false
	l.wantWrites("", "patch status of cp-1", "delete cp-1")
	l.want(l.machines()[0], "OwnerRemediated False MachineDeleting", "SchedulerPodHealthy False Failed")
	l.want(l.controlPlane(), "Remediating True Remediating")
}

func TestObservationsAreReportedEvenIfPhaseFails(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.serving("kube-scheduler", "cp-2", "cp-3")
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Annotations = map[string]string{controlplanev1.RemediationInProgressAnnotation: "x"}
	})
	if _, err := l.once(); err == nil {
		t.Error("rubbish in the annotation is no error")
	}
	l.want(l.machines()[0], "SchedulerPodHealthy False Failed", "UpToDate True UpToDate")
	l.want(l.controlPlane(), "ControlPlaneComponentsHealthy False NotHealthy", "Available True Available")
}

func TestTheFirstReportOfAMachineIsOneWrite(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.settle()
	l.stuck["cp-2"] = true
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = new(int32(3)) })
	l.wantWrites("", "create cp-2")
	l.wantWrites("") // it has no Node
	l.boot(l.machines()[1])
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: "kube-system", Name: "kube-scheduler-node-cp-2"}
	l.must(l.inside.Get(t.Context(), key, pod))
	l.must(l.inside.Delete(t.Context(), pod))
	l.wantWrites("") // not all of its components are up
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(7))
	})
	l.wantWrites("", "patch cp-1", "patch cp-2") // changes outside the status are not delayed
	if c := conditions.Get(l.machines()[1], clusterv1.MachineUpToDateCondition); c != nil {
		t.Errorf("it is reported already: %+v", c)
	}
	l.want(l.controlPlane(), "Available True Available", "ControlPlaneComponentsHealthy False NotHealthy")
	pod.ResourceVersion = ""
	l.must(l.inside.Create(t.Context(), pod))
	l.wantWrites("", "create cp-3", "patch status of cp-2")
	l.want(l.machines()[1], "SchedulerPodHealthy True Running", "UpToDate True UpToDate")
}

// told returns the conditions for clients of v1beta1.
func (l *lab) told() []string {
	l.Helper()
	d := l.controlPlane().Status.Deprecated
	if d == nil {
		return nil
	}
	return builder.Deprecated(d.V1Beta1.Conditions)
}

func TestReportSetsV1Beta1Status(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.refuse = func(client.Object) error { return errors.New("quota") }
	for range 2 { // the next attempt has another name, which is no change of the status
		if _, err := l.once(); err == nil {
			t.Error("nothing can be made, and no error")
		}
	}
	l.refuse = func(obj client.Object) error {
		if _, is := obj.(*corev1.Secret); !is {
			return errors.New("quota")
		}
		return nil
	}
	var writes []int
	for range 3 {
		if _, err := l.once(); err == nil {
			t.Error("no machine can be made, and no error")
		}
		writes = append(writes, l.writes)
	}
	failed := "False Error BootstrapTemplateCloningFailed: create KubeadmConfig ns/*: quota"
	want := []string{
		"Ready " + failed, "Available False Info WaitingForKubeadmInit", "CertificatesAvailable True", "MachinesCreated " + failed,
		"MachinesReady True", "MachinesSpecUpToDate True", "Resized False Warning ScalingUp: Scaling up control plane to 1 replicas (actual 0)",
	}
	if diff := cmp.Diff(want, l.told()); diff != "" {
		t.Errorf("while none can be made (-want +got)\n%s", diff)
	}
	if attempt := writes[2] - writes[1]; attempt != 1 {
		t.Errorf("%d writes for an attempt, want that of the KubeadmConfig", attempt)
	}
	l.refuse = nil
	l.settle()
	want = []string{
		"Ready True", "Available True", "CertificatesAvailable True", "ControlPlaneComponentsHealthy True", "EtcdClusterHealthy True",
		"MachinesCreated True", "MachinesReady True", "MachinesSpecUpToDate True", "Resized True",
	}
	if diff := cmp.Diff(want, l.told()); diff != "" {
		t.Errorf("in steady state (-want +got)\n%s", diff)
	}
	if st := l.controlPlane().Status.Deprecated.V1Beta1; st.UpdatedReplicas != 1 || st.ReadyReplicas != 1 || st.UnavailableReplicas != 0 {
		t.Errorf("counters %+v", st)
	}
	want = []string{"Ready True", "APIServerPodHealthy True", "ControllerManagerPodHealthy True", "EtcdMemberHealthy True", "EtcdPodHealthy True", "SchedulerPodHealthy True"}
	if diff := cmp.Diff(want, builder.Deprecated(v1beta1conditions.OfMachine(l.machines()[0]).Conditions)); diff != "" {
		t.Errorf("its machine (-want +got)\n%s", diff)
	}
}

func TestV1Beta1StatusIsEmptyIfDisabled(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.Deprecated = false
	l.stuck["cp-1"] = true
	l.settle()
	if got := l.told(); got != nil {
		t.Errorf("the control plane reports %q", got)
	}
	l.boot(l.machines()[0])
	l.settle()
	if diff := cmp.Diff([]string{"Ready True"}, builder.Deprecated(v1beta1conditions.OfMachine(l.machines()[0]).Conditions)); diff != "" {
		t.Errorf("its machine (-want +got)\n%s", diff)
	}
}
