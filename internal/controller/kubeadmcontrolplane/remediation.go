// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

// remediate deletes the most broken of the machines that a health check wants
// replaced, or says on it why that has to wait.
func (r *Reconciler) remediate(ctx context.Context, s *state) (phase.Next, error) {
	if err := s.tidyRemediation(); err != nil {
		return phase.Continue(), err
	}
	etcdErr := s.etcd.listErr
	if !s.etcd.asked() {
		etcdErr = cmp.Or(etcdErr, workload.ErrNotConnected)
	}
	remediation := kubeadmcontrolplane.Remediate(kubeadmcontrolplane.RemediationFacts{
		Facts: s.Facts, Members: s.etcd.members, EtcdErr: etcdErr,
	})
	if remediation == nil {
		return phase.Continue(), nil
	}
	m := remediation.Machine
	s.pending[m.Name] = false
	if remediation.Reason != "" {
		s.due(remediation.Retry)
		s.remediated(m, remediation.Reason, remediation.Message)
		return phase.Continue(), nil
	}
	if err := r.handOverFrom(ctx, s, m); err != nil {
		s.remediated(m, controlplanev1.KubeadmControlPlaneMachineRemediationInternalErrorReason, "Handing over the leadership of etcd failed")
		return phase.Continue(), fmt.Errorf("Machine %s: %w", m.Name, err)
	}
	s.remediated(m, controlplanev1.KubeadmControlPlaneMachineRemediationMachineDeletingReason, "Machine is deleting")
	if err := s.commitNow(ctx, m); err != nil { // after the deletion it would be a conflict
		return phase.Continue(), err
	}
	err := r.Mgmt.Delete(ctx, m.Machine, client.Preconditions{UID: new(m.UID)})
	if client.IgnoreNotFound(err) != nil {
		return phase.Continue(), fmt.Errorf("delete Machine %s: %w", m.Name, err)
	}
	if s.ControlPlane.Annotations == nil {
		s.ControlPlane.Annotations = map[string]string{}
	}
	s.ControlPlane.Annotations[controlplanev1.RemediationInProgressAnnotation] = remediation.Record.String()
	s.ControlPlane.Status.LastRemediation = controlplanev1.LastRemediationStatus{
		Machine: remediation.Record.Machine, Time: remediation.Record.Timestamp, RetryCount: new(remediation.Record.RetryCount),
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machine", "Machine", m.Name, "reason", "it is unhealthy")
	r.event(s, m.Machine, corev1.EventTypeNormal, "SuccessfulDelete", "Remediate", "delete "+m.Name+": it is unhealthy")
	return phase.Wait(0), nil
}

func (s *state) remediated(m *kubeadmcontrolplane.Machine, reason, message string) {
	conditions.Set(m.Machine, s.Now, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

// tidyRemediation takes back what is not true any more: a machine that is
// healthy again, and a replacement that has been made.
func (s *state) tidyRemediation() error {
	for _, m := range s.Machines {
		if !m.Deleting() && !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) {
			conditions.Delete(m.Machine, clusterv1.MachineOwnerRemediatedCondition)
		}
	}
	value, ok := s.ControlPlane.Annotations[controlplanev1.RemediationInProgressAnnotation]
	if !ok {
		return nil
	}
	record, err := kubeadmcontrolplane.ParseRecord(value)
	if err != nil {
		return fmt.Errorf("annotation %s: %w; remove it", controlplanev1.RemediationInProgressAnnotation, err)
	}
	for _, m := range s.Machines {
		if m.CreationTimestamp.After(record.Timestamp.Time) {
			delete(s.ControlPlane.Annotations, controlplanev1.RemediationInProgressAnnotation)
			return nil
		}
	}
	return nil
}

// handOverFrom moves the leadership of etcd away from a machine that is still
// there, so that its end is no election.
func (r *Reconciler) handOverFrom(ctx context.Context, s *state, m *kubeadmcontrolplane.Machine) error {
	if !kubeadmcontrolplane.ManagesEtcd(s.ControlPlane) || !kubeadmcontrolplane.Initialized(s.ControlPlane) || s.etcd.member(m.Node()) == nil {
		return nil
	}
	nodes := nodesBut(s, m)
	if len(nodes) == 0 {
		return errors.New("no other etcd member can be asked")
	}
	c, err := r.connectEtcd(ctx, s, nodes...)
	if err != nil {
		return err
	}
	return errors.Join(r.handOver(ctx, s, c, m, []quorum.Member(s.etcd.members)), c.Close())
}
