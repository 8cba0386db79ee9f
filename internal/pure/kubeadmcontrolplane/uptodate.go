// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// Verdict says whether a machine is as the spec wants it, and if not, why.
type Verdict struct {
	UpToDate bool
	Why      []string // one sentence each, without a period
}

// Why the passing of time makes a machine outdated: only a new one helps then.
const (
	certificatesDue = "KubeadmControlPlane spec.rollout.before expired"
	rolloutIsDue    = "KubeadmControlPlane spec.rollout.after expired"
)

var dueReasons = []string{certificatesDue, rolloutIsDue}

// Judge compares a machine with the spec.
//
// A machine is replaced when its version, its infrastructure template or its
// bootstrap config differ, when its certificates are about to expire, or when
// spec.rollout.after has passed since it was made. What is not there is never
// a reason: someone may have deleted it by hand, and a replacement would make
// it worse. Labels, annotations, timeouts, taints and readiness gates follow
// in place.
func Judge(kcp *controlplanev1.KubeadmControlPlane, m *Machine, now time.Time) Verdict {
	var v Verdict
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

// ending reports whether the certificates of a machine end, as far as is known, or
// will within the days that the spec gives.
func ending(kcp *controlplanev1.KubeadmControlPlane, m *Machine, now time.Time) bool {
	expiry := m.Status.CertificatesExpiryDate
	return !expiry.IsZero() && !now.Before(expiry.AddDate(0, 0, -int(kcp.Spec.Rollout.Before.CertificatesExpiryDays)))
}

// Undated are the machines of which nobody has said when their certificates end,
// and whose API server can be asked. It is said on the KubeadmConfig that the
// certificates were made by: unless somebody renews them on the machine, it gets
// no others.
func Undated(f Facts) []*Machine {
	return f.askable(func(m *Machine, noted string) bool { return noted == "" })
}

// Ending are the machines whose certificates end by what was noted, so that they
// are looked at again before that is acted on: somebody may have renewed them.
// What a user has noted on the Machine stands.
func Ending(f Facts) []*Machine {
	return f.askable(func(m *Machine, noted string) bool {
		return noted != "" && m.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] == "" && ending(f.ControlPlane, m, f.Now)
	})
}

// askable are the machines whose API server can be asked, by when their
// certificates end as it is noted on their KubeadmConfig; empty for not at all.
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

// APIServerPort is where kubeadm has the API server of a machine listen.
func APIServerPort(config bootstrapv1.KubeadmConfigSpec) int {
	port := config.InitConfiguration.LocalAPIEndpoint.BindPort
	if joined := config.JoinConfiguration.ControlPlane; joined != nil {
		port = cmp.Or(joined.LocalAPIEndpoint.BindPort, port)
	}
	return int(cmp.Or(port, 6443))
}

// rolloutDue is when the passing of time alone will make a machine outdated;
// zero if it never will.
func rolloutDue(kcp *controlplanev1.KubeadmControlPlane, machines []*Machine, now time.Time) (due time.Time) {
	consider := func(t time.Time) {
		if t.After(now) && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if after := kcp.Spec.Rollout.After; !after.IsZero() && len(machines) > 0 {
		consider(after.Time)
	}
	for _, m := range machines { // without a rollout.before it is looked whether they were renewed
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

// Message is the verdict as the message of a condition.
func (v Verdict) Message() string {
	if len(v.Why) == 0 {
		return ""
	}
	return "* " + strings.Join(v.Why, "\n* ")
}

// Adoptable says why a control plane cannot take over a machine that nobody
// controls; nil if it can.
//
//   - It must have been made by kubeadm, or nothing that is done to it later fits:
//     it refers to a KubeadmConfig, which is there.
//   - Its version is at most one minor from the control plane's: etcd and API
//     servers of others cannot work side by side while one replaces the other.
func Adoptable(kcp *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine, config *bootstrapv1.KubeadmConfig) error {
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
