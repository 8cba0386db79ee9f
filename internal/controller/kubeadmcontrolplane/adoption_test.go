// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// orphaned returns a lab whose control plane has machines without a controller, and
// was never initialized itself: as if the machines had been created one at a time
// by hand.
func orphaned(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, 3)
	l.settle()
	for _, m := range l.machines() {
		before := m.DeepCopy()
		m.OwnerReferences = nil
		l.must(l.Mgmt.Patch(l.Context(), m, client.MergeFrom(before)))
	}
	kcp := l.controlPlane()
	before := kcp.DeepCopy()
	kcp.Status = controlplanev1.KubeadmControlPlaneStatus{}
	l.must(l.Mgmt.Status().Patch(l.Context(), kcp, client.MergeFrom(before)))
	l.Forget(client.ObjectKeyFromObject(kcp))
	l.said = nil
	return l
}

// keepers returns the controllers of the machines.
func (l *lab) keepers() (all []string) {
	l.Helper()
	for _, m := range l.machines() {
		keeper := "unowned"
		if ref := metav1.GetControllerOfNoCopy(m); ref != nil {
			keeper = ref.Kind + " " + ref.Name
		}
		all = append(all, keeper)
	}
	return all
}

func (l *lab) secret(name string) *corev1.Secret {
	l.Helper()
	s := &corev1.Secret{}
	l.must(l.Mgmt.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s))
	return s
}

func TestUnownedMachinesAreAdopted(t *testing.T) {
	t.Parallel()
	l := orphaned(t)
	// The first machine's KubeadmConfig owns the CA, as if it would be deleted with
	// it.
	config := &bootstrapv1.KubeadmConfig{}
	l.must(l.Mgmt.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: "cp-1"}, config))
	ca := l.secret("demo-ca")
	before, cert := ca.DeepCopy(), string(ca.Data["tls.crt"])
	ref, err := owner.Controller(config, l.Mgmt)
	l.must(err)
	ca.OwnerReferences = []metav1.OwnerReference{ref}
	l.must(l.Mgmt.Patch(l.Context(), ca, client.MergeFrom(before)))
	l.settle()
	if diff := cmp.Diff([]string{"KubeadmControlPlane cp", "KubeadmControlPlane cp", "KubeadmControlPlane cp"}, l.keepers()); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"adopt [cp-1 cp-2 cp-3]: they have no controller"}, l.said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	ca = l.secret("demo-ca")
	if ref := metav1.GetControllerOfNoCopy(ca); ref == nil || ref.Kind != "KubeadmControlPlane" || len(ca.OwnerReferences) != 1 || string(ca.Data["tls.crt"]) != cert {
		t.Errorf("the CA is now of %+v, and the same: %v", ca.OwnerReferences, string(ca.Data["tls.crt"]) == cert)
	}
	l.want(l.controlPlane(), "Initialized True Initialized", "Available True Available")
}

func TestMachinesAreAdoptedTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*lab)
		want   string
	}{
		"because of a version": {func(l *lab) {
			l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.37.0" })
		}, "spec.version of Machine cp-1 is v1.35.0, more than one minor version from v1.37.0"},
		"because of a certificate": {func(l *lab) { l.must(l.Mgmt.Delete(l.Context(), l.secret("demo-etcd"))) },
			"secret ns/demo-etcd does not exist, and the cluster was made with what it held: restore it"},
		"because of a KubeadmConfig": {func(l *lab) {
			l.must(l.Mgmt.Delete(l.Context(), &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cp-2"}}))
		}, "KubeadmConfig cp-2 of Machine cp-2 does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := orphaned(t)
			tc.change(l)
			_, err := l.once()
			if got := fmt.Sprint(err, "; ", conditions.Message(l.controlPlane(), "CertificatesAvailable")); !strings.Contains(got, tc.want) {
				t.Errorf("error and certificates: %s, want %q", got, tc.want)
			}
			if diff := cmp.Diff([]string{"unowned", "unowned", "unowned"}, l.keepers()); diff != "" {
				t.Errorf("controllers (-want +got):\n%s", diff)
			}
			var secrets corev1.SecretList
			l.must(l.Mgmt.List(l.Context(), &secrets))
			for _, s := range secrets.Items {
				if s.CreationTimestamp.After(l.machines()[0].CreationTimestamp.Time) {
					t.Errorf("Secret %s was made for a cluster that has its own", s.Name)
				}
			}
		})
	}
}

// TestAMachineThatLostItsOwnerIsAdopted: the others still have theirs. One of another
// owner stays with its etcd member, and stops the control plane.
func TestAMachineThatLostItsOwnerIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	owned := func(by ...metav1.OwnerReference) {
		m := l.machines()[1]
		before := m.DeepCopy()
		m.OwnerReferences = by
		l.must(l.Mgmt.Patch(t.Context(), m, client.MergeFrom(before)))
	}
	owned()
	l.settle()
	if diff := cmp.Diff([]string{"KubeadmControlPlane cp", "KubeadmControlPlane cp", "KubeadmControlPlane cp"}, l.keepers()); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
	owned(metav1.OwnerReference{APIVersion: controlplanev1.GroupVersion().String(), Kind: kind, Name: "other", UID: "other", Controller: new(true)})
	const want = "adopt machines: Machine cp-2 has another controller, KubeadmControlPlane other: delete it"
	if _, err := l.once(); err == nil || !strings.Contains(err.Error(), want) || len(l.etcd.log) > 0 {
		t.Errorf("error %v, want %q; etcd %q", err, want, l.etcd.log)
	}
}

func TestReconcileWaitsForDeletedUnownedMachines(t *testing.T) {
	t.Parallel()
	l := orphaned(t)
	for _, m := range l.machines() {
		l.must(l.Mgmt.Delete(l.Context(), m))
	}
	if res, err := l.once(); err != nil || res.RequeueAfter != repairInterval || len(l.said) > 0 {
		t.Errorf("requeues after %s, error %v, events %q; want it to wait", res.RequeueAfter, err, l.said)
	}
}

// TestAMachineThatLostItsLabelIsKept checks that its etcd member is not removed as one
// without a machine, and that no other machine takes its place.
func TestAMachineThatLostItsLabelIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	m := l.machines()[0]
	delete(m.Labels, clusterv1.MachineControlPlaneLabel)
	l.must(l.Mgmt.Update(l.Context(), m))
	l.settle()
	var all clusterv1.MachineList
	l.must(l.Mgmt.List(l.Context(), &all))
	if len(all.Items) != 3 || len(l.machines()) != 3 || len(l.etcd.log) > 0 {
		t.Errorf("%d machines, %d of them with the label, etcd %q", len(all.Items), len(l.machines()), l.etcd.log)
	}
}
