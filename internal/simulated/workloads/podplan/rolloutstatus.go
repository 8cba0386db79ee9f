// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status is what a Deployment reports of its sets, and when that changes by
// time alone.
func (r Rollout) status(current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (appsv1.DeploymentStatus, time.Time) {
	d := r.Deployment
	s := appsv1.DeploymentStatus{ObservedGeneration: d.Generation, CollisionCount: d.Status.CollisionCount}
	specified := int32(0)
	sets := old
	if current != nil {
		sets = append(slices.Clone(old), current)
		s.UpdatedReplicas = current.Status.Replicas
	}
	var failure *appsv1.DeploymentCondition
	for _, set := range sets {
		specified += *set.Spec.Replicas
		s.Replicas += set.Status.Replicas
		s.ReadyReplicas += set.Status.ReadyReplicas
		s.AvailableReplicas += set.Status.AvailableReplicas
		for _, c := range set.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue { // the current one is the last
				failure = &appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
		}
	}
	s.UnavailableReplicas = max(0, specified-s.AvailableReplicas)
	_, unavailable := bounds(d)
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse,
		Reason: "MinimumReplicasUnavailable", Message: "Deployment does not have minimum availability.",
	}
	if s.AvailableReplicas >= wanted(d)-unavailable {
		available.Status, available.Reason, available.Message = corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability."
	}
	progress, again := r.progress(current, s)
	for _, c := range []*appsv1.DeploymentCondition{&available, progress, failure} {
		if c == nil {
			continue
		}
		now := metav1.NewTime(r.Now)
		if was := conditionOf(d, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
			if c.LastUpdateTime.IsZero() && was.Reason == c.Reason {
				c.LastUpdateTime = was.LastUpdateTime
			}
		} else {
			c.LastTransitionTime = now
		}
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		s.Conditions = append(s.Conditions, *c)
	}
	return s, again
}

// progress is the condition Progressing; nil for a Deployment without a deadline.
// It also returns when the deadline will have passed.
func (r Rollout) progress(current *appsv1.ReplicaSet, s appsv1.DeploymentStatus) (*appsv1.DeploymentCondition, time.Time) {
	d := r.Deployment
	if d.Spec.ProgressDeadlineSeconds == nil {
		return nil, time.Time{}
	}
	c := &appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue}
	was := conditionOf(d, c.Type)
	deadline := func(since time.Time) time.Time {
		return since.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
	}
	name := ""
	if current != nil {
		name = current.Name
	}
	switch {
	case d.Spec.Paused:
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused"
	case current != nil && complete(d, s):
		c.Reason, c.Message = "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet %q has successfully progressed.", name)
	case was == nil || was.Status == corev1.ConditionUnknown || was.Reason == "NewReplicaSetAvailable" || moved(d.Status, s):
		c.Reason, c.Message = "ReplicaSetUpdated", fmt.Sprintf("ReplicaSet %q is progressing.", name)
		c.LastUpdateTime = metav1.NewTime(r.Now)
		return c, deadline(r.Now)
	case was.Status == corev1.ConditionFalse || !r.Now.Before(deadline(was.LastUpdateTime.Time)):
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ProgressDeadlineExceeded", fmt.Sprintf("ReplicaSet %q has timed out progressing.", name)
	default:
		*c = *was
		return c, deadline(was.LastUpdateTime.Time)
	}
	return c, time.Time{}
}

// moved reports whether a rollout got further.
func moved(was, is appsv1.DeploymentStatus) bool {
	return is.UpdatedReplicas > was.UpdatedReplicas || is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		is.ReadyReplicas > was.ReadyReplicas || is.AvailableReplicas > was.AvailableReplicas
}

func complete(d *appsv1.Deployment, s appsv1.DeploymentStatus) bool {
	want := wanted(d)
	return s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want && s.ObservedGeneration >= d.Generation
}

func conditionOf(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
