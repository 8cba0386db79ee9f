// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

var now = time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)

// machine builds a healthy machine named by the first word, changed by the others:
//
//	old outdated · failing component not healthy · nomember etcd member not healthy
//	bare no Node · going being deleted · marked to be deleted first · in=DOMAIN
//	unhealthy marked for replacement by a health check
//	held by this controller's hook · drained up to the hooks (and going, and held) · hooked by another hook too
//	new nothing was reported yet
//	down an earlier process reported that the state of its components is unknown
//	lost its etcd member does not exist (in facts)
func machine(words string) *Machine {
	f := strings.Fields(words)
	m := &Machine{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: f[0], Annotations: map[string]string{}}}, Comparison: Comparison{UpToDate: true}}
	m.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(f[0][0]) * time.Minute).Add(-24 * time.Hour))
	m.Status.NodeRef.Name = f[0]
	for _, t := range ComponentConditions(true) {
		set(m, t, metav1.ConditionTrue)
	}
	set(m, controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition, metav1.ConditionTrue)
	for _, w := range f[1:] {
		switch domain, ok := strings.CutPrefix(w, "in="); {
		case ok:
			m.Spec.FailureDomain = domain
		case w == "old":
			m.Comparison = Comparison{Why: []string{"old"}}
		case w == "failing":
			set(m, "APIServerPodHealthy", metav1.ConditionFalse)
		case w == "nomember":
			set(m, "EtcdMemberHealthy", metav1.ConditionFalse)
		case w == "bare":
			m.Status.NodeRef.Name = ""
		case w == "going":
			m.DeletionTimestamp = &metav1.Time{Time: now}
		case w == "marked":
			m.Annotations[clusterv1.DeleteMachineAnnotation] = ""
		case w == "chosen":
			m.Annotations[clusterv1.RemediateMachineAnnotation] = ""
		case w == "down":
			for _, c := range reported(true) {
				conditions.Delete(m.Machine, c)
				report(m, metav1.Condition{Type: c, Status: metav1.ConditionUnknown, Reason: clusterv1.ConnectionDownReason, Message: "before"})
			}
		case w == "new":
			m.SetConditions(nil)
			m.Reported, m.Health = nil, nil
		case w == "held":
			m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation] = ""
		case w == "drained":
			m.DeletionTimestamp = &metav1.Time{Time: now}
			m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation] = ""
			report(m, metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingWaitingForPreTerminateHookReason})
		case w == "hooked":
			m.Annotations[clusterv1.PreTerminateDeleteHookAnnotationPrefix+"/x"] = ""
		case w == "lost":
			m.Labels = map[string]string{w: ""}
		case w == "unhealthy":
			set(m, clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse)
			set(m, clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
		default:
			panic("unknown word " + w)
		}
	}
	return m
}

func set(m *Machine, t string, status metav1.ConditionStatus) {
	report(m, metav1.Condition{Type: t, Status: status, Reason: "X"})
}

// report lets a machine have a condition already, an hour old.
func report(m *Machine, c metav1.Condition) {
	conditions.Set(m.Machine, now.Add(-time.Hour), c)
	m.Reported, m.Health = m.Machine.GetConditions(), m.Machine.GetConditions()
}

// machines are separated by commas.
func machines(list string) (all []*Machine) {
	for words := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(words) != "" {
			all = append(all, machine(words))
		}
	}
	Sort(all)
	return all
}

// facts are those of a control plane that is initialized and connected, with only the
// state that its machines have reported.
func facts(replicas int32, list string) Facts {
	f := Facts{
		Now: now, ControlPlane: controlPlane(replicas), Cluster: &clusterv1.Cluster{}, Machines: machines(list),
		Certificates: Certificates{Checked: true}, Workload: Workload{Connected: true},
	}
	f.Cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	f.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
	for _, m := range f.Machines {
		if _, lost := m.Labels["lost"]; m.Node() == "" || lost {
			continue
		}
		f.Etcd.Members = append(f.Etcd.Members, quorum.Member{
			ID: uint64(m.Name[0]), Name: m.Name, Healthy: conditions.IsTrue(m, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition),
		})
	}
	return f
}

func domains(names ...string) (all []clusterv1.FailureDomain) {
	for _, n := range names {
		name, worker := strings.CutSuffix(n, "-worker")
		all = append(all, clusterv1.FailureDomain{Name: name, ControlPlane: new(!worker)})
	}
	return all
}

func controlPlane(replicas int32, change ...func(*controlplanev1.KubeadmControlPlane)) *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "cp"}}
	kcp.Spec.Replicas, kcp.Spec.Version = &replicas, "v1.35.0"
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infra.io", Kind: "HostTemplate", Name: "small"}
	kcp.Status.Initialization.ControlPlaneInitialized = new(true)
	for _, c := range change {
		c(kcp)
	}
	return kcp
}

func withConfig(m *Machine, spec bootstrapv1.KubeadmConfigSpec) *Machine {
	m.Config = &bootstrapv1.KubeadmConfig{Spec: spec}
	return m
}
