// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
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
				err := (&Client{mgmt: mgmt}).WaitAvailable(ctx, client.ObjectKey{Namespace: "default", Name: "demo"}, func(Event) {})
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

func TestAPauseIsAwaitedBeforeItIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := clusterv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		key := client.ObjectKey{Namespace: "default", Name: "demo"}
		mgmt := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       clusterv1.ClusterSpec{Paused: new(true)},
		}).WithInterceptorFuncs(interceptor.Funcs{
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				return nil, errors.New("no watches")
			},
		}).Build()
		c := &Client{mgmt: mgmt}
		for name, wait := range map[string]func(context.Context, client.ObjectKey, func(Event)) error{"available": c.WaitAvailable, "deleted": c.WaitDeleted} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := wait(ctx, key, func(Event) {})
			cancel()
			if err == nil || !strings.Contains(err.Error(), "\n* the end of the pause: Cluster spec.paused is set to true") {
				t.Errorf("%s: error %v", name, err)
			}
		}
	})
}

func TestFollowReportsAwaitedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := clusterv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		key := client.ObjectKey{Namespace: "default", Name: "demo"}
		mgmt := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&clusterv1.Cluster{}).
			WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}).Build()
		var told []string
		done := make(chan error, 1)
		go func() {
			done <- (&Client{mgmt: mgmt}).WaitDeleted(t.Context(), key, func(e Event) { told = append(told, e.Text) })
		}()
		synctest.Wait()
		for _, awaited := range []string{"workers", "workers", "control plane"} {
			cluster := &clusterv1.Cluster{}
			if err := mgmt.Get(t.Context(), key, cluster); err != nil {
				t.Fatal(err)
			}
			conditions.Set(cluster, time.Now(), metav1.Condition{
				Type: clusterv1.DeletingCondition, Status: metav1.ConditionTrue, Reason: "Waiting", Message: "Waiting for " + awaited,
			})
			if err := mgmt.Status().Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := mgmt.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{"Deleting Cluster default/demo", "Waiting for workers", "Waiting for control plane"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// TestAKindThatGoesMeanwhileHoldsUpNoDeletion: another provider is deleted meanwhile.
func TestAKindThatGoesMeanwhileHoldsUpNoDeletion(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(clusterv1.GroupVersion().WithKind("Machine"), meta.RESTScopeNamespace)
	listed := 0
	mgmt := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(kinds).
		WithObjects(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "machines.cluster.x-k8s.io", Labels: map[string]string{clusterv1.ProviderNameLabel: "other"}}}).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if list.GetObjectKind().GroupVersionKind().Kind == "MachineList" {
				listed++
				return apierrors.NewNotFound(schema.GroupResource{}, "")
			}
			return c.List(ctx, list, opts...)
		}}).Build()
	err := (&Client{mgmt: mgmt}).WaitDeleted(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, func(Event) {})
	if err != nil || listed != 1 {
		t.Errorf("error %v after %d lists", err, listed)
	}
}
