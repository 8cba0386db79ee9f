// SPDX-License-Identifier: Apache-2.0

// Package builder is what the tests of several packages share: objects from YAML
// and the tables of admission.
package builder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Parse reads an object from YAML; "" is none.
func Parse[T any](t testing.TB, text string) *T {
	t.Helper()
	if text == "" {
		return nil
	}
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// Messages are the texts of errors.
func Messages(errs field.ErrorList) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// Defaulted is an object and the desired result of its defaulting, all in YAML.
type Defaulted struct{ Obj, Old, Want string }

// CheckDefaults runs a table of defaults.
func CheckDefaults[T any](t *testing.T, set func(obj, old *T), tests map[string]Defaulted) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Parse[T](t, tc.Obj)
			set(got, Parse[T](t, tc.Old))
			if diff := cmp.Diff(Parse[T](t, tc.Want), got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

// Validated is an object in YAML and the errors that it must have.
type Validated struct {
	Obj, Old string
	Want     []string
}

// CheckValidation runs a table of validations.
func CheckValidation[T any](t *testing.T, check func(obj, old *T) field.ErrorList, tests map[string]Validated) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Messages(check(Parse[T](t, tc.Obj), Parse[T](t, tc.Old)))
			if diff := cmp.Diff(tc.Want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
