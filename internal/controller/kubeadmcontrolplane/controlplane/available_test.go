// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func uninitialized(f *Facts) { f.ControlPlane.Status.Initialization.ControlPlaneInitialized = nil }

func externalEtcd(f *Facts) {
	f.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"x"}}
}

func etcdUnknown(f *Facts) { f.Etcd.Err = errors.New("timeout") }

// lately lets a component of the first machine fail only now.
func lately(f *Facts) { failing(f, "SchedulerPodHealthy", metav1.ConditionFalse, now, "restarts") }

func failing(f *Facts, t string, status metav1.ConditionStatus, at time.Time, message string) {
	m := f.Machines[0]
	conditions.Delete(m.Machine, t)
	conditions.Set(m.Machine, at, metav1.Condition{Type: t, Status: status, Reason: "X", Message: message})
	m.Reported, m.Health = m.Machine.GetConditions(), m.Machine.GetConditions()
}

// lost lets the workload cluster not answer for some time.
func lost(ago time.Duration) func(*Facts) {
	return func(f *Facts) {
		f.Workload = Workload{LastProbe: now.Add(-ago), Since: now.Add(-ago)}
		for _, m := range f.Machines {
			m.Health = Assess(*f, m)
		}
	}
}

func TestAvailability(t *testing.T) {
	t.Parallel()
	const noComponents = "* There are no Machines with healthy control plane components, at least 1 required"
	was := func(f *Facts) {
		conditions.Set(f.ControlPlane, now, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Was", Message: "so"})
	}
	tests := map[string]struct {
		machines string
		change   func(*Facts)
		want     string
	}{
		"all are well":                        {"a,b,c", nil, "True Available "},
		"before init":                         {"a", uninitialized, "False NotAvailable Control plane not yet initialized"},
		"one fails for a while":               {"a,b,c failing", nil, "True Available * Machine c: APIServerPodHealthy: "},
		"one has just failed":                 {"a,b,c", lately, "True Available "},
		"one is coming up":                    {"a,b,c bare", nil, "True Available "},
		"two of three fail":                   {"a,b failing,c failing", nil, "True Available * Machine b: APIServerPodHealthy: \n* Machine c: APIServerPodHealthy: "},
		"all fail":                            {"a failing,b failing,c failing", nil, "False NotAvailable " + noComponents},
		"the only one has just failed":        {"a", lately, "False NotAvailable " + noComponents},
		"etcd has a majority":                 {"a,b,c nomember", nil, "True Available * Machine c: EtcdMemberHealthy: "},
		"etcd has none":                       {"a,b nomember,c nomember", nil, "False NotAvailable * 1 of 3 etcd members are healthy, at least 2 required for etcd quorum"},
		"etcd has members without a machine":  {"a", func(f *Facts) { f.Etcd.Members = append(f.Etcd.Members, members("x y")...) }, "False NotAvailable * 1 of 3 etcd members are healthy, at least 2 required for etcd quorum"},
		"a learner has no vote":               {"a", func(f *Facts) { f.Etcd.Members = append(f.Etcd.Members, members("x+")...) }, "True Available "},
		"members are not known":               {"a,b,c", etcdUnknown, "True Available "},
		"members are not known, machines sum": {"a,b nomember", etcdUnknown, "False NotAvailable * 1 of 2 etcd members are healthy, at least 2 required for etcd quorum"},
		"etcd is elsewhere":                   {"a nomember", func(f *Facts) { externalEtcd(f); etcdUnknown(f) }, "True Available "},
		"certificates are not there":          {"a", func(f *Facts) { f.Certificates.Err = errors.New("no CA") }, "False NotAvailable * Control plane certificates are not available: no CA"},
		"certificates are not there at first": {"a", func(f *Facts) { uninitialized(f); f.Certificates.Err = errors.New("no CA") }, "False NotAvailable Control plane not yet initialized: no CA"},
		"certificates are not checked yet": {"a", func(f *Facts) {
			f.Certificates = Certificates{}
			conditions.Set(f.ControlPlane, now, metav1.Condition{Type: "CertificatesAvailable", Status: metav1.ConditionTrue, Reason: "Was"})
		}, "True Available "},
		"it is being deleted":         {"a", func(f *Facts) { f.ControlPlane.DeletionTimestamp = new(metav1.NewTime(now)) }, "False NotAvailable * Control plane metadata.deletionTimestamp is set"},
		"no connection now":           {"a failing", func(f *Facts) { was(f); f.Workload.Connected = false }, "True Was so"},
		"no connection ever":          {"a", func(f *Facts) { f.Workload.Connected = false }, "True Available "},
		"it has not answered lately":  {"a", func(f *Facts) { was(f); lost(time.Minute)(f) }, "True Was so"},
		"it does not answer any more": {"a", func(f *Facts) { was(f); lost(time.Hour)(f) }, "Unknown InspectionFailed * The workload cluster does not answer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := known{Facts: facts(3, tc.machines)}
			if tc.change != nil {
				tc.change(&k.Facts)
			}
			if diff := cmp.Diff(tc.want, k.says("Available")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestHealthOfAllMachines(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machines         string
		change           func(*Facts)
		components, etcd string
	}{
		"all are well": {"a,b", nil, "True Healthy ", "True Healthy "},
		"before init": {"a", uninitialized, "Unknown InspectionFailed Waiting for Cluster control plane to be initialized",
			"Unknown InspectionFailed Waiting for Cluster control plane to be initialized"},
		"no Machine has a Node":   {"a bare", nil, "Unknown HealthUnknown ", "Unknown HealthUnknown "},
		"one has no Node":         {"a,b bare", nil, "True Healthy ", "True Healthy "},
		"a component fails":       {"a,b failing", nil, "False NotHealthy * Machine b: APIServerPodHealthy: ", "True Healthy "},
		"a member fails":          {"a,b nomember", nil, "True Healthy ", "False NotHealthy * Machine b: EtcdMemberHealthy: "},
		"etcd is elsewhere":       {"a nomember", externalEtcd, "True Healthy ", "none"},
		"a member has no Machine": {"a", func(f *Facts) { f.Etcd.Members = append(f.Etcd.Members, members("x ?")...) }, "True Healthy ", "False NotHealthy * Etcd member 3f does not have a corresponding Machine\n* Etcd member x does not have a corresponding Machine"},
		"issues before what is not known": {"a,b failing", func(f *Facts) { failing(f, "SchedulerPodHealthy", metav1.ConditionUnknown, now, "who knows") },
			"False NotHealthy * Machine b: APIServerPodHealthy: \n* Machine a: SchedulerPodHealthy: who knows", "True Healthy "},
		"one is not known": {"a", func(f *Facts) { failing(f, "EtcdMemberHealthy", metav1.ConditionUnknown, now, "who knows") }, "True Healthy ", "Unknown HealthUnknown * Machine a: EtcdMemberHealthy: who knows"},
		"nothing was ever reported": {"a", func(f *Facts) { f.Machines[0].Health = nil },
			"Unknown HealthUnknown * Machine a: APIServerPodHealthy: not yet reported\n* Machine a: ControllerManagerPodHealthy: not yet reported\n* Machine a: SchedulerPodHealthy: not yet reported\n* Machine a: EtcdPodHealthy: not yet reported",
			"Unknown HealthUnknown * Machine a: EtcdMemberHealthy: not yet reported"},
		"it has not answered lately": {"a", lost(time.Minute), "True Healthy ", "True Healthy "},
		"it does not answer any more": {"a nomember", lost(time.Hour),
			"Unknown ConnectionDown " + strings.Join([]string{
				"* Machine a: APIServerPodHealthy: Last successful probe at 2026-01-09T23:00:00Z", "* Machine a: ControllerManagerPodHealthy: Last successful probe at 2026-01-09T23:00:00Z",
				"* Machine a: SchedulerPodHealthy: Last successful probe at 2026-01-09T23:00:00Z", "* Machine a: EtcdPodHealthy: Last successful probe at 2026-01-09T23:00:00Z"}, "\n"),
			"Unknown ConnectionDown * Machine a: EtcdMemberHealthy: Last successful probe at 2026-01-09T23:00:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := known{Facts: facts(3, tc.machines)}
			k.ControlPlane.Status.Conditions = []metav1.Condition{{Type: controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition, Status: "True"}}
			if tc.change != nil {
				tc.change(&k.Facts)
			}
			if diff := cmp.Diff([]string{tc.components, tc.etcd}, []string{k.says("ControlPlaneComponentsHealthy"), k.says("EtcdClusterHealthy")}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAssess(t *testing.T) {
	t.Parallel()
	pods := func(names ...string) map[string]*corev1.Pod {
		all := map[string]*corev1.Pod{}
		for _, n := range names {
			all[n+"-a"] = pod(corev1.PodRunning, podCondition(corev1.PodReady, corev1.ConditionTrue))
		}
		return all
	}
	inspected := func(f *Facts) {
		f.Workload.Inspected, f.Workload.Nodes, f.Workload.Pods = true, map[string]*corev1.Node{"a": node()}, pods("kube-apiserver", "etcd")
	}
	restarted := func(since time.Duration) func(*Facts) {
		return func(f *Facts) { f.Workload = Workload{Since: now.Add(-since)} }
	}
	tests := map[string]struct {
		machine string
		change  func(*Facts)
		of      string
		want    string
		since   time.Duration // how long ago the condition changed
	}{
		"what is seen":                       {"a failing", inspected, "APIServerPodHealthy", "True Running ", 0},
		"what is as it was":                  {"a", inspected, "APIServerPodHealthy", "True Running ", time.Hour},
		"what is not there any more":         {"a", inspected, "SchedulerPodHealthy", "False DoesNotExist Pod does not exist", 0},
		"a member as it was evaluated":       {"a nomember", inspected, "EtcdMemberHealthy", "False NotHealthy Etcd member does not answer", time.Hour},
		"a member that complains":            {"a", func(f *Facts) { inspected(f); f.Etcd.MemberErrs = map[string]error{"a": errors.New("no leader")} }, "EtcdMemberHealthy", "False NotHealthy no leader", 0},
		"a member after a failed inspection": {"a", func(f *Facts) { inspected(f); f.Etcd = Etcd{Err: errors.New("timeout")} }, "EtcdMemberHealthy", "Unknown InspectionFailed timeout", 0},
		"a machine without a Node":           {"a bare", inspected, "APIServerPodHealthy", "True X ", time.Hour},
		"before kubeadm init":                {"a", func(f *Facts) { uninitialized(f); f.Workload = Workload{} }, "APIServerPodHealthy", "True X ", time.Hour},
		"connected, and not inspected yet":   {"a", nil, "APIServerPodHealthy", "True X ", time.Hour},
		"lost a while ago":                   {"a", lost(ConnectionGrace - 1), "APIServerPodHealthy", "True X ", time.Hour},
		"lost too long ago":                  {"a", lost(ConnectionGrace), "APIServerPodHealthy", "Unknown ConnectionDown Last successful probe at 2026-01-09T23:55:00Z", 0},
		"not seen since a restart":           {"a", restarted(ConnectionGrace - 1), "APIServerPodHealthy", "True X ", time.Hour},
		"not seen long after a restart":      {"a", restarted(ConnectionGrace), "APIServerPodHealthy", "Unknown ConnectionDown No successful probe since 2026-01-09T23:55:00Z", 0},
		"not seen by the process before":     {"a down", restarted(ConnectionGrace), "APIServerPodHealthy", "Unknown ConnectionDown before", time.Hour},
		"not seen, with etcd elsewhere":      {"a", func(f *Facts) { externalEtcd(f); lost(time.Hour)(f) }, "EtcdMemberHealthy", "True X ", time.Hour},
		"labels and taints are looked for":   {"a", func(f *Facts) { inspected(f); f.Workload.Nodes["a"].Labels = nil }, "NodeKubeadmLabelsAndTaintsSet", "False NotSet * Node is missing label node-role.kubernetes.io/control-plane", 0},
		"conditions of others stay":          {"a unhealthy", inspected, clusterv1.MachineHealthCheckSucceededCondition, "False X ", time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(1, tc.machine)
			if tc.change != nil {
				tc.change(&f)
			}
			got := Assess(f, f.Machines[0])
			if diff := cmp.Diff(tc.want, text(got, tc.of)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if since := now.Sub(conditions.Get(got, tc.of).LastTransitionTime.Time); since != tc.since {
				t.Errorf("it is so since %s, want %s", since, tc.since)
			}
		})
	}
}
