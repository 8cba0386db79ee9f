// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/validation"
)

// Cron is a CronJob with the Jobs that it controls.
type Cron struct {
	Job  *batchv1.CronJob
	Jobs []*batchv1.Job
	Now  time.Time
}

// CronPlan is the result of Plan.
type CronPlan struct {
	Create *batchv1.Job
	Delete []*batchv1.Job
	Status batchv1.CronJobStatus
	Again  time.Time // when to reconcile again even if nothing changed
}

// Plan decides whether it is time for another Job. It returns an error if the
// schedule is invalid.
func (c Cron) Plan() (CronPlan, error) {
	p := CronPlan{Status: batchv1.CronJobStatus{LastScheduleTime: c.Job.Status.LastScheduleTime, LastSuccessfulTime: c.Job.Status.LastSuccessfulTime}}
	var active, succeeded, failed []*batchv1.Job
	for _, j := range c.Jobs {
		switch ended(j) {
		case batchv1.JobComplete:
			succeeded = append(succeeded, j)
			if t := j.Status.CompletionTime; t != nil && (p.Status.LastSuccessfulTime == nil || p.Status.LastSuccessfulTime.Before(t)) {
				p.Status.LastSuccessfulTime = t
			}
		case batchv1.JobFailed:
			failed = append(failed, j)
		default:
			active = append(active, j)
			p.Status.Active = append(p.Status.Active, corev1.ObjectReference{
				APIVersion: "batch/v1", Kind: "Job", Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
			})
		}
	}
	p.Delete = append(surplus(succeeded, c.Job.Spec.SuccessfulJobsHistoryLimit, 3), surplus(failed, c.Job.Spec.FailedJobsHistoryLimit, 1)...)
	if c.Job.DeletionTimestamp != nil || c.Job.Spec.Suspend != nil && *c.Job.Spec.Suspend {
		return p, nil
	}
	times, err := validation.Schedule(c.Job.Spec.Schedule, c.Job.Spec.TimeZone)
	if err != nil {
		return p, fmt.Errorf("schedule %q of CronJob %s/%s: %w", c.Job.Spec.Schedule, c.Job.Namespace, c.Job.Name, err)
	}
	due := c.due(times)
	p.Again = times.Next(c.Now)
	if due.IsZero() || len(active) > 0 && c.Job.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
		return p, nil
	}
	if c.Job.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent {
		p.Delete = append(p.Delete, active...)
	}
	p.Create, p.Status.LastScheduleTime = c.job(due), new(metav1.NewTime(due))
	return p, nil
}

// due is the last scheduled time that has passed and for which no Job was created;
// zero if there is none. Earlier missed times are skipped.
func (c Cron) due(times cron.Schedule) (due time.Time) {
	since := c.Job.CreationTimestamp.Time
	if last := c.Job.Status.LastScheduleTime; last != nil {
		since = last.Time
	}
	if s := c.Job.Spec.StartingDeadlineSeconds; s != nil {
		if from := c.Now.Add(-time.Duration(*s) * time.Second); from.After(since) {
			since = from
		}
	}
	for range 100 {
		next := times.Next(since)
		if next.IsZero() || next.After(c.Now) {
			return due
		}
		due, since = next, next
	}
	for next := times.Next(c.Now.Add(-time.Hour)); !next.IsZero() && !next.After(c.Now); next = times.Next(next) {
		due = next
	}
	return due
}

func (c Cron) job(at time.Time) *batchv1.Job {
	t := c.Job.Spec.JobTemplate.DeepCopy()
	j := &batchv1.Job{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	j.Namespace, j.Name = c.Job.Namespace, fmt.Sprintf("%s-%d", c.Job.Name, at.Unix()/60)
	j.Annotations = With(j.Annotations, batchv1.CronJobScheduledTimestampAnnotation, at.UTC().Format(time.RFC3339))
	j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c.Job, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	return j
}

func ended(j *batchv1.Job) batchv1.JobConditionType {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// surplus are the oldest beyond a limit.
func surplus(jobs []*batchv1.Job, limit *int32, unset int) []*batchv1.Job {
	if limit != nil {
		unset = int(*limit)
	}
	slices.SortStableFunc(jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return beyond(jobs, unset)
}
