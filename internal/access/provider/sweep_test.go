// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// live lists Machines like the API server, and counts its calls.
type live struct {
	client.Reader
	machines []clusterv1.Machine
	asked    int
}

func (l *live) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	l.asked++
	list.(*clusterv1.MachineList).Items = l.machines
	return nil
}

func TestSweepDeletesOnlyWhatNoMachineWasCreatedFor(t *testing.T) {
	t.Parallel()
	ownedBy := func(refs ...metav1.OwnerReference) *unstructured.Unstructured {
		h := host("h0")
		h.SetLabels(map[string]string{"set": "s"})
		h.SetOwnerReferences(refs)
		return h
	}
	maker := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineSet", Name: "s", UID: "s"}
	controller := maker
	controller.Kind, controller.Name, controller.Controller = "Machine", "other", new(true)
	stranger := maker
	stranger.Name = "another"
	going := ownedBy(maker)
	going.SetFinalizers([]string{"x/y"})
	going.SetDeletionTimestamp(new(metav1.Now()))
	unlabelled := ownedBy(maker)
	unlabelled.SetLabels(nil)
	machine := func(name string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	referring := machine("renamed")
	referring.Spec.InfrastructureRef = ref

	tests := map[string]struct {
		host   *unstructured.Unstructured
		cached []client.Object
		live   []clusterv1.Machine
		want   []string
		asked  int
	}{
		"a leftover":                            {host: ownedBy(maker), want: []string{"h0"}, asked: 1},
		"what a Machine of its name uses":       {host: ownedBy(maker), cached: []client.Object{machine("h0")}},
		"the same, before the cache shows it":   {host: ownedBy(maker), live: []clusterv1.Machine{*machine("h0")}, asked: 1},
		"what a Machine of another name uses":   {host: ownedBy(maker), live: []clusterv1.Machine{*referring}, asked: 1},
		"what another owner has taken over":     {host: ownedBy(maker, controller)},
		"what another maker made":               {host: ownedBy(stranger)},
		"what has no owner":                     {host: ownedBy()},
		"what has none of the maker's labels":   {host: unlabelled},
		"what is being deleted already":         {host: going},
		"nothing, for want of the kind's CRD":   {},
		"other Machines do not save a leftover": {host: ownedBy(maker), cached: []client.Object{machine("h1")}, live: []clusterv1.Machine{*machine("h1")}, want: []string{"h0"}, asked: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var deleted []string
			objects := tc.cached
			if tc.host != nil {
				objects = append(objects, good(), tc.host)
			}
			c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
				WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					var o client.DeleteOptions
					o.ApplyOptions(opts)
					if *o.Preconditions.UID != obj.GetUID() || *o.Preconditions.ResourceVersion != obj.GetResourceVersion() {
						t.Errorf("preconditions %v, want those of what was read", o.Preconditions)
					}
					deleted = append(deleted, obj.GetName())
					return c.Delete(ctx, obj)
				}}).Build()
			api := &live{machines: tc.live}
			err := New(c, nil).Sweep(t.Context(), api, Leftovers{
				Maker: &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "s"}},
				Kinds: []schema.GroupKind{CopyKind(schema.GroupKind{Group: "x.io", Kind: "HostTemplate"})},
				Label: "set", Value: "s",
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if api.asked != tc.asked {
				t.Errorf("the API server was asked %d times, want %d", api.asked, tc.asked)
			}
		})
	}
}
