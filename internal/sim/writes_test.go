// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestAReconcileWritesItsObjectAtMostTwice follows a cluster through its life:
// no reconcile writes metadata and spec of its object more than once, nor its
// status.
func TestAReconcileWritesItsObjectAtMostTwice(t *testing.T) {
	t.Parallel()
	w := New(t)
	own := watchOwnWrites(w, func(controller string, key client.ObjectKey, spec, status int) {
		if spec > 1 || status > 1 {
			t.Errorf("controller %s, %s: one reconcile wrote metadata or spec %d times and the status %d times", controller, key, spec, status)
		}
	})
	create(t, w, "demo", 3, 2)
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "upgrade", func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.Version = "v1.36.4"
	})
	if err := w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})); err != nil {
		t.Fatal(err)
	}
	w.Run()
	if *own < 100 {
		t.Errorf("%d writes were seen: they go another way", *own)
	}
}

// watchOwnWrites calls report with the number of writes of each reconcile to its
// object, and counts all such writes.
func watchOwnWrites(w *story, report func(controller string, key client.ObjectKey, spec, status int)) *int {
	var kind string
	var of client.ObjectKey
	var spec, status int
	total := new(int)
	count := func(obj client.Object, n *int) {
		gvk, err := apiutil.GVKForObject(obj, w.store.Scheme())
		if err == nil && gvk.Kind == kind && client.ObjectKeyFromObject(obj) == of {
			*n++
			*total++
		}
	}
	w.store.WithWatch = interceptor.NewClient(w.store.WithWatch, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			count(obj, &spec)
			return c.Patch(ctx, obj, patch, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			count(obj, &spec)
			return c.Update(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			count(obj, &status)
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	for i := range w.controllers {
		c := &w.controllers[i]
		step := c.step
		c.step = func(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
			kind, of, spec, status = c.kind.Kind, key, 0, 0
			defer func() { report(c.Name, key, spec, status) }()
			return step(ctx, key)
		}
	}
	return total
}
