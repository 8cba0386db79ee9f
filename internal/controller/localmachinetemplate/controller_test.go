// SPDX-License-Identifier: Apache-2.0

package localmachinetemplate

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestATemplateTellsItsCapacityOnce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&infrav1.LocalMachineTemplate{}).
		WithObjects(&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t"}}).
		WithInterceptorFuncs(builder.Writes(func(string, client.Object) error { writes++; return nil })).Build()
	r := &Reconciler{Mgmt: c}
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
	if tmpl.Status.Capacity.Cpu().Value() != 4 || tmpl.Status.Capacity.Pods().Value() != 110 || tmpl.Status.NodeInfo.OperatingSystem != "linux" {
		t.Errorf("status %+v", tmpl.Status)
	}
	if writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}
