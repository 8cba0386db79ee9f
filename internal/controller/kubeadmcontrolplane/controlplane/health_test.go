// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{controlPlaneRole: ""}}}
	n.Spec.Taints = []corev1.Taint{{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule}}
	for _, c := range change {
		c(n)
	}
	return n
}

func pod(phase corev1.PodPhase, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	for _, c := range change {
		c(p)
	}
	return p
}

func podCondition(t corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: status})
	}
}

func TestPodConditions(t *testing.T) {
	t.Parallel()
	ready := podCondition(corev1.PodReady, corev1.ConditionTrue)
	state := func(s corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: s}} }
	}
	unreachable := func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable})
	}
	tests := map[string]struct {
		node     *corev1.Node
		pod      *corev1.Pod
		deleting bool
		want     string // status, reason, message
	}{
		"ready":                  {node(), pod(corev1.PodRunning, ready), false, "True Running "},
		"not there":              {node(), nil, false, "False DoesNotExist Pod does not exist"},
		"without a Node":         {nil, nil, false, "Unknown InspectionFailed Node n does not exist"},
		"on a machine that goes": {nil, nil, true, "False Deleting Machine is deleting"},
		"on a Node out of reach": {node(unreachable), pod(corev1.PodRunning, ready), false, "Unknown InspectionFailed Node n is unreachable"},
		"going itself":           {node(), pod(corev1.PodRunning, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }), false, "False Deleting Pod is terminating"},
		"not scheduled":          {node(), pod(corev1.PodPending, podCondition(corev1.PodScheduled, corev1.ConditionFalse)), false, "False Provisioning Waiting to be scheduled"},
		"in init containers":     {node(), pod(corev1.PodPending, podCondition(corev1.PodInitialized, corev1.ConditionFalse)), false, "False Provisioning Running init containers"},
		"pulling":                {node(), pod(corev1.PodPending), false, "False Provisioning Waiting for containers to start"},
		"probed":                 {node(), pod(corev1.PodRunning), false, "False Provisioning Waiting for startup or readiness probes"},
		"a container crashes":    {node(), pod(corev1.PodRunning, state(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})), false, "False Failed container c is waiting (CrashLoopBackOff)"},
		"a container is created": {node(), pod(corev1.PodRunning, state(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})), false, "False Provisioning Waiting for startup or readiness probes"},
		"a container has ended":  {node(), pod(corev1.PodRunning, state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error"}})), false, "False Failed container c has terminated (Error)"},
		"failed":                 {node(), pod(corev1.PodFailed), false, "False Failed All the containers have been terminated"},
		"in an unknown phase":    {node(), pod("Strange"), false, "Unknown InspectionFailed The Pod's phase is unknown"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seen{deleting: tc.deleting, nodeName: "n", node: tc.node, pods: map[string]*corev1.Pod{"kube-apiserver": tc.pod}}
			c := conditions.Get(conditions.List(s.conditions()), "APIServerPodHealthy")
			if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMemberConditions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		member *quorum.Member
		err    error
		want   string
	}{
		"healthy":             {&quorum.Member{Healthy: true}, nil, "True Healthy "},
		"not there":           {nil, nil, "False NotHealthy Etcd doesn't have a member for Node n"},
		"no connection":       {nil, errors.New("no route"), "Unknown InspectionFailed no route"},
		"alarmed":             {&quorum.Member{Alarms: []string{"NOSPACE"}, Healthy: true}, nil, "False NotHealthy Etcd member reports alarms: NOSPACE"},
		"a learner":           {&quorum.Member{Learner: true, Healthy: true}, nil, "False NotHealthy Etcd member is a learner that has not caught up yet"},
		"itself out of reach": {&quorum.Member{}, errors.New("timeout"), "False NotHealthy timeout"},
		"not asked":           {&quorum.Member{}, nil, "False NotHealthy Etcd member does not answer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seen{nodeName: "n", node: node(), managesEtcd: true, member: tc.member, memberErr: tc.err}
			c := conditions.Get(conditions.List(s.conditions()), "EtcdMemberHealthy")
			if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if c := conditions.Get(conditions.List(seen{node: node()}.conditions()), "EtcdMemberHealthy"); c != nil {
		t.Errorf("external etcd has %+v", c)
	}
}

func TestLabelsAndTaints(t *testing.T) {
	t.Parallel()
	bare := func(n *corev1.Node) { n.Labels, n.Spec.Taints = nil, nil }
	tests := map[string]struct {
		node   *corev1.Node
		taints *[]corev1.Taint
		want   string
	}{
		"as kubeadm sets them":  {node(), nil, "True Set "},
		"not set yet":           {node(bare), nil, "False NotSet * Node is missing label node-role.kubernetes.io/control-plane\n* Node is missing taint node-role.kubernetes.io/control-plane:NoSchedule"},
		"no taints wanted":      {node(func(n *corev1.Node) { n.Spec.Taints = nil }), &[]corev1.Taint{}, "True Set "},
		"other taints wanted":   {node(), &[]corev1.Taint{{Key: "x", Effect: "NoExecute"}}, "False NotSet * Node is missing taint x:NoExecute"},
		"the Node is not there": {nil, nil, "Unknown InspectionFailed Node n does not exist"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seen{nodeName: "n", node: tc.node, taints: tc.taints}
			c := conditions.Get(conditions.List(s.conditions()), "NodeKubeadmLabelsAndTaintsSet")
			if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
