// SPDX-License-Identifier: Apache-2.0

// Package pause decides whether an object may be reconciled now, and reports it in
// its Paused condition.
package pause

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Requested reports whether the Cluster or the object itself requests a pause.
// cluster may be nil.
func Requested(cluster *clusterv1.Cluster, obj metav1.Object) bool {
	return len(reasons(cluster, obj)) > 0
}

// Condition returns the Paused condition of an object; its message names what
// requests the pause. cluster may be nil.
func Condition(cluster *clusterv1.Cluster, obj metav1.Object) metav1.Condition {
	c := metav1.Condition{
		Type:               clusterv1.PausedCondition,
		Status:             metav1.ConditionFalse,
		Reason:             clusterv1.NotPausedReason,
		ObservedGeneration: obj.GetGeneration(),
	}
	if why := reasons(cluster, obj); len(why) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, clusterv1.PausedReason, strings.Join(why, ", ")
	}
	return c
}

func reasons(cluster *clusterv1.Cluster, obj metav1.Object) (why []string) {
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		why = append(why, "Cluster spec.paused is set to true")
	}
	if _, ok := obj.GetAnnotations()[clusterv1.PausedAnnotation]; ok {
		why = append(why, "the object has the annotation "+clusterv1.PausedAnnotation)
	}
	return why
}
