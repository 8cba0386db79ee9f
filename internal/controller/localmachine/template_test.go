// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

// offering offers machines of one size.
type offering struct{ localinfra.Backend }

func (offering) Offer(infrav1.LocalMachineSpec) localinfra.Offer {
	return localinfra.Offer{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}, NodeInfo: infrav1.NodeInfo{OperatingSystem: "linux"}}
}

func TestTemplateReportsCapacityOnce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	made := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
	made.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	written := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&infrav1.LocalMachineTemplate{}).
		WithObjects(made).
		WithInterceptorFuncs(writes.Before(func(string, client.Object) error { written++; return nil })).Build()
	r := &TemplateReconciler{Deps: deps.Deps{Mgmt: c}, Backends: localinfra.Backends{Simulated: offering{}}}
	tmpl := &infrav1.LocalMachineTemplate{}
	for range 2 {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "t"}, tmpl); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), tmpl); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(tmpl), tmpl); err != nil {
		t.Fatal(err)
	}
	if tmpl.Status.Capacity.Cpu().Value() != 4 || tmpl.Status.NodeInfo.OperatingSystem != "linux" {
		t.Errorf("status %+v", tmpl.Status)
	}
	if written != 1 {
		t.Errorf("%d writes, want 1", written)
	}
}

func TestTemplateOfUnavailableKindReportsNothing(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	tmpl := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(writes.Before(func(verb string, _ client.Object) error {
		t.Errorf("it was written: %s", verb)
		return nil
	})).Build()
	if _, err := (&TemplateReconciler{Deps: deps.Deps{Mgmt: c}}).Reconcile(t.Context(), tmpl); err != nil {
		t.Error(err)
	}
}
