// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/simulated/workloads/plan"
)

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, ServiceName: name, Selector: selector(name), Template: template(name, "v1"),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
	}}
}

// images are those of the Pods, by name.
func (l *lab) images() []string {
	l.t.Helper()
	var out []string
	for _, p := range load[corev1.Pod](l, "v1/pods", "default") {
		out = append(out, p.Name+" "+p.Spec.Containers[0].Image)
	}
	return out
}

func (l *lab) stateful(name string) appsv1.StatefulSetStatus {
	l.t.Helper()
	s := &appsv1.StatefulSet{ObjectMeta: meta(name)}
	l.must(l.store.Load(s))
	return s.Status
}

func TestAStatefulSetComesUpAndIsUpdatedOnePodAfterAnother(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	s := statefulSet("db", 3)
	s.Spec.MinReadySeconds = 10
	l.must(l.store.Add(s))
	l.want("at first", l.images(), "db-0 v1")
	l.pass(10 * time.Second)
	l.want("once it is available", l.images(), "db-0 v1", "db-1 v1")
	l.pass(10 * time.Second)
	l.pass(10 * time.Second)
	l.want("in the end", l.images(), "db-0 v1", "db-1 v1", "db-2 v1")
	if got := len(load[corev1.PersistentVolumeClaim](l, "v1/persistentvolumeclaims", "default")); got != 3 {
		t.Errorf("%d claims, want 3", got)
	}
	set := &appsv1.StatefulSet{ObjectMeta: meta("db")}
	change(l, set, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Image = "v2"
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(1))}
	})
	l.want("the last first", l.images(), "db-0 v1", "db-1 v1", "db-2 v2")
	l.pass(10 * time.Second)
	l.pass(10 * time.Second)
	l.want("down to the partition", l.images(), "db-0 v1", "db-1 v2", "db-2 v2")
	if s := l.stateful("db"); s.UpdatedReplicas != 2 || s.CurrentReplicas != 1 || s.CurrentRevision == s.UpdateRevision || s.AvailableReplicas != 3 {
		t.Errorf("status %+v", s)
	}
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("pods"), "default", "db-0"))
	l.want("what is below the partition stays what it was", l.images(), "db-0 v1", "db-1 v2", "db-2 v2")
	l.pass(10 * time.Second)
	change(l, set, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(0)) })
	l.pass(10 * time.Second)
	if s := l.stateful("db"); s.CurrentRevision != s.UpdateRevision || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 || s.ReadyReplicas != 3 {
		t.Errorf("status of a set that is updated: %+v", s)
	}
	change(l, set, func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(1)) })
	l.want("the last goes first, down to one", l.images(), "db-0 v2")
}

func TestAStatefulSetMayComeUpAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	s := statefulSet("db", 2)
	s.Spec.MinReadySeconds, s.Spec.PodManagementPolicy = 10, appsv1.ParallelPodManagement
	s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	l.must(l.store.Add(s))
	l.want("at first", l.images(), "db-5 v1", "db-6 v1")
}

func job(name string, change func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Template: template(name, "v1")}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if change != nil {
		change(&j.Spec)
	}
	return j
}

// worked is how far a Job is.
func (l *lab) worked(name string) string {
	l.t.Helper()
	j := &batchv1.Job{ObjectMeta: meta(name)}
	l.must(l.store.Load(j))
	s := j.Status
	out := fmt.Sprintf("%d active, %d succeeded, %d failed", s.Active, s.Succeeded, s.Failed)
	for _, c := range s.Conditions {
		out += fmt.Sprintf(", %s=%s %s", c.Type, c.Status, c.Reason)
	}
	return out
}

func TestAJobRunsToItsEnd(t *testing.T) {
	t.Parallel()
	takes := func(seconds string) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) {
			s.Template.Annotations = map[string]string{plan.RunSecondsAnnotation: seconds}
		}
	}
	fails := func(limit int32) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) {
			s.BackoffLimit = &limit
			s.Template.Annotations = map[string]string{plan.ExitCodeAnnotation: "3"}
		}
	}
	const complete = ", SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"
	tests := map[string]struct {
		change func(*batchv1.JobSpec)
		pass   []time.Duration
		want   string
	}{
		"at once":                 {nil, nil, "0 active, 1 succeeded, 0 failed" + complete},
		"many, side by side":      {func(s *batchv1.JobSpec) { s.Completions, s.Parallelism = new(int32(5)), new(int32(2)) }, nil, "0 active, 5 succeeded, 0 failed" + complete},
		"as long as it takes":     {takes("60"), []time.Duration{59 * time.Second}, "1 active, 0 succeeded, 0 failed"},
		"when it has taken it":    {takes("60"), []time.Duration{time.Minute}, "0 active, 1 succeeded, 0 failed" + complete},
		"a queue":                 {func(s *batchv1.JobSpec) { s.Parallelism = new(int32(3)) }, nil, "0 active, 3 succeeded, 0 failed" + complete},
		"not while it may not":    {func(s *batchv1.JobSpec) { s.Suspend = new(true) }, nil, "0 active, 0 succeeded, 0 failed, Suspended=True JobSuspended"},
		"after a failure, later":  {fails(1), []time.Duration{9 * time.Second}, "0 active, 0 succeeded, 1 failed"},
		"not after too many":      {fails(1), []time.Duration{10 * time.Second}, "0 active, 0 succeeded, 2 failed, FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded"},
		"not beyond its deadline": {func(s *batchv1.JobSpec) { takes("60")(s); s.ActiveDeadlineSeconds = new(int64(30)) }, []time.Duration{30 * time.Second}, "0 active, 0 succeeded, 1 failed, FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "a")
			l.must(l.store.Add(job("work", tc.change)))
			for _, d := range tc.pass {
				l.pass(d)
			}
			l.want("job", []string{l.worked("work")}, tc.want)
		})
	}
}

func TestAJobIsForgottenAfterAWhile(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	l.must(l.store.Add(job("work", func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = new(int32(60)) })))
	l.want("before", l.pods(), "work on a: Succeeded")
	l.pass(time.Minute)
	if got := len(load[batchv1.Job](l, "batch/v1/jobs", "default")); got != 0 || len(l.pods()) != 0 {
		t.Errorf("%d Jobs and %v are left", got, l.pods())
	}
}

func TestACronJobStartsJobsWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	c := &batchv1.CronJob{ObjectMeta: meta("tick"), Spec: batchv1.CronJobSpec{Schedule: "*/10 * * * *"}}
	c.Spec.JobTemplate.Spec = job("tick", nil).Spec
	l.must(l.store.Add(c))
	count := func() int { return len(load[batchv1.Job](l, "batch/v1/jobs", "default")) }
	l.pass(9 * time.Minute)
	if got := count(); got != 0 {
		t.Errorf("%d Jobs before the first is due", got)
	}
	for range 5 {
		l.pass(10 * time.Minute)
	}
	if got := count(); got != 3 {
		t.Errorf("%d Jobs, want as many as the history holds", got)
	}
	l.must(l.store.Load(c))
	if c.Status.LastScheduleTime.Format(time.TimeOnly) != "12:50:00" || c.Status.LastSuccessfulTime == nil || len(c.Status.Active) != 0 {
		t.Errorf("status %+v", c.Status)
	}
}
