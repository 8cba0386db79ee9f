// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

func TestNothingListensBeforeInit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if conn, err := net.Dial("tcp", l.server()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, %v from %s, want the connection refused", conn, err, l.server())
	}
	s := l.ensure(l.machine("w-1", l.workerData()))
	if s.Stage != Bootstrapping || !s.Running || !strings.Contains(s.Message, "connection refused") {
		t.Errorf("got a worker at %+v, want it to wait for the API server", s)
	}
	// Once there is one, it continues.
	events := l.b.MachineChanges(t.Context())
	l.mustRun("cp-1", l.initData())
	l.token(goodID, nil)
	if s := l.ensure(l.machine("w-1", l.workerData())); s.Stage != Failed || !strings.Contains(s.Message, `token id "abcdef" is invalid`) {
		t.Errorf("got the worker at %+v, want it to have failed before there was a token", s)
	}
	if got := <-events; got != (types.NamespacedName{Namespace: "ns", Name: "w-1"}) {
		t.Errorf("reported %s, want the worker", got)
	}
}

func TestInitFoundsACluster(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.machine("cp-1", l.initData())
	m.FailureDomain = "z1"
	s := l.ensure(m)
	if !s.Done() || !s.Running || s.NodeName != "cp-1" || s.ProviderID != "simulated://ns/prod/cp-1" || len(s.Addresses) != 2 {
		t.Fatalf("got status %+v, want a machine that runs", s)
	}
	node := l.node("cp-1")
	if diff := cmp.Diff([]corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}, node.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if _, ok := node.Labels["node-role.kubernetes.io/control-plane"]; !ok || node.Labels[corev1.LabelTopologyZone] != "z1" {
		t.Errorf("got labels %v, want those of a control plane node in z1", node.Labels)
	}
	if node.Spec.ProviderID != s.ProviderID || node.Status.NodeInfo.KubeletVersion != kubernetesVersion || nodeReady(node) != corev1.ConditionTrue {
		t.Errorf("got provider ID %s, kubelet %s, Ready %s", node.Spec.ProviderID, node.Status.NodeInfo.KubeletVersion, nodeReady(node))
	}
	if diff := cmp.Diff([]string{"etcd-cp-1", "kube-apiserver-cp-1", "kube-controller-manager-cp-1", "kube-scheduler-cp-1"}, l.readyPods()); diff != "" {
		t.Errorf("ready control plane pods (-want +got):\n%s", diff)
	}
	v, err := l.client().Discovery().ServerVersion()
	if err != nil || v.GitVersion != kubernetesVersion {
		t.Errorf("got version %v, %v, want %s", v, err, kubernetesVersion)
	}
	for _, name := range []string{"kubeadm-config", "kubelet-config", "kube-proxy", "coredns"} {
		if _, err := l.client().CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.client().AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), "kube-proxy", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	d, err := l.client().AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), "coredns", metav1.GetOptions{})
	if err != nil || d.Spec.Template.Spec.Containers[0].Image != "registry.k8s.io/coredns/coredns:v1.14.2" {
		t.Errorf("got CoreDNS %v, %v", d, err)
	}
}

// readyPods are the names of the control plane's Pods that are ready.
func (l *lab) readyPods() []string {
	l.t.Helper()
	pods, err := l.client().CoreV1().Pods(metav1.NamespaceSystem).List(context.Background(), metav1.ListOptions{LabelSelector: "tier=control-plane"})
	if err != nil {
		l.t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				out = append(out, p.Name)
			}
		}
	}
	return out
}

// members lists the etcd members as KubeadmControlPlane does.
func (l *lab) members(node string) ([]string, error) {
	l.t.Helper()
	c, err := (&etcd.Dialer{}).Connect(context.Background(), etcd.Target{Cluster: "ns/prod", Config: l.config(), CA: l.pki[certs.Etcd], Nodes: []string{node}})
	if err != nil {
		return nil, err
	}
	members, err := c.Members(context.Background())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range members {
		name := m.Name
		if m.Learner {
			name += " (learner)"
		}
		out = append(out, name)
	}
	return out, c.Close()
}

func TestMachinesJoinAControlPlane(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(3)
	l.mustRun("w-1", l.workerData())
	got, err := l.members("cp-2")
	if diff := cmp.Diff([]string{"cp-1", "cp-2", "cp-3"}, got); err != nil || diff != "" {
		t.Errorf("etcd members: %v (-want +got):\n%s", err, diff)
	}
	if got := len(l.readyPods()); got != 12 {
		t.Errorf("got %d ready control plane pods, want 12", got)
	}
	d, err := l.client().AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), "kube-proxy", metav1.GetOptions{})
	if err != nil || d.Status.NumberReady != 4 {
		t.Errorf("got kube-proxy %v, %v, want it ready on 4 nodes", d, err)
	}
	w := l.node("w-1")
	if _, ok := w.Labels["node-role.kubernetes.io/control-plane"]; ok || len(w.Spec.Taints) > 0 || w.Status.NodeInfo.KubeletVersion != kubernetesVersion {
		t.Errorf("got labels %v, taints %v, kubelet %s, want a plain worker", w.Labels, w.Spec.Taints, w.Status.NodeInfo.KubeletVersion)
	}
}

func TestADeletedMachineLeavesItsNodeAndItsMember(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	if err := l.b.deleteMachine(machines[0]); err != nil {
		t.Fatal(err)
	}
	if got := nodeReady(l.node("cp-1")); got != corev1.ConditionUnknown {
		t.Errorf("got the Node of the deleted machine Ready %s, want Unknown", got)
	}
	if got := len(l.readyPods()); got != 8 {
		t.Errorf("got %d ready control plane pods, want 8", got)
	}
	got, err := l.members("cp-2")
	if diff := cmp.Diff([]string{"cp-1", "cp-2", "cp-3"}, got); err != nil || diff != "" {
		t.Errorf("etcd members: %v (-want +got):\n%s", err, diff)
	}
	if _, err := l.members("cp-1"); err == nil {
		t.Error("the deleted machine's etcd answers")
	}
	// A control plane with a dead member takes no new one, and waits.
	if s := l.ensure(l.machine("cp-4", l.controlPlaneData())); s.Stage != StartingEtcd || !strings.Contains(s.Message, "etcdserver: unhealthy cluster") {
		t.Errorf("got %+v, want the machine to wait for etcd", s)
	}
	l.removeMember("cp-2", "cp-1")
	if s := l.ensure(l.machine("cp-4", l.controlPlaneData())); !s.Done() {
		t.Errorf("got %+v once the dead member was removed, want it done", s)
	}
	if err := l.b.deleteMachine(l.machine("missing", nil)); err != nil {
		t.Errorf("deleting a machine that is not there: %v", err)
	}
}

func (l *lab) removeMember(at, name string) {
	l.t.Helper()
	c, err := (&etcd.Dialer{}).Connect(context.Background(), etcd.Target{Cluster: "ns/prod", Config: l.config(), CA: l.pki[certs.Etcd], Nodes: []string{at}})
	if err != nil {
		l.t.Fatal(err)
	}
	members, err := c.Members(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, m := range members {
		if m.Name == name {
			if err := c.Remove(context.Background(), m.ID); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	if err := c.Close(); err != nil {
		l.t.Error(err)
	}
}

func TestTheLastAPIServerTakesTheClusterWithIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.mustRun("cp-1", l.initData())
	if err := l.b.deleteMachine(m); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", l.server()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want the connection refused", err)
	}
	// A new kubeadm init starts from nothing.
	l.mustRun("cp-2", l.initData())
	nodes, err := l.client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "cp-2" {
		t.Errorf("got nodes %v, %v, want cp-2 alone", nodes, err)
	}
	if got, err := l.members("cp-2"); err != nil || len(got) != 1 {
		t.Errorf("got members %v, %v, want one", got, err)
	}
}

func TestEverythingSurvivesARestart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	machines = append(machines, l.mustRun("w-1", l.workerData()))
	before, place := l.versions(), l.endpoint
	l.restart()
	for _, m := range machines {
		m.BootstrapData = nil // no longer needed
		if s := l.ensure(m); !s.Done() || s.NodeName != m.Name {
			t.Errorf("machine %s is at %+v after the restart", m.Name, s)
		}
	}
	if l.endpoint != place {
		t.Errorf("got endpoint %v after the restart, want %v", l.endpoint, place)
	}
	if diff := cmp.Diff(before, l.versions()); diff != "" {
		t.Errorf("objects were written at the restart (-before +after):\n%s", diff)
	}
	if got, err := l.members("cp-3"); err != nil || len(got) != 3 {
		t.Errorf("got members %v, %v, want three", got, err)
	}
	l.mustRun("w-2", l.workerData())
}

func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	files := 0
	err := filepath.WalkDir(l.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.Type()&os.ModeSymlink != 0 {
			return nil // of an address
		}
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil || files != 4 {
		t.Errorf("got %d files, %v, want four", files, err)
	}
	data, err := os.ReadFile(filepath.Join(l.b.clusterDir(l.cluster.UID), machineFile("uid-cp-1")))
	if err != nil || strings.Contains(string(data), "kubeadm.yaml") {
		t.Errorf("the user data of a machine that runs is still kept, or: %v", err)
	}
}

func TestADeletedClusterIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.mustRun("cp-1", l.initData())
	if err := l.b.deleteCluster(clusterSpec{UID: "another"}); err != nil {
		t.Fatal(err)
	}
	l.node("cp-1") // that was not meant
	for range 2 {
		if err := l.b.deleteCluster(l.cluster); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := net.Dial("tcp", l.server()); err == nil {
		t.Error("the deleted cluster still listens")
	}
	if left, err := os.ReadDir(l.dir); err != nil || len(left) != 1 { // the folder of addresses
		t.Errorf("got %v, %v left in the directory, want nothing", left, err)
	}
	if _, err := l.b.ensureMachine(m); err == nil || !strings.Contains(err.Error(), localinfra.ErrNoCluster.Error()) {
		t.Errorf("got %v, want %v", err, localinfra.ErrNoCluster)
	}
	if err := l.b.deleteMachine(m); err != nil {
		t.Errorf("deleting a machine of a deleted cluster: %v", err)
	}
}

func TestCloseWaitsForEventReporters(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	events := l.b.MachineChanges(t.Context())
	l.controlPlane(1) // the events are not read
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case e, open := <-events:
		if open {
			t.Errorf("got %v after the end", e)
		}
	default:
		t.Error("events are still reported")
	}
}

func TestADamagedClusterDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	good := l.cluster
	bad := clusterSpec{Namespace: "ns", Name: "bad", UID: good.UID + "-bad"}
	if _, err := l.b.ensureCluster(bad); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.b.clusterDir(bad.UID), clusterFile)
	if err := os.WriteFile(file, []byte(`{"pki":"SECRET`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.restart()
	l.node("cp-1")
	_, err := l.b.ensureCluster(bad)
	if err == nil || !strings.Contains(err.Error(), "simulated cluster ns/bad: "+file+": the file is damaged: put a copy of the file back, or delete the Cluster") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got %v, want an error that names the file and not its content", err)
	}
	if err := l.b.deleteCluster(bad); err != nil {
		t.Fatal(err)
	}
	if _, err := l.b.ensureCluster(bad); err != nil {
		t.Errorf("after the damaged one was deleted: %v", err)
	}
}

func TestEtcdMayBeElsewhere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	config, err := kubeadm.RenderInit(
		bootstrapv1.ClusterConfiguration{Etcd: bootstrapv1.Etcd{External: bootstrapv1.ExternalEtcd{
			Endpoints: []string{"https://192.0.2.1:2379"}, CAFile: "/e/ca.crt", CertFile: "/e/c.crt", KeyFile: "/e/c.key",
		}}}, bootstrapv1.InitConfiguration{}, kubeadm.Data{KubernetesVersion: kubernetesVersion, ControlPlaneEndpoint: l.server()})
	files := without(l.pkiFiles(), pkiDir+"etcd/ca.crt", pkiDir+"etcd/ca.key")
	l.mustRun("cp-1", l.userData(files, "init", config, err))
	l.token(goodID, nil)
	l.mustRun("cp-2", l.joinData(files, func(j *bootstrapv1.JoinConfiguration) { j.ControlPlane = &bootstrapv1.JoinControlPlane{} }))
	l.restart()
	want := []string{"kube-apiserver-cp-1", "kube-apiserver-cp-2", "kube-controller-manager-cp-1", "kube-controller-manager-cp-2", "kube-scheduler-cp-1", "kube-scheduler-cp-2"}
	if diff := cmp.Diff(want, l.readyPods()); diff != "" {
		t.Errorf("ready control plane pods (-want +got):\n%s", diff)
	}
}

func TestTheVersionIsTheLowestOfTheControlPlane(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.controlPlane(1)[0]
	upgraded := l.machine("cp-2", l.controlPlaneData())
	upgraded.Version = "v1.37.0"
	l.ensure(upgraded)
	served := func() string {
		t.Helper()
		v, err := l.client().Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		return v.GitVersion
	}
	if got := served(); got != kubernetesVersion {
		t.Errorf("got version %s with two versions running, want %s", got, kubernetesVersion)
	}
	if got := l.node("cp-2").Status.NodeInfo.KubeletVersion; got != "v1.37.0" {
		t.Errorf("got kubelet %s, want that of the machine's image", got)
	}
	l.removeMember("cp-2", "cp-1")
	if err := l.b.deleteMachine(old); err != nil {
		t.Fatal(err)
	}
	if got := served(); got != "v1.37.0" {
		t.Errorf("got version %s once the older machine was gone, want v1.37.0", got)
	}
}

func TestAMachineThatRunsTakesAnotherVersion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	spec := l.controlPlane(1)[0]
	spec.Version = "v1.37.0"
	l.ensure(spec)
	if got := l.node("cp-1").Status.NodeInfo.KubeletVersion; got != "v1.37.0" {
		t.Errorf("got kubelet %s, want v1.37.0", got)
	}
	v, err := l.client().Discovery().ServerVersion()
	if err != nil || v.GitVersion != "v1.37.0" {
		t.Errorf("got version %v, %v", v, err)
	}
	pods := l.readyPods()
	if len(pods) != 4 {
		t.Errorf("ready control plane pods: %v", pods)
	}
	l.restart()
	spec.Version = ""
	l.ensure(spec)
	if got := l.node("cp-1").Status.NodeInfo.KubeletVersion; got != "v1.37.0" {
		t.Errorf("got kubelet %s after a restart, want v1.37.0", got)
	}
}

// TestWhatWasBeingWrittenIsRemoved: a process that was killed has left it.
func TestWhatWasBeingWrittenIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.dir, string(l.cluster.UID))
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range before {
		if err := os.WriteFile(filepath.Join(dir, e.Name()+".new"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.start()
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("there are %v, %v; want %v", after, err, before)
	}
}

func TestARestartWritesNothingThatIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	look := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(l.b.clusterDir(l.cluster.UID), clusterFile))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := look()
	l.restart()
	if !os.SameFile(before, look()) {
		t.Error("the cluster was written again, want it left as it is")
	}
}
