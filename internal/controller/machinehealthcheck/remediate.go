// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// maxNote is the maximum length of the text of an event.
const maxNote = 1024

// remediate evaluates the targets and executes the resulting actions.
func (r *Reconciler) remediate(ctx context.Context, s *state) (reconciler.Next, error) {
	s.decision, s.decided = healthcheck.Decide(s.Facts), true
	decisions.Add(ctx, s.Facts, s.decision)
	errs := []error{s.templateErr}
	for _, a := range s.decision.Actions {
		errs = append(errs, r.carryOut(ctx, s, a))
	}
	key, news := client.ObjectKeyFromObject(s.Check), healthcheck.Event(s.Facts, s.decision)
	if r.mustEmit(key, news.Once) {
		r.Recorder.Eventf(s.Check, nil, news.Type, news.Reason, "Remediate", "%s", sanitize.Line(news.Message, maxNote))
	}
	return reconciler.Continue(), errors.Join(errs...)
}

// carryOut writes the result to a Machine, in one write, after the request for its
// remediation.
func (r *Reconciler) carryOut(ctx context.Context, s *state, a healthcheck.Action) error {
	var failed error
	switch a.Request {
	case healthcheck.Make:
		if failed = r.makeRequest(ctx, s, a.Machine); failed != nil {
			a = a.Failed(failed)
		}
	case healthcheck.Remove:
		failed = r.removeRequest(ctx, s, a.Machine)
	}
	m := a.Machine.DeepCopy()
	commit := patch.Snapshot(r.Mgmt, m, patch.Locked)
	if a.Again {
		conditions.Delete(m, clusterv1.MachineHealthCheckSucceededCondition)
	}
	for _, c := range a.Set {
		conditions.Set(m, s.Now, c)
	}
	for _, t := range a.Drop {
		conditions.Delete(m, t)
	}
	if r.Deprecated {
		v1beta1conditions.SetMachine(m, s.Now, healthcheck.Deprecated(m)...)
	}
	err := commit(ctx)
	if err == nil && a.Marked != "" {
		ctrl.LoggerFrom(ctx).Info("Machine is unhealthy", "Machine", m.Name, "reason", a.Marked)
		r.Recorder.Eventf(m, s.Check, corev1.EventTypeNormal, "MachineMarkedUnhealthy", "MarkUnhealthy", "%s", sanitize.Line(a.Marked, maxNote))
	}
	return errors.Join(failed, err)
}

// report fills the status from the state.
func report(s *state, failed error) {
	check := s.Check
	conditions.Set(check, s.Now, pause.Condition(s.Cluster, check))
	if !s.decided && s.Cluster != nil {
		return // the reconcile has no new results
	}
	next := healthcheck.Report(s.Facts, s.decision)
	for _, c := range next.Conditions {
		conditions.Set(check, s.Now, c)
	}
	next.Conditions, next.ObservedGeneration, next.Deprecated = check.Status.Conditions, check.Status.ObservedGeneration, check.Status.Deprecated
	if failed == nil {
		next.ObservedGeneration = check.Generation
	}
	check.Status = next
}
