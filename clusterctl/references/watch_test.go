// SPDX-License-Identifier: Apache-2.0

package references

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestChangesAreReported checks how often changes are reported in ten and a half
// seconds, with the time of a response in between.
func TestChangesAreReported(t *testing.T) {
	refused := func() (watch.Interface, error) { return nil, errors.New("forbidden") }
	ended := func() (watch.Interface, error) {
		w := watch.NewFake()
		w.Stop()
		return w, nil
	}
	for name, tc := range map[string]struct {
		watch func() (watch.Interface, error) // nil is one that works
		write time.Duration                   // between two writes; 0 for none
		want  int
	}{
		"that a watch began, and nothing while nothing changes": {want: 1},
		"each change": {write: 2 * time.Second, want: 1 + 5},
		"that there may be one, while watching is refused": {watch: refused, want: 10},
		"and when watches end at once":                     {watch: ended, want: 1 + 2*10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mgmt := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
					Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
						if tc.watch != nil {
							return tc.watch()
						}
						return c.Watch(ctx, &corev1.ConfigMapList{}, opts...)
					},
				}).Build()
				w := NewWatcher(t.Context(), mgmt)
				w.Follow(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.InNamespace("ns"))
				w.Follow(corev1.SchemeGroupVersion.WithKind("ConfigMap"), client.InNamespace("ns")) // does nothing
				told, counting := 0, make(chan struct{})
				ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
				defer cancel()
				go func() {
					defer close(counting)
					for {
						select {
						case <-w.Changed():
							told++
						case <-ctx.Done():
							return
						}
					}
				}()
				for n := 0; tc.write > 0 && ctx.Err() == nil; n++ {
					time.Sleep(tc.write)
					if ctx.Err() == nil {
						cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "c"}}
						if err := mgmt.Create(ctx, cm); err != nil {
							t.Fatal(err)
						}
					}
				}
				<-counting
				w.Stop()
				if told != tc.want {
					t.Errorf("told %d times, want %d", told, tc.want)
				}
			})
		})
	}
}
