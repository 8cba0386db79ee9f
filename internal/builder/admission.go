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

// TemplateBombs are Go templates without their own bounds, of each sort. All run as
// plain text/template with sprig until memory or time is used up.
func TemplateBombs() map[string]string {
	return map[string]string{
		"loop with width":      `{{ range 99999999 }}{{ printf "%999999d" 1 }}{{ end }}`,
		"empty loops":          `{{ range 999999999 }}{{ range 999999999 }}{{ end }}{{ end }}`,
		"loop over a list":     `{{ range until 999999999 }}{{ end }}`,
		"recursion":            `{{ define "a" }}{{ template "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`,
		"text that doubles":    `{{ $x := "x" }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}{{ len $x }}`,
		"list that doubles":    `{{ $x := list 1 }}{{ range 64 }}{{ $x = concat $x $x }}{{ end }}`,
		"map that doubles":     `{{ $x := dict }}{{ range 64 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x }}`,
		"repeated text":        `{{ repeat 999999999 "x" }}`,
		"indented text":        `{{ indent 999999999 "x" }}`,
		"numbers":              `{{ seq 1 999999999 }}`,
		"width from arguments": `{{ range 9999 }}{{ printf "%*d" 999999 1 }}{{ end }}`,
		"replaced text":        `{{ $x := repeat 99999 "x" }}{{ replace "x" $x $x }}`,
		"regular expression":   `{{ $x := repeat 99999 "x" }}{{ range 9999 }}{{ if regexMatch "(x?){999}y" $x }}{{ end }}{{ end }}`,
		"key":                  `{{ genPrivateKey "rsa" }}`,
		"random text":          `{{ randAlphaNum 999999999 }}`,
	}
}
