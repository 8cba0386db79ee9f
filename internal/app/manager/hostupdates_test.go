// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/host/updateextension"
)

// at is the registration of an extension that answers somewhere.
func at(url string) *runtimev1.ExtensionConfig {
	c := &runtimev1.ExtensionConfig{}
	c.Name, c.Spec.ClientConfig.URL = updateextension.Name, url
	return c
}

func TestTheExtensionOfTheHostIsRegisteredAtEachStart(t *testing.T) {
	t.Parallel()
	scheme, err := controllers.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	conflicts := 0
	live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(runtimev1.GroupVersion().WithResource("extensionconfigs").GroupResource(), obj.GetName(), nil)
			}
			return c.Update(ctx, obj, opts...)
		},
	}).Build()
	if err := unregister(t.Context(), live, live); err != nil {
		t.Errorf("unregister what is not there: %v", err)
	}
	if err := register(t.Context(), live, at("https://127.0.0.1:1")); err != nil {
		t.Fatal(err)
	}
	c := at("")
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"update": "in-place"}}
	if err := live.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	conflicts = 2 // others write it, too
	if err := register(t.Context(), live, at("https://127.0.0.1:2")); err != nil {
		t.Fatal(err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	if c.Spec.ClientConfig.URL != "https://127.0.0.1:2" || c.Spec.NamespaceSelector.MatchLabels["update"] != "in-place" {
		t.Errorf("registered as %+v", c.Spec)
	}
	if err := unregister(t.Context(), live, live); err != nil {
		t.Fatal(err)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
		t.Errorf("after it was taken away: %v", err)
	}
}
