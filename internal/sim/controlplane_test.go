// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

const controlPlane = "demo-control-plane"

// says writes conditions of the control plane to the story.
func says(t *testing.T, w *story, types ...string) {
	t.Helper()
	kcp := get(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{})
	for _, of := range types {
		c := conditions.Get(kcp, of)
		w.Record("KubeadmControlPlane %s: %s %s %s: %s", kcp.Name, of, c.Status, c.Reason, strings.ReplaceAll(transportText.ReplaceAllString(c.Message, "(its etcd does not answer)"), "\n", "\n  "))
	}
}

// transportText is gRPC's message about a member that does not answer, whose
// wording is not ours.
var transportText = regexp.MustCompile(`etcd of cluster .*`)

// members writes the names of the etcd members.
func members(t *testing.T, w *story) {
	t.Helper()
	secret := get(t, w, certs.SecretName("demo", certs.Etcd), &corev1.Secret{})
	ca, err := certs.FromSecret(secret, certs.Etcd)
	w.must(err)
	key := client.ObjectKey{Namespace: "default", Name: "demo"}
	config, err := w.clusters.Config(key)
	w.must(err)
	c, err := (&etcd.Dialer{Clock: w.Clock}).Connect(t.Context(), etcd.Target{Cluster: key.String(), Config: config, CA: ca, Nodes: []string{"demo-control-plane-1"}})
	w.must(err)
	list, err := c.Members(t.Context())
	w.must(errors.Join(err, c.Close()))
	for _, m := range list {
		w.Record("etcd member %s", m.Name)
	}
}

// markForRemediation sets the conditions that a MachineHealthCheck sets on a machine that must
// be replaced.
func markForRemediation(t *testing.T, w *story, name string) {
	t.Helper()
	w.Record("# a health check wants %s replaced", name)
	m := get(t, w, name, &clusterv1.Machine{})
	before := m.DeepCopy()
	for _, c := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		conditions.Set(m, w.Clock.Now(), metav1.Condition{Type: c, Status: metav1.ConditionFalse, Reason: "WaitingForRemediation"})
	}
	w.must(w.Mgmt.Status().Patch(t.Context(), m, client.MergeFrom(before)))
	w.Run()
}

// fault sets the faults of an existing machine.
func fault(t *testing.T, w *story, name string, faults ...infrav1.MachineFault) {
	t.Helper()
	what := "repair machine " + name
	if len(faults) > 0 {
		what = "fault of machine " + name + ": " + string(faults[0])
	}
	change(t, w, name, &infrav1.LocalMachine{}, what, func(m *infrav1.LocalMachine) { m.Spec.Simulated.Faults = faults })
}

// newMachines changes how machines of the control plane are from now on.
func newMachines(t *testing.T, w *story, what string, edit func(*infrav1.LocalMachineSimulated)) {
	t.Helper()
	change(t, w, controlPlane, &infrav1.LocalMachineTemplate{}, what, func(tmpl *infrav1.LocalMachineTemplate) { edit(tmpl.Spec.Template.Spec.Simulated) })
}

func neverBoot(s *infrav1.LocalMachineSimulated) {
	s.Faults = []infrav1.MachineFault{infrav1.MachineFaultNeverBoots}
}

func boot(s *infrav1.LocalMachineSimulated) { s.Faults = nil }

func scale(t *testing.T, w *story, replicas int32, what string) {
	t.Helper()
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, what, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Replicas = &replicas })
}

func TestAMachineOfAControlPlaneNeverJoins(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	newMachines(t, w, "let new machines never boot", neverBoot)
	scale(t, w, 3, "scale to 3")
	w.RunFor(10 * time.Minute)
	says(t, w, "Available", "ScalingUp", "MachinesReady")
	newMachines(t, w, "let new machines boot", boot)
	markForRemediation(t, w, "demo-control-plane-2")
	says(t, w, "Available", "ScalingUp", "Remediating")
	end(t, w)
	w.Golden("a-control-plane-machine-never-joins.txt")
}

func TestTheFirstMachineOfAControlPlaneNeverJoins(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 0, 0)
	newMachines(t, w, "let new machines never boot", neverBoot)
	scale(t, w, 3, "scale to 3")
	w.RunFor(5 * time.Minute)
	says(t, w, "Available", "ScalingUp")
	markForRemediation(t, w, "demo-control-plane-1")
	says(t, w, "Available", "ScalingUp", "Remediating")
	newMachines(t, w, "let new machines boot", boot)
	markForRemediation(t, w, "demo-control-plane-2")
	says(t, w, "Available", "ScalingUp", "Remediating")
	end(t, w)
	w.Golden("the-first-control-plane-machine-never-joins.txt")
}

func TestAnUpgradeThatFailsIsTakenBack(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	newMachines(t, w, "let new machines never boot", neverBoot)
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "upgrade to v1.36.4", func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Version = "v1.36.4" })
	w.RunFor(5 * time.Minute)
	says(t, w, "Available", "RollingOut", "ScalingDown")
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "go back to v1.36.3", func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Version = "v1.36.3" })
	says(t, w, "Available", "RollingOut", "ScalingDown")
	end(t, w)
	w.Golden("an-upgrade-that-fails-is-taken-back.txt")
}

func TestAnEtcdMemberIsDead(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	fault(t, w, "demo-control-plane-2", infrav1.MachineFaultEtcdUnhealthy)
	w.RunFor(15 * time.Second)
	says(t, w, "Available", "EtcdClusterHealthy", "ControlPlaneComponentsHealthy")
	scale(t, w, 5, "scale to 5")
	says(t, w, "ScalingUp")
	markForRemediation(t, w, "demo-control-plane-1")
	says(t, w, "Remediating")
	markForRemediation(t, w, "demo-control-plane-2")
	w.RunFor(15 * time.Second)
	says(t, w, "Available", "EtcdClusterHealthy", "Remediating", "ScalingUp")
	end(t, w)
	w.Golden("an-etcd-member-is-dead.txt")
}

func TestAnEtcdMemberBelongsToNoMachine(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	w.Record("# take Machine demo-control-plane-2 away, past its finalizer")
	m := get(t, w, "demo-control-plane-2", &clusterv1.Machine{})
	before := m.DeepCopy()
	m.Finalizers = nil
	w.must(w.Mgmt.Patch(t.Context(), m, client.MergeFrom(before)))
	w.must(w.Mgmt.Delete(t.Context(), m))
	members(t, w)
	w.Run()
	says(t, w, "Available", "EtcdClusterHealthy", "ScalingUp")
	members(t, w)
	end(t, w)
	w.Golden("an-etcd-member-belongs-to-no-machine.txt")
}

func TestTheSecondMachineOfAnUpgradeFails(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	newMachines(t, w, "let machines boot for a minute", func(s *infrav1.LocalMachineSimulated) { s.VM.StartupMilliseconds = new(int32(60_000)) })
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "upgrade to v1.36.4", func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Version = "v1.36.4" })
	w.must(w.Until(t.Context(), time.Hour, func() bool { return len(w.objects("LocalMachine")) == 4 && w.named(t, "demo-control-plane-5") }))
	fault(t, w, "demo-control-plane-5", infrav1.MachineFaultNeverBoots)
	w.RunFor(10 * time.Minute)
	says(t, w, "Available", "RollingOut", "ScalingDown", "MachinesUpToDate", "EtcdClusterHealthy")
	end(t, w)
	markForRemediation(t, w, "demo-control-plane-5")
	w.RunFor(10 * time.Minute)
	says(t, w, "Available", "RollingOut")
	end(t, w)
	w.Golden("the-second-machine-of-an-upgrade-fails.txt")
}

// named reports whether there is a Machine of that name.
func (s *story) named(t *testing.T, name string) bool {
	t.Helper()
	for _, m := range s.objects("Machine") {
		if m.GetName() == name {
			return true
		}
	}
	return false
}

func TestAControlPlaneIsScaledDownWhileOneMachineIsNotReady(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 5, 0)
	fault(t, w, "demo-control-plane-3", infrav1.MachineFaultAPIServerHangs)
	w.RunFor(time.Minute)
	scale(t, w, 3, "scale to 3")
	w.RunFor(10 * time.Minute)
	says(t, w, "Available", "ScalingDown")
	change(t, w, "demo-control-plane-3", &clusterv1.Machine{}, "say that demo-control-plane-3 is to go first", func(m *clusterv1.Machine) {
		m.Annotations[clusterv1.DeleteMachineAnnotation] = ""
	})
	says(t, w, "Available", "ScalingDown")
	fault(t, w, "demo-control-plane-4", infrav1.MachineFaultNodeNotReady)
	scale(t, w, 1, "scale to 1: a Node that is not ready keeps no machine whose components are healthy")
	w.RunFor(10 * time.Minute)
	says(t, w, "Available", "ScalingDown")
	end(t, w)
	w.Golden("a-control-plane-is-scaled-down-with-one-not-ready.txt")
}

func TestRemediationIsRetried(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "allow 2 retries, 5 minutes apart, and count again after an hour", func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Remediation = controlplanev1.KubeadmControlPlaneRemediationSpec{
			MaxRetry: new(int32(2)), RetryPeriodSeconds: new(int32(300)), MinHealthyPeriodSeconds: new(int32(3600)),
		}
	})
	newMachines(t, w, "let new machines never boot", neverBoot)
	markForRemediation(t, w, "demo-control-plane-2")
	for _, next := range []string{"demo-control-plane-4", "demo-control-plane-5", "demo-control-plane-6"} {
		w.RunFor(time.Minute)
		markForRemediation(t, w, next)
		says(t, w, "Remediating")
		w.RunFor(3 * time.Minute)
		says(t, w, "Remediating")
		w.RunFor(time.Minute)
	}
	says(t, w, "Available", "Remediating")
	newMachines(t, w, "let new machines boot", boot)
	w.RunFor(54 * time.Minute)
	says(t, w, "Remediating")
	w.RunFor(time.Minute)
	says(t, w, "Available", "Remediating")
	end(t, w)
	w.Golden("remediation-is-retried.txt")
}

// TestMachinesAreReplacedBeforeTheirCertificatesEnd shows that the time need not be
// configured: it is read from the certificates of the API servers.
func TestMachinesAreReplacedBeforeTheirCertificatesEnd(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	ends := func() {
		for _, obj := range w.objects("Machine") {
			m := obj.(*clusterv1.Machine)
			w.Record("Machine %s: its certificates end in %s", m.Name, m.Status.CertificatesExpiryDate.Sub(w.Clock.Now()))
		}
	}
	ends()
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "certificates for two days, machines replaced a day before they end", func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.CertificateValidityPeriodDays = 2
		kcp.Spec.Rollout.Before.CertificatesExpiryDays = 1
	})
	ends()
	w.Record("# 23h50m0s pass at once")
	w.Clock.SetTime(w.Clock.Now().Add(23*time.Hour + 50*time.Minute))
	w.RunFor(9 * time.Minute)
	ends()
	w.RunFor(2 * time.Minute)
	ends()
	end(t, w)
	w.Golden("certificates-are-about-to-end.txt")
}
