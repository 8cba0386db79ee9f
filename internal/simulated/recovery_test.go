// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// TestClusterStartsWithObjectThatCannotBeHandled has a CronJob in the store that an
// earlier version has accepted, and at which each start of a plane panicked.
func TestClusterStartsWithObjectThatCannotBeHandled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	ctx := t.Context()
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "v1"}}}}
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cron"}, Spec: batchv1.CronJobSpec{
		Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
	}}
	if _, err := l.client().BatchV1().CronJobs("default").Create(ctx, cron, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	entries := l.b.clusters[l.cluster.Key()].server.Store().Entries()
	key := store.Key{Resource: schema.GroupResource{Group: "batch", Resource: "cronjobs"}, Namespace: "default", Name: "cron"}
	was := entries.Get(key)
	if _, err := entries.Put(key, was, func(uint64) (*store.Entry, error) {
		spoiled := *was
		spoiled.Raw = bytes.Replace(was.Raw, []byte("@daily"), []byte("TZ=0"), 1)
		return &spoiled, nil
	}); err != nil {
		t.Fatal(err)
	}
	l.restart()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: template}}
	if _, err := l.client().BatchV1().Jobs("default").Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatalf("the API server does not serve: %v", err)
	}
	watch, err := l.client().BatchV1().Jobs("default").Watch(ctx, metav1.ListOptions{ResourceVersion: "0", TimeoutSeconds: new(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if job, ok := event.Object.(*batchv1.Job); ok && job.Status.Active+job.Status.Succeeded > 0 {
			events, err := l.client().CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=cron"})
			if err != nil || len(events.Items) != 1 {
				t.Errorf("got Events %v of the CronJob, %v, want one", events, err)
			}
			return
		}
	}
	t.Error("the controllers do not handle other objects")
}

// panickingClock panics at one of its calls.
type panickingClock struct {
	clock.RealClock
	calls, at atomic.Int64
}

func (p *panickingClock) Now() time.Time {
	if p.calls.Add(1) == p.at.Load() {
		panic("planted")
	}
	return p.RealClock.Now()
}

// TestBackendWorksAfterAnyPanic lets each call of the clock panic during the start
// of a machine: no lock stays held, and another machine starts.
func TestBackendWorksAfterAnyPanic(t *testing.T) {
	t.Parallel()
	for at := int64(1); ; at++ {
		var c panickingClock
		l := newLabWith(t, &c)
		c.calls.Store(0)
		c.at.Store(at)
		err := recovery.Call(t.Context(), func() error {
			_, err := l.b.ensureMachine(l.machine("cp-0", l.initData()))
			return err
		})
		c.at.Store(0)
		crash, panicked := errors.AsType[*recovery.Error](err)
		if err != nil && !panicked {
			t.Fatalf("call %d: %v", at, err)
		}
		t.Logf("call %d: %v", at, crash)
		m := l.machine("cp-0", nil)
		if s, err := l.b.ensureMachine(m); err != nil || !s.Done() && s.Stage != Failed {
			t.Errorf("call %d: the machine is at %s, %v, want its end or a failure", at, s.Stage, err)
		}
		if err := l.b.deleteMachine(m); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		if err := l.b.deleteCluster(l.cluster); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		if err := l.b.Close(); err != nil {
			t.Error(err)
		}
		if c.calls.Load() < at {
			return
		}
	}
}
