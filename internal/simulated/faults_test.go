// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// fail sets these faults of the cluster, and no others.
func (l *lab) fail(faults ...infrav1.ClusterFault) {
	l.t.Helper()
	l.cluster.Faults = faults
	if _, err := l.b.ensureCluster(l.cluster); err != nil {
		l.t.Fatal(err)
	}
}

func TestAMachineWithoutPowerComesBackAndOneWithoutADiskDoesNot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault infrav1.MachineFault
		ready corev1.ConditionStatus
		pods  int
	}{
		"without power":  {infrav1.MachineFaultPoweredOff, corev1.ConditionTrue, 12},
		"without a disk": {infrav1.MachineFaultDiskLost, corev1.ConditionUnknown, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			machines := l.controlPlane(3)
			for _, m := range append(machines[:1], l.mustRun("w-1", l.workerData())) {
				l.ensure(fault(m, tc.fault))
				if n := l.node(m.Name); nodeReady(n) != corev1.ConditionUnknown {
					t.Errorf("got %s Ready %s, want Unknown", m.Name, nodeReady(n))
				}
			}
			if got := len(l.readyPods()); got != 8 {
				t.Errorf("got %d ready control plane pods, want those of two machines", got)
			}
			l.restart()
			for _, m := range append(machines[:1], l.machine("w-1", nil)) {
				l.ensure(m)
				if n := l.node(m.Name); nodeReady(n) != tc.ready {
					t.Errorf("got %s Ready %s afterwards, want %s", m.Name, nodeReady(n), tc.ready)
				}
			}
			if got := len(l.readyPods()); got != tc.pods {
				t.Errorf("got %d ready control plane pods afterwards, want %d", got, tc.pods)
			}
		})
	}
}

func TestAMachineThatIsOffDoesNotComeUp(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.machine("cp-1", l.initData())
	if s := l.ensure(fault(m, infrav1.MachineFaultPoweredOff)); s.Running || s.Message != "it has no power" {
		t.Errorf("got %+v, want it to wait for power", s)
	}
	l.fail(infrav1.ClusterFaultMachinesNeverBoot)
	if s := l.ensure(m); s.Running || s.Stage != Booting {
		t.Errorf("got %+v, want no machine of the cluster to boot", s)
	}
	l.fail()
	if s := l.ensure(m); !s.Done() {
		t.Errorf("got %+v, want it to have come up", s)
	}
	l.token(goodID, nil)
	lost := l.machine("w-1", l.workerData())
	l.ensure(fault(lost, infrav1.MachineFaultDiskLost))
	if s := l.ensure(lost); s.Running || s.Message != "its disk is lost" {
		t.Errorf("got %+v, want it never to come up", s)
	}
}

func TestAMemberThatLagsNeitherLeadsNorAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	leader := func() string {
		s := l.b.clusters[l.cluster.Key()].members.Load().State()
		for _, m := range s.Members {
			if m.ID == s.Leader {
				return m.Name
			}
		}
		return ""
	}
	first := leader()
	for _, m := range machines {
		if m.Name == first {
			l.ensure(fault(m, infrav1.MachineFaultEtcdLags))
		}
	}
	if second := leader(); second == first || second == "" {
		t.Errorf("%q leads after %s", second, first)
	}
	if _, err := l.members(first); err == nil {
		t.Error("one that is late says who the members are")
	}
	if l.hangs() {
		t.Error("the API server hangs although there is a quorum")
	}
	for _, m := range machines {
		l.ensure(fault(m, infrav1.MachineFaultEtcdLags))
	}
	if leader() == "" {
		t.Error("no member leads where all are equally late")
	}
	l.restart()
	if _, err := l.members("cp-1"); err == nil {
		t.Error("a restart has made up for what was late")
	}
	for _, m := range machines {
		l.ensure(m)
	}
	if got, err := l.members(first); err != nil || len(got) != 3 {
		t.Errorf("got %v, %v, want three members", got, err)
	}
}

func TestWhereAMembersDiskIsFullNothingIsStored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	l.ensure(fault(machines[1], infrav1.MachineFaultEtcdDiskFull))
	if _, err := l.client().CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "mvcc: database space exceeded") {
		t.Errorf("got %v, want etcd's refusal", err)
	}
	l.node("cp-1") // what is there can be read
	if err := l.client().CoreV1().Pods("kube-system").Delete(t.Context(), "kube-scheduler-cp-1", metav1.DeleteOptions{}); err != nil {
		t.Errorf("what frees room is refused: %v", err)
	}
	l.ensure(machines[1])
	if _, err := l.client().CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestASlowAPIServerAnswersLate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	l.fail(infrav1.ClusterFaultAPIServerSlow)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := l.client().CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want no answer so soon", err)
	}
	l.node("cp-1")
}

func TestWatchesAreLost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	open := func() (events int) {
		t.Helper()
		w, err := l.client().CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for range w.ResultChan() { // until it ends
			if events++; events == 1 && l.cluster.Faults == nil {
				l.fail(infrav1.ClusterFaultWatchesLost)
			}
		}
		return events
	}
	if got := open(); got != 1 {
		t.Errorf("got %d events before the watch was lost, want the Node", got)
	}
	if got := open(); got != 1 {
		t.Errorf("got %d events of a watch that cannot last, want the Node", got)
	}
	l.fail()
	l.node("cp-1")
}

func TestTheClockOfAnAPIServerMayBeWrong(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	create := func(name string) (time.Time, error) {
		s, err := l.client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return s.GetCreationTimestamp().Time, err
	}
	l.fail(infrav1.ClusterFaultClockAhead)
	if at, err := create("ahead"); err != nil || time.Until(at) < 50*time.Minute {
		t.Errorf("got one made at %s, %v, want it made in an hour", at, err)
	}
	if s := l.ensure(l.machine("w-1", l.workerData())); s.Stage != Failed || !strings.Contains(s.Message, "expired") {
		t.Errorf("got %+v, want its token to have expired", s)
	}
	l.fail(infrav1.ClusterFaultClockBehind)
	if _, err := create("behind"); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v from a certificate that is not valid yet, want Unauthorized", err)
	}
	l.fail()
	if s := l.ensure(l.machine("w-2", l.workerData())); !s.Done() {
		t.Errorf("got %+v, want it done with the clock right again", s)
	}
}
