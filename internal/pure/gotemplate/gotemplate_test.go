// SPDX-License-Identifier: Apache-2.0

package gotemplate_test

import (
	"strings"
	"sync"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
)

func values(t testing.TB) map[string]any {
	t.Helper()
	var out map[string]any
	err := utiljson.Unmarshal([]byte(`{"name":"n","count":3,"big":1000000,"half":0.5,"on":true,"none":null,"list":["b","a"],"map":{"b":"2","a":"1"},
		"builtin":{"controlPlane":{"version":"v1.33.2"}}}`), &out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRender(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{ .name }}-{{ .count }}`: "n-3",
		`{{ .big }}`:               "1000000",
		`{{ if .on }}true{{ end }}{{ if .missing }}false{{ end }}`: "true",
		`{{ .missing }}`: gotemplate.NoValue,
		`{{ coalesce .builtin.machineDeployment.version .builtin.controlPlane.version }}`:     "v1.33.2",
		`{{ semverCompare ">= 1.33.0-0" .builtin.controlPlane.version }}`:                     "true",
		`{{ range .list }}{{ . }},{{ end }}`:                                                  "b,a,",
		`{{ range $k, $v := .map }}{{ $k }}={{ $v }} {{ end }}`:                               "a=1 b=2 ",
		`{{ keys .map }} {{ values .map }}`:                                                   "[a b] [1 2]",
		`{{ eq .count 3 }} {{ eq .count 3.0 }} {{ ne .half 0.5 }}`:                            "true true false",
		`{{ eq .name "n" "m" }} {{ eq .none nil }} {{ eq .list (list "b" "a") }}`:             "true true true",
		`{{ lt .count 4 }} {{ ge .half 0.5 }} {{ gt .count 2.5 }} {{ le .name "m" }}`:         "true true true false",
		`{{ printf "%d %.0f %.1f %s %v %%" .count .count .half .name .big }}`:                 "3 3 0.5 n 1000000 %",
		`{{ printf "%[2]v %[1]v" .count .name }} {{ printf "%s" }}`:                           "n 3 %!s(MISSING)",
		`{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .name }}`:                          "<n>",
		`{{ with $d := dict "a" 1 }}{{ $_ := set $d "b" 2 }}{{ toJson $d }}{{ end }}`:         `{"a":1,"b":2}`,
		`{{- range $i := until 3 }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ $i }}{{ end -}}`: "02",
		`{{ "a\nb" | nindent 2 }}`:                                                            "\n  a\n  b",
		`{{ join "," .list | quote }} {{ replace "b" "c" "abc" }}`:                            `"b,a" acc`,
	} {
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.Render(values(t)); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{ if }}`:                               "missing value for if",
		`{{ noSuchFunction }}`:                   `function "noSuchFunction" not defined`,
		`{{ now }}`:                              "it gives another result each time",
		`{{ genCA "a" 1 }}`:                      "machines would be replaced for ever",
		`{{ env "HOME" }}`:                       "its result depends on the host",
		`{{ derivePassword 1 "a" "b" "c" "d" }}`: "it costs too much",
	} {
		if _, err := gotemplate.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{{ fail "no" }}`:   "no",
		`{{ eq .name 1 }}`:  "string and int cannot be compared",
		`{{ lt .on 1 }}`:    "bool and int have no order",
		`{{ eq .name }}`:    "missing argument for comparison",
		`{{ div 1 0 }}`:     "divide by zero",
		`{{ .name.field }}`: "can't evaluate field",
		`{{ .none.field }}`: "nil pointer",
	} {
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := e.Render(values(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestWhatATemplateCostsIsBounded runs templates any of which would take all
// memory, all time or the stack.
func TestWhatATemplateCostsIsBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{{ repeat 1000000000 "x" }}`,
		`{{ range until 1000000000 }}{{ end }}`,
		`{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`,
		`{{ range 1000000000 }}{{ end }}`,
		`{{ range 100000 }}{{ else }}{{ end }}{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}`,
		`{{ define "t" }}{{ template "t" . }}{{ template "t" . }}{{ end }}{{ template "t" . }}`,
		`{{ $x := "x" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}`,
		`{{ $x := "x" }}{{ range until 60 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`,
		`{{ $x := list 1 }}{{ range until 60 }}{{ $x = concat $x $x }}{{ end }}`,
		`{{ $x := dict "a" 1 }}{{ range until 60 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x }}`,
		`{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}`,
		`{{ indent 1000000000 "x" }}`, `{{ nindent 100000 (repeat 100000 "\n") }}`,
		`{{ untilStep 0 1000000000 1 }}`, `{{ seq 0 1000000000 }}`, `{{ printf "%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d%1000000d" 1 1 1 1 1 1 1 1 }}`,
		`{{ $x := repeat 100000 "x" }}{{ replace "x" $x $x }}`,
		`{{ $x := repeat 100000 "x" }}{{ regexReplaceAll "x" $x $x }}`,
		`{{ $x := repeat 100000 "x" }}{{ wrapWith 1 $x $x }}`,
		`{{ $x := repeat 100000 "x" }}{{ join $x (until 100000) }}`,
		`{{ uniq (until 100000) }}`,
	} {
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := e.Render(map[string]any{}); err == nil || !strings.Contains(err.Error(), "it costs too much") && !strings.Contains(err.Error(), "depth") {
			t.Errorf("%s: got %v, want a refusal", text, err)
		}
	}
}

func TestValuesAreNotChanged(t *testing.T) {
	t.Parallel()
	e, err := gotemplate.Parse(`{{ $_ := set .map "c" "3" }}{{ len .map }}`)
	if err != nil {
		t.Fatal(err)
	}
	shared := values(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if got, err := e.Render(shared); err != nil || got != "3" {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	if m := shared["map"].(map[string]any); len(m) != 2 {
		t.Errorf("the map has become %v", m)
	}
}

// FuzzRender wants of any template that it ends, and gives the same again.
func FuzzRender(f *testing.F) {
	f.Add(`{{ range .list }}{{ . | upper | quote }}{{ end }}`)
	f.Add(`{{ if and .on (gt .count 2) }}{{ printf "%05d" .count }}{{ end }}`)
	f.Add(`{{ $d := dict "a" .map }}{{ $_ := set $d "b" (keys .map | join ",") }}{{ toJson $d }}`)
	f.Add(`{{ define "t" }}{{ . }}{{ end }}{{ range $k, $v := .map }}{{ template "t" $k }}{{ end }}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10240 { // what the API allows
			t.Skip()
		}
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Skip()
		}
		first, err := e.Render(values(t))
		again, err2 := e.Render(values(t))
		if first != again || (err == nil) != (err2 == nil) {
			t.Errorf("first %q, %v, then %q, %v", first, err, again, err2)
		}
	})
}
