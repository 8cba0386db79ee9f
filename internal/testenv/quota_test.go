// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestQuotaLimitsObjectsOfAnyKind has a kind of Kubernetes that is counted, one that
// is measured, and one of ours.
func TestQuotaLimitsObjectsOfAnyKind(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "quota-"}}
	if err := env.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns.Name, Name: name} }
	kinds := map[corev1.ResourceName]func(name string) client.Object{
		"count/secrets": func(name string) client.Object { return &corev1.Secret{ObjectMeta: meta(name)} },
		"services": func(name string) client.Object {
			return &corev1.Service{ObjectMeta: meta(name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		},
		"count/localmachinetemplates.infrastructure.capstan.dev": func(name string) client.Object {
			m := &infrav1.LocalMachineTemplate{ObjectMeta: meta(name)}
			m.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
			return m
		},
	}
	quota := &corev1.ResourceQuota{ObjectMeta: meta("limits"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for name, object := range kinds {
		quota.Spec.Hard[name] = resource.MustParse("2")
		if err := env.Client.Create(t.Context(), object("before")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := env.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	used := func(want int64) func() error {
		return func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
				return err
			}
			for name := range kinds {
				got, found := quota.Status.Used[name]
				if !found || got.Value() != want {
					return fmt.Errorf("status.used %v, want %d of %s", quota.Status.Used, want, name)
				}
			}
			return nil
		}
	}
	testenv.Eventually(t, used(1))
	for name, object := range kinds {
		if err := env.Client.Create(t.Context(), object("within")); err != nil {
			t.Errorf("%s: within the quota: %v", name, err)
		}
		if err := env.Client.Create(t.Context(), object("above")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: limits") {
			t.Errorf("%s: above the quota: error %v, want one that names the quota", name, err)
		}
	}
	for name, object := range kinds {
		if err := env.Client.Delete(t.Context(), object("before")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	testenv.Eventually(t, used(1))
	for name, object := range kinds {
		if err := env.Client.Create(t.Context(), object("again")); err != nil {
			t.Errorf("%s: after a deletion: %v", name, err)
		}
	}
}
