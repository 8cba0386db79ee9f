// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/plan"
)

var jobKind = kinds.ByType(&batchv1.Job{})

func (c *Controllers) job(key store.Key) (time.Time, error) {
	j := read[batchv1.Job](c, key)
	if j == nil || j.DeletionTimestamp != nil {
		return time.Time{}, nil
	}
	claimed, err := c.claim(j, *metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job")), j.Spec.Selector)
	if err != nil {
		return time.Time{}, err
	}
	p := plan.Work{Job: j, Pods: claimed, Now: c.clock.Now()}.Plan()
	if p.Expired {
		return time.Time{}, c.deleteJob(j)
	}
	if err := c.apply(p.Create, nil); err != nil {
		return p.Again, err
	}
	p.Status.Active += int32(len(p.Create))
	if !equality.Semantic.DeepEqual(j.Status, p.Status) {
		if err := modify(c, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}}, func(o *batchv1.Job) error {
			o.Status = p.Status
			return nil
		}); err != nil {
			return p.Again, err
		}
	}
	// Only now: the reason of its end is lost with its Pods.
	return p.Again, c.apply(nil, p.Delete)
}

func (c *Controllers) deleteJob(j *batchv1.Job) error {
	_, _, err := c.store.Delete(jobKind, j.Namespace, j.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground), Preconditions: &metav1.Preconditions{UID: &j.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (c *Controllers) cronJob(key store.Key) (time.Time, error) {
	j := read[batchv1.CronJob](c, key)
	if j == nil {
		return time.Time{}, nil
	}
	own := list[batchv1.Job](c, jobs, j.Namespace, func(e *store.Entry) bool { return slices.Contains(e.Owners, j.UID) })
	p, err := plan.Cron{Job: j, Jobs: own, Now: c.clock.Now()}.Plan()
	if err != nil { // only a change helps
		return time.Time{}, c.warn(c.store.Entries().Get(key), "UnparseableSchedule", err.Error())
	}
	if p.Create != nil {
		if err := c.store.Add(p.Create); err != nil && !apierrors.IsAlreadyExists(err) {
			return p.Again, err
		}
	}
	for _, old := range p.Delete {
		if err := c.deleteJob(old); err != nil {
			return p.Again, err
		}
	}
	if equality.Semantic.DeepEqual(j.Status, p.Status) {
		return p.Again, nil
	}
	return p.Again, modify(c, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}}, func(o *batchv1.CronJob) error {
		o.Status = p.Status
		return nil
	})
}
