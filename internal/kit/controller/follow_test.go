// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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
