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

	"github.com/capstan-dev/capstan/internal/access/addons"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

// initInterval is how often kubeadm's ConfigMap is looked for, between a first
// connection and the end of kubeadm init.
const initInterval = time.Second

// inspect reads what the workload cluster shows of the machines' components.
func (r *Reconciler) inspect(ctx context.Context, s *state) (phase.Next, error) {
	next, err := r.look(ctx, s)
	for _, m := range s.Machines {
		m.Health = kubeadmcontrolplane.Assess(s.Facts, m)
	}
	return next, err
}

func (r *Reconciler) look(ctx context.Context, s *state) (phase.Next, error) {
	c, err := r.Workload.Client(ctx, s.key())
	health := r.Workload.Health(s.key())
	s.Workload.Why = health.Why()
	switch {
	case errors.Is(err, workload.ErrNotConnected):
		// If it is initialized, it has answered once, maybe an earlier process.
		s.Workload.LastProbe, s.Workload.Since = health.LastProbeSuccess, health.GraceStarts(true)
		return phase.Continue(), nil
	case err != nil:
		return phase.Continue(), err
	}
	s.client, s.Workload.Connected = c, true
	if !kubeadmcontrolplane.Initialized(s.ControlPlane) {
		if next, err := r.initialize(ctx, s); err != nil || !kubeadmcontrolplane.Initialized(s.ControlPlane) {
			return next, err
		}
	}
	return phase.Continue(), r.inspectMachines(ctx, s)
}

// initialize latches that kubeadm init has finished.
func (r *Reconciler) initialize(ctx context.Context, s *state) (phase.Next, error) {
	if len(s.Machines) == 0 || len(s.Machines) == 1 && s.Machines[0].Deleting() {
		return phase.Continue(), nil // what answers is on its way out
	}
	err := s.client.Get(ctx, addons.KubeadmConfig, &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		return phase.LookAgain(initInterval), nil
	}
	if err != nil {
		return phase.Continue(), fmt.Errorf("get ConfigMap %s of the workload cluster: %w", addons.KubeadmConfig, err)
	}
	s.ControlPlane.Status.Initialization.ControlPlaneInitialized = new(true)
	ctrl.LoggerFrom(ctx).Info("Control plane is initialized")
	return phase.Continue(), nil
}

func (r *Reconciler) inspectMachines(ctx context.Context, s *state) error {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"tier": "control-plane"}); err != nil {
		return fmt.Errorf("list control plane Pods of the workload cluster: %w", err)
	}
	byName, nodes := make(map[string]*corev1.Pod, len(pods.Items)), map[string]*corev1.Node{}
	for i := range pods.Items {
		byName[pods.Items[i].Name] = &pods.Items[i]
	}
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
	s.Workload.Inspected, s.Workload.Nodes, s.Workload.Pods = true, nodes, byName
	if kubeadmcontrolplane.ManagesEtcd(s.ControlPlane) {
		s.Etcd = r.inspectEtcd(ctx, s)
	}
	return nil
}
