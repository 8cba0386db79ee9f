// SPDX-License-Identifier: Apache-2.0

package gotemplate_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

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

// render has a budget for one template.
func render(e *gotemplate.Template, values map[string]any) (string, error) {
	budget := gotemplate.PerObject
	return e.Render(values, &budget)
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
		if got, err := render(e, values(t)); err != nil || got != want {
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
		if _, err := render(e, values(t)); err == nil || !strings.Contains(err.Error(), want) {
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
		`{{ range 99999999 }}{{ printf "%999999d" 1 }}{{ end }}`,
		`{{ range 1000000000 }}{{ if true }}{{ with 1 }}{{ else }}{{ end }}{{ end }}{{ end }}`,
		`{{ $a := 1 }}{{ range 100000 }}` + strings.Repeat(`{{ if $a }}{{ end }}`, 1000) + `{{ end }}`,
		`{{ define "t" }}` + strings.Repeat(`{{ with 1 }}`, 500) + `{{ template "t" . }}` + strings.Repeat(`{{ end }}`, 500) + `{{ end }}{{ template "t" . }}`,
		// widths that are from arguments, or are used for each item of a list
		strings.Repeat(`{{ printf "%*d%*d%*d%*d" 1000000 1 1000000 1 1000000 1 1000000 1 }}`, 50), `{{ printf "%.*f" 1000000 1.0 | repeat 20 }}`,
		`{{ printf "%99999d" (until 100000) }}`, `{{ printf "%.99999f" (list 1.0 1.0 1.0 1.0 1.0) | repeat 100 }}`,
		// a value that grows after others have it
		`{{ $a := dict }}{{ $x := dict "a" $a "b" $a }}{{ range until 12 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ $_ := set $a "c" (repeat 1000000 "x") }}{{ $x }}`,
		// maps are sorted for each loop
		`{{ $m := split "," (repeat 20000 ",") }}{{ range 1000000 }}{{ range $k, $v := $m }}{{ break }}{{ end }}{{ end }}`,
		`{{ $x := repeat 100000 "a" }}{{ regexMatch "(a?){1000}b" $x }}`, `{{ regexMatch (repeat 1000 "[a-z]{1000}") "a" }}`, `{{ regexMatch (repeat 10000 "a") "a" }}`,
		`{{ range 100000 }}{{ mustRegexFindAll "" (repeat 10000 "a") -1 | len }}{{ end }}`,
		`{{ $x := print (repeat 900 "[") (repeat 100000 "1,") "1" (repeat 900 "]") | fromJson }}{{ toPrettyJson $x }}`,
		`{{ split "" (repeat 1000000 "a") | len }}`, `{{ range 100000 }}{{ chunk 1 (until 10000) | len }}{{ end }}`,
		`{{ range 100000 }}{{ mulf ` + strings.Repeat("1e300 ", 500) + `}}{{ end }}`, `{{ range 1000000 }}{{ semverCompare ">= 1 || < 1" "1.2.3" }}{{ end }}`,
	} {
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := render(e, map[string]any{}); !errors.Is(err, gotemplate.ErrCost) && !errors.Is(err, gotemplate.ErrOutput) && !strings.Contains(err.Error(), "depth") {
			t.Errorf("%s: got %v, want a refusal", text, err)
		}
	}
}

func TestOutputIsLimited(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{{ repeat 1048576 "x" }}`: nil, `{{ repeat 1048576 "x" }}x`: gotemplate.ErrOutput, `{{ range 100000 }}xxxxxxxxxxxxxxxx{{ end }}`: gotemplate.ErrOutput,
	} {
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(e, nil); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
}

// TestTemplatesShareABudget: many templates of an object cost no more than one.
func TestTemplatesShareABudget(t *testing.T) {
	t.Parallel()
	e, err := gotemplate.Parse(`{{ range 100000 }}{{ end }}`)
	if err != nil {
		t.Fatal(err)
	}
	budget, n := gotemplate.PerObject, 0
	for ; n < 100 && err == nil; n++ {
		_, err = e.Render(nil, &budget)
	}
	if n < 2 || !errors.Is(err, gotemplate.ErrCost) || budget != 0 {
		t.Errorf("%d renderings, then %v, with a rest of %d", n, err, budget)
	}
}

func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	e, err := gotemplate.Parse(`{{ fail (repeat 1000000 "ä") }}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render(e, nil); err == nil || len(err.Error()) > 1100 || !utf8.ValidString(err.Error()) {
		t.Errorf("got an error of %d bytes", len(fmt.Sprint(err)))
	}
}

func TestParseReadsShortTemplates(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"text": strings.Repeat("x", 257<<10), "actions": strings.Repeat("{{ if 1 }}", 10001), "parentheses": "{{ " + strings.Repeat("(", 200000),
		"variables": strings.Repeat("{{ $a := 1 }}", 201),
	} {
		if _, err := gotemplate.Parse(text); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// TestFunctionsOfTheHostDoNotExist: no function reads the environment, the network or
// the clock, or generates keys.
func TestFunctionsOfTheHostDoNotExist(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"env", "expandenv", "getHostByName", "now", "ago", "date", "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSignedCert", "buildCustomCert",
		"bcrypt", "htpasswd", "derivePassword", "encryptAES", "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes", "randInt", "uuidv4", "shuffle",
		"chargeRanged", "chargePrinted",
	} {
		for _, parse := range []func(string) (*gotemplate.Template, error){gotemplate.Parse, gotemplate.ParseName} {
			if _, err := parse("{{ " + name + " }}"); err == nil || !strings.Contains(err.Error(), "not defined") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestParseName(t *testing.T) {
	t.Parallel()
	const rule = ": a template of names has text, fields, functions in pipes, if and with"
	for text, want := range map[string]string{
		`{{ .cluster.name }}-{{ .random }}`: "Prod-abcde", `{{ .cluster.name | lower | trunc 3 }}-x`: "pro-x",
		`{{ .cluster.name | replace "P" "p" | trimSuffix "d" }}`: "pro", `{{ printf "%s-%s" .cluster.name .random }}`: "Prod-abcde", `{{ printf "%d%%5%[1]d" 3 }}`: "3%53",
		`{{ if hasPrefix "P" .cluster.name }}a{{ else }}b{{ end }}`: "a", `{{ with .random }}{{ . | upper }}{{ end }}`: "ABCDE", `{{ $c := .cluster }}{{ $c.name }}`: "Prod",
		`{{ .random | printf "%s" }}`:                                  "abcde",
		`{{ range 3 }}{{ end }}`:                                       "must not use range" + rule,
		`{{ if true }}{{ range $i, $c := .random }}{{ end }}{{ end }}`: "must not use range" + rule,
		`{{ define "a" }}{{ end }}`:                                    "must not use define" + rule,
		`{{ block "a" . }}{{ end }}`:                                   "must not use template" + rule,
		`{{ template "a" }}`:                                           "must not use template" + rule,
		`{{ printf "%9d" 1 }}`:                                         "must not use printf with a width or precision" + rule,
		`{{ printf "%-9s" .random }}`:                                  "must not use printf with a width or precision" + rule,
		`{{ printf "%.3s" .random }}`:                                  "must not use printf with a width or precision" + rule,
		`{{ printf "%*d" 9 1 }}`:                                       "must not use printf with a width or precision" + rule,
		`{{ print (printf "%[1]9d" 1) }}`:                              "must not use printf with a width or precision" + rule,
		`{{ "%9d" | printf }}`:                                         "must not use printf with a format from a pipe" + rule,
		`{{ printf .random 1 }}`:                                       "must not use printf with a format that is no text" + rule,
		`{{ repeat 100000 .random }}`:                                  "it costs too much: make loops and texts smaller",
		`{{ until 1000000 }}`:                                          "it costs too much: make loops and texts smaller",
		`{{ .other }}`:                                                 `template: name:1:3: executing "name" at <.other>: map has no entry for key "other"`,
		`{{`:                                                           "is no Go template: template: name:1: unclosed action",
	} {
		e, err := gotemplate.ParseName(text)
		got := ""
		if err == nil {
			budget := gotemplate.PerName
			got, err = e.Render(map[string]any{"cluster": map[string]any{"name": "Prod"}, "random": "abcde"}, &budget)
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func BenchmarkName(b *testing.B) {
	values := map[string]any{"cluster": map[string]any{"name": "prod"}, "machineSet": map[string]any{"name": "md-0"}, "random": "abcde"}
	b.ReportAllocs()
	for b.Loop() {
		e, err := gotemplate.ParseName("{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}")
		if err != nil {
			b.Fatal(err)
		}
		budget := gotemplate.PerName
		if _, err := e.Render(values, &budget); err != nil {
			b.Fatal(err)
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
				if got, err := render(e, shared); err != nil || got != "3" {
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

// FuzzRender requires of any template that it ends, and yields the same result again.
func FuzzRender(f *testing.F) {
	f.Add(`{{ range .list }}{{ . | upper | quote }}{{ end }}`)
	f.Add(`{{ if and .on (gt .count 2) }}{{ printf "%05d" .count }}{{ end }}`)
	f.Add(`{{ $d := dict "a" .map }}{{ $_ := set $d "b" (keys .map | join ",") }}{{ toJson $d }}`)
	f.Add(`{{ define "t" }}{{ . }}{{ end }}{{ range $k, $v := .map }}{{ template "t" $k }}{{ end }}`)
	f.Add(`{{ range 99999999 }}{{ printf "%999999d" 1 }}{{ end }}`)
	f.Add(`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`)
	f.Add(`{{ $x := "x" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}{{ regexReplaceAll "(x|.?){9}" $x "$1$1" }}`)
	f.Add(`{{ $a := dict }}{{ $b := dict "a" $a "b" $a }}{{ $_ := set $a "c" (seq 1 2 99) }}{{ toPrettyJson $b }}{{ printf "%*d" 99 1 }}`)
	f.Add(`{{ .name | lower | trunc 20 | trimSuffix "-" | replace "." "-" }}-{{ with .count }}{{ . }}{{ end }}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10240 { // the limit of the API
			t.Skip()
		}
		if e, err := gotemplate.ParseName(text); err == nil {
			budget := gotemplate.PerName
			_, _ = e.Render(values(t), &budget)
		}
		e, err := gotemplate.Parse(text)
		if err != nil {
			t.Skip()
		}
		first, err := render(e, values(t))
		again, err2 := render(e, values(t))
		if first != again || (err == nil) != (err2 == nil) {
			t.Errorf("first %q, %v, then %q, %v", first, err, again, err2)
		}
	})
}
