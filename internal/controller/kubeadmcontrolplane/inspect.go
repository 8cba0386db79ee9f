// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/addons"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

const (
	// connectionGrace is how long conditions stay as they are while the workload
	// cluster does not answer.
	connectionGrace = 5 * time.Minute

	// firstReport is how long a machine's first report may wait for all of its
	// components to be up: static Pods start one after the other, and each would
	// be a write.
	firstReport = 20 * time.Second

	// initInterval is how often kubeadm's ConfigMap is looked for, between a
	// first connection and the end of kubeadm init.
	initInterval = time.Second
)

// inspect reads what the workload cluster shows of the machines' components.
func (r *Reconciler) inspect(ctx context.Context, s *state) (phase.Next, error) {
	c, err := r.Workload.Client(ctx, s.key())
	s.health = r.Workload.Health(s.key())
	switch {
	case errors.Is(err, workload.ErrNotConnected):
		s.notConnected()
		return phase.Continue(), nil
	case err != nil:
		return phase.Continue(), err
	}
	s.client, s.Connected = c, true
	if done, err := r.initialized(ctx, s); err != nil || !done {
		return phase.Continue(), err
	}
	return phase.Continue(), r.inspectMachines(ctx, s)
}

// notConnected keeps what was reported last for a while, and then says that
// nothing is known.
func (s *state) notConnected() {
	if !kubeadmcontrolplane.Initialized(s.ControlPlane) {
		return
	}
	from := s.health.GraceStarts(true) // it has answered once, or it would not be initialized
	if until := from.Add(connectionGrace); until.After(s.Now) {
		s.due(until)
		return
	}
	message := "Last successful probe at " + from.UTC().Format(time.RFC3339)
	if s.health.LastProbeSuccess.IsZero() {
		message = "No successful probe since " + from.UTC().Format(time.RFC3339)
	}
	for _, m := range s.Machines {
		if m.Node() == "" {
			continue
		}
		for _, t := range reported(s) {
			if s.health.LastProbeSuccess.IsZero() && conditions.Reason(m, t) == clusterv1.ConnectionDownReason {
				continue // the process before ours knew since when
			}
			conditions.Set(m.Machine, s.Now, metav1.Condition{Type: t, Status: metav1.ConditionUnknown, Reason: clusterv1.ConnectionDownReason, Message: message})
		}
	}
}

// initialized latches that kubeadm init has finished.
func (r *Reconciler) initialized(ctx context.Context, s *state) (bool, error) {
	if kubeadmcontrolplane.Initialized(s.ControlPlane) {
		return true, nil
	}
	if len(s.Machines) == 0 || len(s.Machines) == 1 && s.Machines[0].Deleting() {
		return false, nil // what answers is on its way out
	}
	err := s.client.Get(ctx, addons.KubeadmConfig, &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		s.due(s.Now.Add(initInterval))
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get ConfigMap %s of the workload cluster: %w", addons.KubeadmConfig, err)
	}
	s.ControlPlane.Status.Initialization.ControlPlaneInitialized = new(true)
	ctrl.LoggerFrom(ctx).Info("Control plane is initialized")
	return true, nil
}

func (r *Reconciler) inspectMachines(ctx context.Context, s *state) error {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"tier": "control-plane"}); err != nil {
		return fmt.Errorf("list control plane Pods of the workload cluster: %w", err)
	}
	byName := make(map[string]*corev1.Pod, len(pods.Items))
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
	nodes := map[string]*corev1.Node{}
	for _, m := range s.Machines {
		if m.Node() == "" {
			continue
		}
		var node corev1.Node
		switch err := s.client.Get(ctx, client.ObjectKey{Name: m.Node()}, &node); {
		case err == nil:
			nodes[m.Node()] = &node
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("get Node %s of the workload cluster: %w", m.Node(), err)
		}
	}
	if kubeadmcontrolplane.ManagesEtcd(s.ControlPlane) {
		s.etcd = r.inspectEtcd(ctx, s, byName, false)
	}
	for _, m := range s.Machines {
		if m.Node() == "" {
			continue // the Machine tells what it waits for
		}
		r.inspectMachine(s, m, nodes[m.Node()], byName)
	}
	return nil
}

func (r *Reconciler) inspectMachine(s *state, m *kubeadmcontrolplane.Machine, node *corev1.Node, pods map[string]*corev1.Pod) {
	seen := kubeadmcontrolplane.Seen{
		Deleting: m.Deleting(), NodeName: m.Node(), Node: node, Pods: map[string]*corev1.Pod{},
		Taints: kubeadmcontrolplane.TaintsOf(m.Config), ManagesEtcd: kubeadmcontrolplane.ManagesEtcd(s.ControlPlane),
		Member: s.etcd.member(m.Node()), MemberErr: s.etcd.err(m.Node()),
	}
	for _, c := range kubeadmcontrolplane.Components {
		seen.Pods[c.Name] = pods[c.Name+"-"+m.Node()]
	}
	first := !conditions.Has(m, reported(s)[0])
	for _, c := range seen.Conditions() {
		conditions.Set(m.Machine, s.Now, c)
	}
	// In memory they are there all the same: decisions are made from them.
	if first && node != nil && !m.Deleting() && len(kubeadmcontrolplane.Unhealthy(m, seen.ManagesEtcd)) > 0 {
		if at := node.CreationTimestamp.Add(firstReport); at.After(s.Now) {
			s.pending[m.Name] = true
			s.due(at)
		}
	}
}

// reported are the types of the conditions that are reported on machines.
func reported(s *state) (types []string) {
	for _, c := range (kubeadmcontrolplane.Seen{ManagesEtcd: kubeadmcontrolplane.ManagesEtcd(s.ControlPlane)}).Conditions() {
		types = append(types, c.Type)
	}
	return types
}

// judge compares the machines with the spec, and says so on those that have
// something to report.
func judge(_ context.Context, s *state) (phase.Next, error) {
	for _, m := range s.Machines {
		m.Verdict = kubeadmcontrolplane.Judge(s.ControlPlane, m, s.Now)
		conditions.Set(m.Machine, s.Now, upToDate(m))
		if m.Node() == "" && m.UpToDate && !conditions.Has(m, reported(s)[0]) {
			s.pending[m.Name] = true // with its first report
		}
	}
	s.due(kubeadmcontrolplane.RolloutDue(s.ControlPlane, s.Machines, s.Now))
	return phase.Continue(), nil
}

func upToDate(m *kubeadmcontrolplane.Machine) metav1.Condition {
	if m.UpToDate {
		return metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineUpToDateReason}
	}
	return metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason, Message: m.Message()}
}
