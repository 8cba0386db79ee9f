// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestChangeInvalidatesAnswerBeforeReconcile calls the extension during the
// notification: a queue may be as quick.
func TestChangeInvalidatesAnswerBeforeReconcile(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, blocking)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var left []int32
	wake := w.Source(func(_ context.Context, config string) []reconcile.Request {
		got, err := w.create(t)
		if err != nil {
			t.Error(err)
		}
		left = append(left, got.RetryAfterSeconds)
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: config}}}
	})
	if err := wake.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
	w.registry.Remove("ext")
	if len(left) != 2 || left[0] != 60 || left[1] != 0 {
		t.Errorf("seconds to wait %v, want 60 when it is there, and 0 when it has gone", left)
	}
	if req, _ := queue.Get(); req.Name != "ext" {
		t.Errorf("reconciled %v, want ext", req)
	}
}
