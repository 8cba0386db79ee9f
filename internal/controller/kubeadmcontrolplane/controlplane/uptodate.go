// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// Comparison says whether a machine matches the spec, and if not, why.
type Comparison struct {
	UpToDate bool
	Why      []string // one sentence each, without a period
}

// Reasons by which time alone makes a machine outdated: only a new machine solves them.
const (
	certificatesDue = "KubeadmControlPlane spec.rollout.before expired"
	rolloutIsDue    = "KubeadmControlPlane spec.rollout.after expired"
)

var dueReasons = []string{certificatesDue, rolloutIsDue}

// Compare compares a machine with the spec.
//
// A machine is replaced when its version, its infrastructure template or its bootstrap
// config differ, when its certificates are about to expire, or when spec.rollout.after
// has passed since its creation. A missing object is never a reason: a user may have
// deleted it, and a replacement would make it worse. Labels, annotations, timeouts,
// taints and readiness gates follow in place.
func Compare(kcp *controlplanev1.KubeadmControlPlane, m *Machine, now time.Time) Comparison {
	var v Comparison
	if kcp.Spec.Rollout.Before.CertificatesExpiryDays > 0 && ending(kcp, m, now) {
		v.Why = append(v.Why, certificatesDue)
	}
	if rollout.Overdue(kcp.Spec.Rollout.After, m.CreationTimestamp, now) {
		v.Why = append(v.Why, rolloutIsDue)
	}
	if m.Spec.Version != kcp.Spec.Version {
		v.Why = append(v.Why, fmt.Sprintf("Version %s, %s required", m.Spec.Version, kcp.Spec.Version))
	}
	if m.Config != nil && !SameConfig(kcp, m.Config.Spec) {
		v.Why = append(v.Why, "KubeadmConfig is not up-to-date")
	}
	if m.Source != nil && *m.Source != wantedSource(kcp) {
		v.Why = append(v.Why, m.Spec.InfrastructureRef.Kind+" is not up-to-date")
	}
	v.UpToDate = len(v.Why) == 0
	return v
}

// ending reports whether the certificates of a machine have expired, as far as is known,
// or will within the number of days in the spec.
func ending(kcp *controlplanev1.KubeadmControlPlane, m *Machine, now time.Time) bool {
	expiry := m.Status.CertificatesExpiryDate
	return !expiry.IsZero() && !now.Before(expiry.AddDate(0, 0, -int(kcp.Spec.Rollout.Before.CertificatesExpiryDays)))
}

// Undated are the machines for which no expiry of their certificates is recorded, and
// whose API server is ready. The expiry is recorded on the KubeadmConfig from which the
// certificates were created: the machine gets no others unless a user renews them on it.
func Undated(f Facts) []*Machine {
	return f.askable(func(m *Machine, noted string) bool { return noted == "" })
}

// Ending are the machines whose certificates end according to the record. They are
// checked again before an action, because a user may have renewed them. An expiry that a
// user set on the Machine is not checked.
func Ending(f Facts) []*Machine {
	return f.askable(func(m *Machine, noted string) bool {
		return noted != "" && m.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] == "" && ending(f.ControlPlane, m, f.Now)
	})
}

// askable are the machines whose API server is ready, filtered by the expiry recorded on
// their KubeadmConfig; noted is empty if there is none.
func (f Facts) askable(is func(m *Machine, noted string) bool) (all []*Machine) {
	for _, m := range f.Machines {
		if m.Config == nil || m.Deleting() || !is(m, m.Config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]) {
			continue
		}
		if p := f.Workload.Pods["kube-apiserver-"+m.Node()]; p != nil && p.Status.Phase == corev1.PodRunning && podReady(p) {
			all = append(all, m)
		}
	}
	return all
}

// APIServerPort is the port of the API server that kubeadm configures on a machine.
func APIServerPort(config bootstrapv1.KubeadmConfigSpec) int {
	port := config.InitConfiguration.LocalAPIEndpoint.BindPort
	if joined := config.JoinConfiguration.ControlPlane; joined != nil {
		port = cmp.Or(joined.LocalAPIEndpoint.BindPort, port)
	}
	return int(cmp.Or(port, 6443))
}

// rolloutDue is when time alone will make a machine outdated; zero if it never will.
func rolloutDue(kcp *controlplanev1.KubeadmControlPlane, machines []*Machine, now time.Time) (due time.Time) {
	consider := func(t time.Time) {
		if t.After(now) && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if after := kcp.Spec.Rollout.After; !after.IsZero() && len(machines) > 0 {
		consider(after.Time)
	}
	for _, m := range machines { // without rollout.before, the expiry is when to check for renewal
		if expiry := m.Status.CertificatesExpiryDate; !expiry.IsZero() {
			consider(expiry.AddDate(0, 0, -int(kcp.Spec.Rollout.Before.CertificatesExpiryDays)))
		}
	}
	return due
}

func wantedSource(kcp *controlplanev1.KubeadmControlPlane) Source {
	ref := kcp.Spec.MachineTemplate.Spec.InfrastructureRef
	return Source{Name: ref.Name, GroupKind: schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}.String()}
}

// Message returns the reasons as the message of a condition.
func (v Comparison) Message() string {
	if len(v.Why) == 0 {
		return ""
	}
	return "* " + strings.Join(v.Why, "\n* ")
}

// Adoptable returns why a control plane cannot adopt a machine that it does not control;
// nil if it can.
//
//   - The machine has no other controller.
//   - The machine must have been created by kubeadm, or later actions on it would not
//     work: it refers to a KubeadmConfig, which exists.
//   - Its version is at most one minor from the control plane's: with a greater
//     difference, etcd and API servers cannot run side by side while one replaces the
//     other.
func Adoptable(kcp *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine, config *bootstrapv1.KubeadmConfig) error {
	if by := metav1.GetControllerOf(m); by != nil {
		return fmt.Errorf("Machine %s has another controller, %s %s: delete it, or remove that owner", m.Name, by.Kind, by.Name) // a kind's name
	}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.APIGroup != bootstrapv1.GroupVersion().Group || ref.Kind != "KubeadmConfig" {
		return fmt.Errorf("spec.bootstrap.configRef of Machine %s must name a KubeadmConfig: it names %s %q", m.Name, ref.Kind, ref.Name)
	}
	if config == nil {
		return fmt.Errorf("KubeadmConfig %s of Machine %s does not exist: restore it, or delete the Machine", m.Spec.Bootstrap.ConfigRef.Name, m.Name)
	}
	theirs, err := version.ParseSemantic(m.Spec.Version)
	if err != nil {
		return fmt.Errorf("spec.version of Machine %s: %w", m.Name, err)
	}
	ours, err := version.ParseSemantic(kcp.Spec.Version)
	if err != nil {
		return fmt.Errorf("spec.version %q: %w", kcp.Spec.Version, err)
	}
	if skew := int(theirs.Minor()) - int(ours.Minor()); theirs.Major() != ours.Major() || skew < -1 || skew > 1 {
		return fmt.Errorf("spec.version of Machine %s is %s, more than one minor version from %s: set spec.version of the control plane to that of its machines first", m.Name, m.Spec.Version, kcp.Spec.Version)
	}
	return nil
}
