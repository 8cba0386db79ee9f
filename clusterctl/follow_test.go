// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestAClusterThatCannotBeWatchedIsReadNowAndThen(t *testing.T) {
	ended := watch.NewFake()
	ended.Stop()
	for name, watching := range map[string]func() (watch.Interface, error){
		"watching is forbidden": func() (watch.Interface, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{Group: clusterv1.GroupVersion().Group, Resource: "clusters"}, "", nil)
		},
		"each watch ends at once": func() (watch.Interface, error) { return ended, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				if err := clusterv1.AddToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				reads := 0
				mgmt := fake.NewClientBuilder().WithScheme(scheme).
					WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}).
					WithInterceptorFuncs(interceptor.Funcs{
						Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
							reads++
							return c.Get(ctx, key, obj, opts...)
						},
						Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
							return watching()
						},
					}).Build()
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
				defer cancel()
				err := (&Client{mgmt}).WaitAvailable(ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, func(Event) {})
				if err == nil || !strings.Contains(err.Error(), "is not all there yet") {
					t.Errorf("error %v", err)
				}
				if reads < 5 || reads > 7 {
					t.Errorf("%d reads in 6 seconds, want one a second", reads)
				}
			})
		})
	}
}
