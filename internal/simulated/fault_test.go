// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

func stage(milliseconds, jitter int32) infrav1.SimulatedStage {
	return infrav1.SimulatedStage{StartupMilliseconds: new(milliseconds), JitterPercent: new(jitter)}
}

// await reads events until the machine is at a stage.
func (l *lab) await(ctx context.Context, events <-chan types.NamespacedName, m machineSpec, want Stage) MachineStatus {
	l.t.Helper()
	for {
		select {
		case <-events:
			if s := l.ensure(m); s.Stage == want {
				return s
			}
		case <-ctx.Done():
			l.t.Fatalf("the machine never got to %s: it is at %+v", want, l.ensure(m))
		}
	}
}

func TestStagesTakeTheirTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	clock := testclock.NewFakeClock(time.Now())
	l := newLabWith(t, clock)
	events := l.b.MachineChanges(ctx)
	m := l.machine("cp-1", l.initData())
	// Random is one half: 50 percent of jitter adds a quarter.
	m.VM, m.Etcd, m.APIServer, m.Node = stage(1000, 0), stage(2000, 50), stage(3000, 0), stage(4000, 0)
	if s := l.ensure(m); s.Stage != Booting || s.Running {
		t.Fatalf("got %+v, want it to boot", s)
	}
	clock.Step(999 * time.Millisecond)
	if s := l.ensure(m); s.Stage != Booting {
		t.Errorf("got %+v just before the time, want it to boot still", s)
	}
	clock.Step(time.Millisecond)
	if s := l.await(ctx, events, m, StartingEtcd); !s.Running || s.NodeName != "cp-1" {
		t.Errorf("got %+v", s)
	}
	clock.Step(2499 * time.Millisecond)
	if s := l.ensure(m); s.Stage != StartingEtcd {
		t.Errorf("got %+v just before the jittered time, want etcd to start still", s)
	}
	clock.Step(time.Millisecond)
	l.await(ctx, events, m, StartingAPIServer)
	if _, err := net.Dial("tcp", l.server()); err == nil {
		t.Error("the API server listens before it has started")
	}
	clock.Step(time.Second)
	l.restart() // in the middle of it: the time that has passed counts
	events = l.b.MachineChanges(ctx)
	if s := l.ensure(m); s.Stage != StartingAPIServer {
		t.Errorf("got %+v after the restart, want the API server to start still", s)
	}
	clock.Step(2 * time.Second)
	l.await(ctx, events, m, RegisteringNode)
	clock.Step(4 * time.Second)
	l.await(ctx, events, m, Running)
	l.node("cp-1")
}

func TestAMachineThatWaitsGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	clock := testclock.NewFakeClock(time.Now())
	l := newLabWith(t, clock)
	events := l.b.MachineChanges(ctx)
	m := l.machine("w-1", l.workerData())
	if s := l.ensure(m); s.Stage != Bootstrapping {
		t.Fatalf("got %+v, want it to look for the API server", s)
	}
	clock.Step(discoveryTimeout)
	if s := l.await(ctx, events, m, Failed); !strings.Contains(s.Message, "failed to request the cluster-info ConfigMap") {
		t.Errorf("got %+v, want kubeadm's error", s)
	}
}

func TestAMachineMayNeverBoot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.machine("cp-1", l.initData())
	if s := l.ensure(fault(m, infrav1.MachineFaultNeverBoots)); s.Running || s.Stage != Booting {
		t.Errorf("got %+v, want it to boot for ever", s)
	}
	if s := l.ensure(m); !s.Done() {
		t.Errorf("got %+v once the fault was taken away, want it done", s)
	}
}

func TestANodeGoesNotReadyAndComesBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	m := l.mustRun("w-1", l.workerData())
	for range 2 {
		l.ensure(fault(m, infrav1.MachineFaultNodeNotReady))
		if n := l.node("w-1"); nodeReady(n) != corev1.ConditionFalse || len(n.Spec.Taints) != 2 {
			t.Errorf("got Ready %s, taints %v, want a Node that is not ready", nodeReady(n), n.Spec.Taints)
		}
		l.ensure(m)
		if n := l.node("w-1"); nodeReady(n) != corev1.ConditionTrue || len(n.Spec.Taints) != 0 {
			t.Errorf("got Ready %s, taints %v, want it ready again", nodeReady(n), n.Spec.Taints)
		}
	}
	l.ensure(fault(l.machine("w-2", l.workerData()), infrav1.MachineFaultNodeNotReady))
	if n := l.node("w-2"); nodeReady(n) != corev1.ConditionFalse {
		t.Errorf("got Ready %s of a Node that never was, want False", nodeReady(n))
	}
}

// hangs reports whether the API server accepts a request and does not answer it.
func (l *lab) hangs() bool {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := l.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		l.t.Fatalf("got %v, want an answer or none", err)
	}
	return err != nil
}

func TestTheAPIServerAnswersWhileOneMachineCan(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	l.ensure(fault(machines[0], infrav1.MachineFaultAPIServerHangs))
	l.ensure(fault(machines[1], infrav1.MachineFaultAPIServerHangs))
	if l.hangs() {
		t.Error("the API server hangs although one machine's is well")
	}
	if got := len(l.readyPods()); got != 10 {
		t.Errorf("got %d ready control plane pods, want 10: two API servers hang", got)
	}
	l.ensure(fault(machines[2], infrav1.MachineFaultAPIServerHangs))
	if !l.hangs() {
		t.Error("the API server answers although those of all machines hang")
	}
	if s := l.ensure(l.machine("w-1", l.workerData())); s.Stage != Bootstrapping || !strings.Contains(s.Message, "deadline exceeded") {
		t.Errorf("got %+v, want a joining machine to wait", s)
	}
	l.ensure(machines[0])
	if l.hangs() {
		t.Error("the API server hangs although one machine's is well again")
	}
	if s := l.ensure(l.machine("w-1", l.workerData())); !s.Done() {
		t.Errorf("got %+v, want the joining machine to have gone on", s)
	}
}

func TestWithoutAQuorumNothingAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	l.ensure(fault(machines[0], infrav1.MachineFaultEtcdUnhealthy))
	if l.hangs() {
		t.Error("the API server hangs with two of three members")
	}
	if got := len(l.readyPods()); got != 10 {
		t.Errorf("got %d ready control plane pods, want 10: one etcd and its API server are down", got)
	}
	if _, err := l.members("cp-1"); err == nil {
		t.Error("an etcd that is down answers")
	}
	l.ensure(fault(machines[1], infrav1.MachineFaultEtcdUnhealthy))
	if !l.hangs() {
		t.Error("the API server answers with one of three members")
	}
	l.restart()
	l.ensure(fault(machines[0], infrav1.MachineFaultEtcdUnhealthy))
	if !l.hangs() {
		t.Error("the quorum came back by a restart")
	}
	l.ensure(machines[1])
	if l.hangs() {
		t.Error("the API server hangs with a quorum again")
	}
}

func TestAClustersEndpointHangsOrRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	set := func(faults ...infrav1.ClusterFault) {
		t.Helper()
		l.cluster.Faults = faults
		if _, err := l.b.ensureCluster(l.cluster); err != nil {
			t.Fatal(err)
		}
	}
	set(infrav1.ClusterFaultAPIServerHangs)
	if !l.hangs() {
		t.Error("the API server does not hang")
	}
	set(infrav1.ClusterFaultAPIServerRefuses)
	if _, err := net.Dial("tcp", l.server()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want the connection refused", err)
	}
	set()
	l.node("cp-1")
}

func TestEndpointsAreKeptApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := clusterSpec{Namespace: "ns", Name: "other", UID: l.cluster.UID + "-other", Endpoint: clusterv1.APIEndpoint{Host: "127.65.43.21", Port: 6443}}
	got, err := l.b.ensureCluster(other)
	if err != nil || got != other.Endpoint {
		t.Errorf("got endpoint %v, %v, want the one that was asked for", got, err)
	}
	third := clusterSpec{Namespace: "ns", Name: "third", UID: "third", Endpoint: clusterv1.APIEndpoint{Host: "127.65.43.21"}}
	if _, err := l.b.ensureCluster(third); err == nil || !strings.Contains(err.Error(), "belongs to another cluster") {
		t.Errorf("got %v, want another cluster's endpoint refused", err)
	}
	other.Endpoint.Host = "127.65.43.22"
	if _, err := l.b.ensureCluster(other); err == nil || !strings.Contains(err.Error(), "cannot become") {
		t.Errorf("got %v, want the change of an endpoint refused", err)
	}
	// One of the same name and another UID is a new cluster.
	l.controlPlane(1)
	l.cluster.UID += "-again"
	if _, err := l.b.ensureCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", l.server()); err == nil {
		t.Error("the earlier cluster of that name still listens")
	}
}

func TestManyMachinesComeUpSideBySide(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l := newLab(t)
	events := l.b.MachineChanges(ctx)
	l.controlPlane(1)
	var wanted []machineSpec
	for i := range 10 {
		m := l.machine(fmt.Sprintf("w-%d", i), l.workerData())
		if i < 4 {
			m = l.machine(fmt.Sprintf("cp-%d", i+2), l.controlPlaneData())
		}
		m.VM, m.Node, m.Etcd, m.APIServer = stage(2, 100), stage(3, 100), stage(1, 200), stage(2, 100)
		wanted = append(wanted, m)
	}
	var running sync.WaitGroup
	for _, m := range wanted {
		running.Go(func() {
			if _, err := l.b.ensureMachine(m); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	for _, m := range wanted {
		if l.ensure(m).Done() {
			continue
		}
		l.await(ctx, events, m, Running)
	}
	if got, err := l.members("cp-5"); err != nil || len(got) != 5 {
		t.Errorf("got members %v, %v, want five", got, err)
	}
	nodes, err := l.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 11 {
		t.Errorf("got %d nodes, %v, want 11", len(nodes.Items), err)
	}
}
