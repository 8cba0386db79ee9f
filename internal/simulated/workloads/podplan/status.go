// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// SetStatus is what a ReplicaSet reports of its Pods, and when that changes by time
// alone. failed is why the last Pod could not be created or deleted.
func SetStatus(s *appsv1.ReplicaSet, pods []Pod, failed error, now time.Time) (appsv1.ReplicaSetStatus, time.Time) {
	n := Count(pods, s.Spec.MinReadySeconds, now)
	out := appsv1.ReplicaSetStatus{
		ObservedGeneration: s.Generation, Replicas: n.Total, ReadyReplicas: n.Ready, AvailableReplicas: n.Available,
	}
	template := labels.SelectorFromSet(s.Spec.Template.Labels)
	for _, p := range pods {
		if p.Active() && template.Matches(labels.Set(p.Labels)) {
			out.FullyLabeledReplicas++
		}
	}
	if failed == nil {
		return out, n.Again
	}
	c := appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: failed.Error(), LastTransitionTime: metav1.NewTime(now),
	}
	for _, was := range s.Status.Conditions {
		if was.Type == c.Type {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	out.Conditions = []appsv1.ReplicaSetCondition{c}
	return out, n.Again
}
