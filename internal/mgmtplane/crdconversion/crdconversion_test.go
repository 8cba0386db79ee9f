// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// object has an entry of managed fields for each apiVersion.
func object(versions ...string) *unstructured.Unstructured {
	var entries []any
	for _, v := range versions {
		entries = append(entries, map[string]any{"manager": "m", "apiVersion": v})
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "managedFields": entries}}}
}

func TestUpdatesThatLoseManagedFieldsAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		obj, old runtime.Object
		want     bool // refused
	}{
		"an old entry stays":              {object("x.io/v2", "x.io/v1"), object("x.io/v1"), false},
		"an old entry becomes a new one":  {object("x.io/v2"), object("x.io/v1"), false},
		"all go, an old one among them":   {object(), object("x.io/v2", "x.io/v1"), true},
		"all go, of the request's alone":  {object(), object("x.io/v2"), false},
		"there are none":                  {object(), object(), false},
		"there is no metadata":            {&unstructured.Unstructured{}, &unstructured.Unstructured{}, false},
		"what is not unstructured passes": {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}, false},
	}
	kind := schema.GroupVersionKind{Group: "x.io", Version: "v2", Kind: "Thing"}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := admission.NewAttributesRecord(tc.obj, tc.old, kind, "ns", "a", kind.GroupVersion().WithResource("things"), "status", admission.Update, &metav1.UpdateOptions{}, false, nil)
			err := guard{}.Validate(t.Context(), a, nil)
			if got := err != nil && strings.Contains(err.Error(), "managedFields of Thing ns/a"); got != tc.want {
				t.Errorf("error %v, want one: %v", err, tc.want)
			}
		})
	}
	if guarding := (guard{}); guarding.Handles(admission.Create) || !guarding.Handles(admission.Update) {
		t.Error("updates alone have something to lose")
	}
}

type elsewhere struct{}

func (elsewhere) ClientConfigFor(string) (*rest.Config, error) {
	return nil, errors.New("elsewhere")
}
func (elsewhere) ClientConfigForService(string, string, int) (*rest.Config, error) {
	return nil, errors.New("elsewhere")
}

// TestReviewsStayInTheProcess also covers definitions with an injected authority.
func TestReviewsStayInTheProcess(t *testing.T) {
	t.Parallel()
	r := resolver{elsewhere{}, nil}
	for host, want := range map[string]bool{conversion.InProcessHost + ":443": true, conversion.InProcessHost: true, "other.capstan.invalid:443": false} {
		cfg, err := r.ClientConfigFor(host)
		if (err == nil) != want || want && cfg.Timeout != timeout {
			t.Errorf("%s: %+v, %v", host, cfg, err)
		}
	}
	authority, err := certs.New(certs.CA, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := r.ClientConfigFor(conversion.InProcessHost)
	if err != nil {
		t.Fatal(err)
	}
	cfg.CAData = authority.Cert
	if _, err := rest.HTTPClientFor(cfg); err != nil {
		t.Errorf("with an authority: %v", err)
	}
}
