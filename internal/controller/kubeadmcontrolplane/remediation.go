// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
)

// remediate deletes the most unhealthy of the machines that a health check marked
// for remediation, unless that has to wait.
func (r *Reconciler) remediate(ctx context.Context, s *state) (reconciler.Next, error) {
	underWay, err := controlplane.UnderWay(s.Facts)
	if err != nil {
		return reconciler.Continue(), err
	}
	if !underWay {
		delete(s.ControlPlane.Annotations, controlplanev1.RemediationInProgressAnnotation)
	}
	if err := r.holdOrders(ctx, s); err != nil {
		return reconciler.Continue(), err
	}
	s.Remediation = controlplane.Remediate(s.Facts)
	decisions.Add(ctx, s.Facts, s.Remediation)
	if s.Remediation == nil || s.Remediation.Reason != "" {
		return reconciler.Continue(), nil
	}
	m, record := s.Remediation.Machine, s.Remediation.Record
	if err := r.handOverFrom(ctx, s, m); err != nil {
		s.Remediation.Reason, s.Remediation.Message = controlplanev1.KubeadmControlPlaneMachineRemediationInternalErrorReason, "Handing over the leadership of etcd failed"
		return reconciler.Continue(), fmt.Errorf("Machine %s: %w", m.Name, err)
	}
	s.Remediation.Reason, s.Remediation.Message = controlplanev1.KubeadmControlPlaneMachineRemediationMachineDeletingReason, healthcheck.Because(m.Machine, "Machine is deleting")
	if err := s.commitNow(ctx, m); err != nil { // after the deletion it would be a conflict
		return reconciler.Continue(), err
	}
	err = r.Mgmt.Delete(ctx, m.Machine, client.Preconditions{UID: new(m.UID)})
	if client.IgnoreNotFound(err) != nil {
		return reconciler.Continue(), fmt.Errorf("delete Machine %s: %w", m.Name, err)
	}
	metav1.SetMetaDataAnnotation(&s.ControlPlane.ObjectMeta, controlplanev1.RemediationInProgressAnnotation, record.String())
	s.ControlPlane.Status.LastRemediation = controlplanev1.LastRemediationStatus{
		Machine: record.Machine, Time: record.Timestamp, RetryCount: new(record.RetryCount),
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machine", "Machine", m.Name, "reason", healthcheck.Why(m.Machine))
	r.event(s, m.Machine, corev1.EventTypeNormal, "SuccessfulDelete", "Remediate", "delete "+m.Name+": "+healthcheck.Why(m.Machine))
	return reconciler.Wait(0), nil
}

// repeated is how long a health check's order from before the connection is held,
// waiting for the order to be repeated. The health check controller may run in
// another process, which has no reason to repeat it.
const repeated = time.Minute

// holdOrders reads the machines for which orders of health checks are not valid
// yet.
func (r *Reconciler) holdOrders(ctx context.Context, s *state) (err error) {
	all := make([]*clusterv1.Machine, len(s.Machines))
	for i, m := range s.Machines {
		all[i] = m.Machine
	}
	s.OrdersHeld, s.OrdersHeldUntil, err = machines.HeldForRemediation(ctx, r.Mgmt, r.Workload, healthcheck.Orders{Cluster: s.Cluster, Now: s.Now, Timeout: repeated}, all)
	return err
}

// handOverFrom moves the etcd leadership from a machine that still exists to
// another one, so that its deletion causes no election.
func (r *Reconciler) handOverFrom(ctx context.Context, s *state, m *controlplane.Machine) error {
	if !controlplane.ManagesEtcd(s.ControlPlane) || !controlplane.Initialized(s.ControlPlane) || s.Etcd.Member(m.Node()) == nil {
		return nil
	}
	nodes := s.Askable(m)
	if len(nodes) == 0 {
		return errors.New("no other etcd member can be asked")
	}
	c, err := r.connectEtcd(ctx, s, nodes...)
	if err != nil {
		return err
	}
	return errors.Join(r.handOver(ctx, s, c, m, s.Etcd.Members), c.Close())
}
