// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// owner reads the object of a kind that owns another; false is that there is none yet.
func owner(ctx context.Context, c client.Client, obj client.Object, kind string, into client.Object) (bool, error) {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Kind == kind {
			err := c.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: ref.Name}, into)
			return err == nil, client.IgnoreNotFound(err)
		}
	}
	return false, nil
}

// isPaused reports whether nothing may be done for an object.
func isPaused(obj client.Object, cluster *clusterv1.Cluster) bool {
	_, annotated := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	return annotated || cluster.Spec.Paused != nil && *cluster.Spec.Paused
}

func say(obj conditions.Setter, name string, is bool, message string) {
	c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: "Not" + name, Message: message}
	if is {
		c.Status, c.Reason = metav1.ConditionTrue, name
	}
	conditions.Set(obj, time.Now(), c)
}
