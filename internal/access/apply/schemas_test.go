// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/testenv"
)

var widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// server has a CRD, and counts how often it is read whole.
type server struct {
	client.Client
	mu    sync.Mutex // guards reads
	reads int
}

func newServer(t *testing.T) (*server, *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crd := testenv.Kind(widget.Group, widget.Kind)
	crd.UID, crd.Generation = "u1", 1
	s := &server{}
	s.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(crd).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, whole := obj.(*unstructured.Unstructured); whole {
				s.mu.Lock()
				s.reads++
				s.mu.Unlock()
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	return s, crd
}

func TestACRDIsReadOnceUntilItChanges(t *testing.T) {
	t.Parallel()
	s, crd := newServer(t)
	c := apply.NewSchemas(s, s)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.Type(t.Context(), widget); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s.reads != 1 {
		t.Errorf("read %d times, want once", s.reads)
	}
	first, err := c.Type(t.Context(), widget)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(){
		"another generation": func() { crd.Generation = 2 },
		"another CRD":        func() { crd.UID, crd.Generation = "u2", 1 },
	} {
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			t.Fatal(err)
		}
		change()
		if err := s.Update(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		next, err := c.Type(t.Context(), widget)
		if err != nil || next == first {
			t.Errorf("%s: not read again, %v", name, err)
		}
		first = next
	}
	if s.reads != 3 {
		t.Errorf("read %d times, want 3", s.reads)
	}
}

// TestACRDNewerThanTheWatchIsNotReadAgain delays the watch.
func TestACRDNewerThanTheWatchIsNotReadAgain(t *testing.T) {
	t.Parallel()
	old, _ := newServer(t)
	s, crd := newServer(t)
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Fatal(err)
	}
	crd.Generation = 5
	if err := s.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	c := apply.NewSchemas(old, s)
	for range 3 {
		if _, err := c.Type(t.Context(), widget); err != nil {
			t.Fatal(err)
		}
	}
	if s.reads != 1 {
		t.Errorf("read %d times, want once", s.reads)
	}
}

func TestUnusableKindIsReportedWithRemedy(t *testing.T) {
	t.Parallel()
	s, _ := newServer(t)
	c := apply.NewSchemas(s, s)
	for name, tc := range map[string]struct {
		kind schema.GroupVersionKind
		want string
	}{
		"no CRD":     {widget.GroupVersion().WithKind("Gadget"), "kind Gadget: there is no CRD gadgets.example.com: install the provider that brings it"},
		"no version": {widget.GroupKind().WithVersion("v2"), "kind Widget: CRD widgets.example.com does not serve version v2: correct the version"},
	} {
		if _, err := c.Type(t.Context(), tc.kind); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
