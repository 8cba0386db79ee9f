// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestClusterThatPanicsIsConnectedAgain: a panic ends neither the process nor the
// attempts to connect.
func TestClusterThatPanicsIsConnectedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, map[string]*server{"demo": startServer(t)})
		panics := 1
		f.Secrets = interceptor.NewClient(f.mgmt.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*corev1.Secret); ok && key.Name == "demo-kubeconfig" && panics > 0 {
					panics--
					panic("no such kubeconfig")
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		f.reconcile(t, "demo")
		time.Sleep(2 * firstRetry)
		synctest.Wait()
		if _, err := f.Client(t.Context(), keyOf("demo")); err != nil || panics != 0 {
			t.Errorf("demo is not connected after %d panics: %v", 1-panics, err)
		}
	})
}
