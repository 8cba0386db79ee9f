// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/etcd"
)

// leaving deletes machines as users do, and drains them.
func (l *lab) leaving(names ...string) {
	l.Helper()
	for _, m := range l.machines() {
		if slices.Contains(names, m.Name) {
			l.must(l.Mgmt.Delete(l.Context(), m))
		}
	}
	l.live()
}

// hooked returns the machines that must not terminate yet.
func (l *lab) hooked() (names []string) {
	l.Helper()
	for _, m := range l.machines() {
		if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; held {
			names = append(names, m.Name)
		}
	}
	return names
}

// serving lets a component run on some machines alone.
func (l *lab) serving(component string, names ...string) {
	l.Helper()
	for _, m := range l.machines() {
		pod := &corev1.Pod{}
		l.must(l.inside.Get(l.Context(), client.ObjectKey{Namespace: "kube-system", Name: component + "-node-" + m.Name}, pod))
		pod.Status.Phase = corev1.PodFailed
		if slices.Contains(names, m.Name) {
			pod.Status.Phase = corev1.PodRunning
		}
		l.must(l.inside.Status().Update(l.Context(), pod))
	}
}

func TestMembersWithoutMachine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		add  []etcd.Member
		lost string // the member of this node is not there
		want []string
	}{
		"one whose machine has gone":                     {add: []etcd.Member{{ID: 7, Name: "lost"}}, want: []string{"remove lost"}},
		"one that has never run":                         {add: []etcd.Member{{ID: 7}}, want: []string{"remove "}},
		"a learner that has never run":                   {add: []etcd.Member{{ID: 7, Learner: true}}, want: []string{"remove "}},
		"two that have never run":                        {add: []etcd.Member{{ID: 7, Learner: true}, {ID: 8}}, want: []string{"remove ", "remove "}},
		"one that a learner keeps":                       {add: []etcd.Member{{ID: 7, Name: "a"}, {ID: 8, Name: "b", Learner: true}}, want: []string{"remove b", "remove a"}},
		"one that is on its way to be a machine's":       {add: []etcd.Member{{ID: 7, Learner: true}}, lost: "node-cp-3"},
		"one whose machine has gone, while another's is": {add: []etcd.Member{{ID: 7, Name: "lost"}}, lost: "node-cp-3", want: []string{"remove lost"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 3)
			l.settle()
			l.etcd.list = append(slices.DeleteFunc(l.etcd.list, func(m etcd.Member) bool { return m.Name == tc.lost }), tc.add...)
			l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
			l.settle()
			if diff := cmp.Diff(tc.want, l.etcd.log); diff != "" {
				t.Errorf("etcd (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAMemberThatHasNeverRunStaysWhileAMachineComesUp(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.stuck["cp-3"] = true
	l.settle()
	l.etcd.list = append(l.etcd.list, etcd.Member{ID: 7, Learner: true})
	l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
	l.settle()
	if len(l.machines()) != 3 || len(l.etcd.log) != 0 {
		t.Errorf("%d machines, etcd %v", len(l.machines()), l.etcd.log)
	}
	// A machine that waits for the learner must not delay the one from which it
	// comes.
	l.leaving("cp-1", "cp-3")
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cp-1", "cp-2"}, l.hooked()); diff != "" {
		t.Errorf("held (-want +got)\n%s", diff)
	}
	l.settle()
	if diff := cmp.Diff([]string{"remove ", "lead node-cp-2", "remove node-cp-1"}, l.etcd.log); diff != "" {
		t.Errorf("etcd (-want +got)\n%s", diff)
	}
}

func TestTheReplacementOfAMachineThatNeverJoinedEndsItsMember(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.stuck["cp-3"] = true
	l.settle()
	l.etcd.list = append(l.etcd.list, etcd.Member{ID: 7, Learner: true})
	l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
	l.markForRemediation("cp-3")
	l.settle()
	l.want(l.controlPlane(), "EtcdClusterHealthy True Healthy", "Available True Available")
	if diff := cmp.Diff([]string{"remove "}, l.etcd.log); diff != "" {
		t.Errorf("etcd (-want +got)\n%s", diff)
	}
	want := []string{"delete cp-3: it is unhealthy", "create a machine that joins: have 2, want 3"}
	if diff := cmp.Diff(want, l.said[3:]); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

func TestTerminationWaitsAndSaysForWhat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil, mend func(*lab)
		want        string // in the condition, after the machine
	}{
		"etcd would lose its majority": {
			func(l *lab) { l.etcd.sick = map[string]bool{"node-cp-3": true} },
			func(l *lab) { l.etcd.sick = nil },
			"of the 2 etcd members left, 1 would be healthy and 2 are needed",
		},
		"no etcd member is left to ask": {
			func(l *lab) { l.etcd.sick = map[string]bool{"node-cp-2": true, "node-cp-3": true} },
			func(l *lab) { l.etcd.sick = nil },
			"no other etcd member is healthy",
		},
		"etcd does not answer": {
			func(l *lab) { l.etcd.sick = map[string]bool{"node-cp-1": true, "node-cp-2": true, "node-cp-3": true} },
			func(l *lab) { l.etcd.sick = nil },
			"the etcd members are not known: etcd on [node-cp-1] does not answer",
		},
		"the cluster does not answer": {
			func(l *lab) { l.down, l.lost = true, l.clock.Now() },
			func(l *lab) { l.down = false },
			"the etcd members are not known: workload cluster is not connected",
		},
		"the last API server": {
			func(l *lab) { l.serving("kube-apiserver", "cp-1") },
			func(l *lab) { l.serving("kube-apiserver", "cp-1", "cp-2") },
			"no other machine would be left with healthy control plane components",
		},
		"the last scheduler next to another API server": {
			func(l *lab) {
				l.serving("kube-scheduler", "cp-1")
				l.serving("kube-apiserver", "cp-1", "cp-2")
			},
			func(l *lab) { l.serving("kube-scheduler", "cp-1", "cp-2") },
			"no other machine would be left with healthy control plane components",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 3)
			l.settle()
			tc.spoil(l)
			l.leaving("cp-1")
			l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
			if _, err := l.once(); err != nil {
				t.Errorf("a wait is an error: %v", err)
			}
			want := "Machine cp-1 may not terminate yet: " + tc.want
			if got := conditions.Message(l.controlPlane(), "ScalingDown"); !strings.HasPrefix(got, want) {
				t.Errorf("message %q, want %q", got, want)
			}
			if len(l.hooked()) != 3 || len(l.etcd.log) != 0 {
				t.Errorf("held %v, etcd %v", l.hooked(), l.etcd.log)
			}
			tc.mend(l)
			l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
			if _, err := l.once(); err != nil || slices.Contains(l.hooked(), "cp-1") {
				t.Errorf("still held %v, %v", l.hooked(), err)
			}
			if got := conditions.Message(l.controlPlane(), "ScalingDown"); got != "" {
				t.Errorf("message %q", got)
			}
		})
	}
}

func TestAFailureWhileAMemberIsRemovedIsAnError(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.etcd.refuse = true
	l.leaving("cp-2")
	if _, err := l.once(); err == nil || !strings.Contains(err.Error(), "prepare machines for termination: Machine cp-2: etcd refuses") {
		t.Errorf("error %v", err)
	}
	if len(l.hooked()) != 3 {
		t.Errorf("held %v", l.hooked())
	}
}
