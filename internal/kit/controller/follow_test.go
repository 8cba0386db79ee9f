// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestExternalNamesTriggerReconciles(t *testing.T) {
	t.Parallel()
	key, names := types.NamespacedName{Namespace: "ns", Name: "m0"}, make(chan types.NamespacedName)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{names: []Names{func(context.Context) <-chan types.NamespacedName { return names }}}
	if err := f.start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	names <- key
	close(names)
	cancel()
	if err := f.Start(ctx); err != nil || queue.Len() != 1 { // it has waited for all that was sent
		t.Fatalf("%d reconciled, error %v, want one", queue.Len(), err)
	}
	if got, _ := queue.Get(); got.NamespacedName != key {
		t.Errorf("reconciled: %v, want %v", got, key)
	}
}

func TestOnlyDeletedObjectsAreRemoved(t *testing.T) {
	t.Parallel()
	type deletion = event.TypedDeleteEvent[*clusterv1.Machine]
	paused := func(status metav1.ConditionStatus) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
		conditions.Set(m, time.Now(), metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "R"})
		return m
	}
	moved := paused(metav1.ConditionFalse)
	moved.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	for name, tc := range map[string]struct {
		event deletion
		want  bool
	}{
		"what was being deleted":            {deletion{Object: paused(metav1.ConditionFalse)}, true},
		"what was paused":                   {deletion{Object: paused(metav1.ConditionTrue)}, false},
		"what was moved elsewhere":          {deletion{Object: moved}, false},
		"what vanished in one step":         {deletion{Object: &clusterv1.Machine{}}, false},
		"what is not there after a restore": {deletion{Object: paused(metav1.ConditionFalse), DeleteStateUnknown: true}, false},
	} {
		if got := asked(tc.event); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
