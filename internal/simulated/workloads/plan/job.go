// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How long a Job waits after a failure, and after the next ones, at most.
const (
	firstBackoff = 10 * time.Second
	lastBackoff  = 10 * time.Minute
)

// Work is a Job with its objects.
type Work struct {
	Job  *batchv1.Job
	Pods []Pod
	Now  time.Time
}

// WorkPlan is the result of Plan.
type WorkPlan struct {
	Create  []*corev1.Pod
	Delete  []Pod
	Expired bool // its TTL after it finished has passed
	Status  batchv1.JobStatus
	Again   time.Time // when to reconcile again even if nothing changed
}

// tally are the Pods of a Job by how they fare.
type tally struct {
	active            []Pod
	succeeded, failed int32
	ready             int32
	done              map[int]bool // indexes that have succeeded
	last              time.Time    // of a failure
}

func (w Work) tally() tally {
	t := tally{done: map[int]bool{}}
	for _, p := range w.Pods {
		switch {
		case p.Phase == corev1.PodSucceeded:
			t.succeeded++
			t.done[index(p.Labels)] = true
		case p.Phase == corev1.PodFailed:
			t.failed++
			if p.Since.After(t.last) {
				t.last = p.Since
			}
		case !p.Leaving:
			t.active = append(t.active, p)
			if p.Ready {
				t.ready++
			}
		}
	}
	if w.indexed() {
		t.succeeded = int32(len(t.done))
	} else {
		t.succeeded = max(t.succeeded, w.Job.Status.Succeeded)
	}
	t.failed = max(t.failed, w.Job.Status.Failed)
	return t
}

func (w Work) indexed() bool {
	return w.Job.Spec.CompletionMode != nil && *w.Job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func index(labels map[string]string) int {
	n, err := strconv.Atoi(labels[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// Plan decides what a Job does next.
func (w Work) Plan() WorkPlan {
	p := WorkPlan{Status: *w.Job.Status.DeepCopy()}
	if end := w.ended(); !end.IsZero() {
		if ttl := w.Job.Spec.TTLSecondsAfterFinished; ttl != nil {
			p.Again = end.Add(time.Duration(*ttl) * time.Second)
			p.Expired = !w.Now.Before(p.Again)
		}
		return p
	}
	t, s := w.tally(), &p.Status
	suspended := w.Job.Spec.Suspend != nil && *w.Job.Spec.Suspend
	s.Active, s.Ready, s.Succeeded, s.Failed = int32(len(t.active)), &t.ready, t.succeeded, t.failed
	s.Terminating = new(int32)
	if w.indexed() {
		s.CompletedIndexes = intervals(t.done)
	}
	if suspended {
		p.Delete, s.StartTime, s.Active, s.Ready = t.active, nil, 0, new(int32)
		w.set(s, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended")
		return p
	}
	if slices.ContainsFunc(s.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended }) {
		w.set(s, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed")
	}
	if s.StartTime == nil {
		s.StartTime = new(metav1.NewTime(w.Now))
	}
	if w.finish(&p, t) {
		return p
	}
	w.fill(&p, t)
	return p
}

// ended is when the Job ended; zero if it has not.
func (w Work) ended() time.Time {
	for _, c := range w.Job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// finish ends the Job if it has succeeded or failed.
func (w Work) finish(p *WorkPlan, t tally) bool {
	s, spec := &p.Status, w.Job.Spec
	whole := spec.Completions != nil && t.succeeded >= *spec.Completions || spec.Completions == nil && t.succeeded > 0 && len(t.active) == 0
	target, condition, reason, message := batchv1.JobFailureTarget, batchv1.JobFailed, "", ""
	if spec.ActiveDeadlineSeconds != nil {
		at := s.StartTime.Add(time.Duration(*spec.ActiveDeadlineSeconds) * time.Second)
		if p.Again = at; !w.Now.Before(at) {
			reason, message = batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
		}
	}
	if limit := spec.BackoffLimit; limit != nil && t.failed > *limit {
		reason, message = batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	}
	if whole {
		target, condition, reason, message = batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"
		s.CompletionTime = new(metav1.NewTime(w.Now))
	}
	if reason == "" {
		return false
	}
	p.Delete, s.Active, s.Ready, p.Again = t.active, 0, new(int32), time.Time{}
	if !whole {
		s.Failed += int32(len(t.active))
	}
	w.set(s, target, corev1.ConditionTrue, reason, message)
	w.set(s, condition, corev1.ConditionTrue, reason, message)
	return true
}

// fill creates as many Pods as may run in parallel, some time after the last
// failure.
func (w Work) fill(p *WorkPlan, t tally) {
	spec := w.Job.Spec
	parallel := int32(1)
	if spec.Parallelism != nil {
		parallel = *spec.Parallelism
	}
	want := parallel
	if spec.Completions != nil {
		want = min(parallel, *spec.Completions-t.succeeded)
	} else if t.succeeded > 0 {
		want = int32(len(t.active)) // a queue that one has found empty
	}
	want = max(want, 0) // what is stored may be negative
	have := int32(len(t.active))
	if have > want {
		p.Delete = t.active[want:]
		return
	}
	if have == want {
		return
	}
	if t.failed > 0 && !t.last.IsZero() {
		wait := min(lastBackoff, firstBackoff<<min(t.failed-1, 10))
		if at := t.last.Add(wait); w.Now.Before(at) {
			p.Again = Sooner(p.Again, at)
			return
		}
	}
	used := map[int]bool{}
	for _, a := range t.active {
		used[index(a.Labels)] = true
	}
	next := 0
	for range want - have {
		for w.indexed() && (used[next] || t.done[next]) {
			next++
		}
		p.Create = append(p.Create, w.pod(next))
		used[next] = true
	}
}

func (w Work) pod(n int) *corev1.Pod {
	t := w.Job.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.GenerateName = w.Job.Namespace, w.Job.Name+"-"
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.Job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if w.indexed() {
		p.GenerateName = fmt.Sprintf("%s-%d-", w.Job.Name, n)
		p.Labels = With(p.Labels, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(n))
		p.Annotations = With(p.Annotations, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(n))
		p.Spec.Hostname = fmt.Sprintf("%s-%d", w.Job.Name, n)
	}
	return p
}

func (w Work) set(s *batchv1.JobStatus, kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) {
	at := metav1.NewTime(w.Now)
	c := batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: message, LastProbeTime: at, LastTransitionTime: at}
	for i, was := range s.Conditions {
		if was.Type == kind {
			if was.Status != status {
				s.Conditions[i] = c
			}
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// intervals writes numbers as in 0-2,5.
func intervals(done map[int]bool) string {
	var all []int
	for n := range done {
		if n >= 0 {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	var parts []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if part := strconv.Itoa(all[i]); j == i {
			parts = append(parts, part)
		} else {
			parts = append(parts, part+"-"+strconv.Itoa(all[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
