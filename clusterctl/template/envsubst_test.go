// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvsubst(t *testing.T) {
	tests := map[string]struct {
		in      string
		env     map[string]string
		want    string
		missing []string
	}{
		"a plain variable":                                            {in: "name: ${NAME}", env: map[string]string{"NAME": "demo"}, want: "name: demo"},
		"blanks inside the braces":                                    {in: "${ NAME } ${ NAME} ${NAME }", env: map[string]string{"NAME": "demo"}, want: "demo demo demo"},
		"a name with digits and in lower case":                        {in: "${a_1}", env: map[string]string{"a_1": "x"}, want: "x"},
		"a default for an unset variable":                             {in: "${N:=1} ${M=2} ${K:-3}", want: "1 2 3"},
		"a default for an empty variable":                             {in: "${N:=1} ${N=2} ${N:-3}", env: map[string]string{"N": ""}, want: "1 2 3"},
		"an empty default":                                            {in: "[${N:=}]", want: "[]"},
		"a default of several words and signs":                        {in: `${N:=a b: "c" #$%:*{}`, want: `a b: "c" #$%:*{`},
		"a default over lines":                                        {in: "${N:=a\nb}", want: "a\nb"},
		"a value wins over the default":                               {in: "${N:=1} ${N=1} ${N:-1}", env: map[string]string{"N": "5"}, want: "5 5 5"},
		"a default that is a variable":                                {in: "${A:=${B}}", env: map[string]string{"B": "b"}, want: "b"},
		"a default that is a variable with a default":                 {in: "${A:=${B:=${C:-d}}}", want: "d"},
		"a default with text around a variable":                       {in: "${A:=x-${B}-y}", env: map[string]string{"B": "b"}, want: "x-b-y"},
		"what a default is made of is not needed when it is not used": {in: "${A:=${B}}", env: map[string]string{"A": "a"}, want: "a"},
		"what a default is made of is needed when it is used":         {in: "${A:=${B}}", env: map[string]string{"A": ""}, missing: []string{"B"}},
		"all missing variables are named, sorted and once":            {in: "${B} ${A} ${C:=x} ${B}", missing: []string{"A", "B"}},
		"a default elsewhere does not fill a gap":                     {in: "${A:=x} ${A}", missing: []string{"A"}},
		"an empty value is a value":                                   {in: "[${A}]", env: map[string]string{"A": ""}, want: "[]"},
		"cases":                                                       {in: "${A^} ${A^^} ${B,} ${B,,}", env: map[string]string{"A": "demo", "B": "DEMO"}, want: "Demo DEMO dEMO demo"},
		"a length":                                                    {in: "${#A}", env: map[string]string{"A": "demo"}, want: "4"},
		"pieces":                                                      {in: "${A:2} ${A:1:2} ${A:9}", env: map[string]string{"A": "demo"}, want: "mo em "},
		"pieces from the end, where the old library panicked":         {in: "${A:1:-1} ${A:0:-3}", env: map[string]string{"A": "demo"}, want: "em d"},
		"prefixes and suffixes":                                       {in: "${A#*/} ${A##*/} ${A%.*} ${A%%.*}", env: map[string]string{"A": "a/b.c.d"}, want: "b.c.d b.c.d a/b.c a/b"},
		"replacements":                                                {in: "${A/o/0} ${A//o/0} ${A/#f/g} ${A/%o/a}", env: map[string]string{"A": "foo"}, want: "f0o f00 goo foa"},
		"a replacement of slashes":                                    {in: `${A//\//-}`, env: map[string]string{"A": "10.0.0.0/8"}, want: "10.0.0.0-8"},
		"a replacement by nothing":                                    {in: "${A/o/}", env: map[string]string{"A": "foo"}, want: "fo"},
		"a replacement in what is not set is nothing":                 {in: "[${A/#arn/role: arn}]", want: "[]"},
		"a length or a case of what is not set is missing":            {in: "${#A} ${B^^}", missing: []string{"A", "B"}},
		"two dollars are one":                                         {in: "a$$b $${A} $$${B} $$$$", env: map[string]string{"B": "b"}, want: "a$b ${A} $b $$"},
		"blanks after two dollars stay":                               {in: "$${ A }", want: "${ A }"},
		"no braces, no variable":                                      {in: "$A $(A) $ {A} a$ $", want: "$A $(A) $ {A} a$ $"},
		"a pattern":                                                   {in: `^([a-z]{2}|\d+)$`, want: `^([a-z]{2}|\d+)$`},
		"a backslash is text":                                         {in: `\\ \${A}`, env: map[string]string{"A": "a"}, want: `\\ \a`},
		"a variable in a comment is one":                              {in: "# ${A}\nb: c\n", missing: []string{"A"}},
		"a value is not looked through":                               {in: "${A}", env: map[string]string{"A": "${B} $$"}, want: "${B} $$"},
		"what is not of ASCII":                                        {in: "ä ${A^^} 世界", env: map[string]string{"A": "ö"}, want: "ä Ö 世界"},
		"jinja's double braces are left in peace":                     {in: "'{{ ds.meta_data.local_hostname }}'", want: "'{{ ds.meta_data.local_hostname }}'"},
		"the end of a line may be CRLF":                               {in: "a: ${A}\r\nb: c\r\n", env: map[string]string{"A": "1"}, want: "a: 1\r\nb: c\r\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Envsubst{}.Process([]byte(tc.in), func(n string) (string, bool) { v, ok := tc.env[n]; return v, ok })
			var missing *MissingError
			if errors.As(err, &missing) {
				if diff := cmp.Diff(tc.missing, missing.Names); diff != "" {
					t.Errorf("missing (-want +got):\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want || tc.missing != nil {
				t.Errorf("got %q, want %q, missing %v", got, tc.want, tc.missing)
			}
		})
	}
}

func TestBrokenVariablesAreNamedWithTheirLine(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"a brace that is not closed":               {"a: 1\nb: ${A\nc: 2\n", "line 2: the brace of ${A... is not closed"},
		"one that another closes":                  {"a: ${A\nb: ${B}\n", "line 1: the brace of ${A... is not closed"},
		"a variable in a name":                     {"a: ${A}\nb: ${A$B}\n", "line 2: ${A$B} is not a form of ${VARIABLE}: missing closing brace"},
		"no name":                                  {"\n\n${}", "line 3: ${} is not a form of ${VARIABLE}: unable to parse variable name"},
		"a name with a dash":                       {"${A-b}", "line 1: ${A-b} is not a form of ${VARIABLE}: missing closing brace"},
		"a line after an expression over lines":    {"${A:=x\ny}\n${!}", "line 3: ${!} is not a form of ${VARIABLE}: unable to parse variable name"},
		"a name of two words":                      {"${A B}", "line 1: ${A B} is not a form of ${VARIABLE}: missing closing brace"},
		"a byte that ends the library's text":      {"a: b\n\x00c: d", "line 2: a template is text, and this is a byte 0"},
		"defaults nested deeper than the limit":    {strings.Repeat("${A:=", 100) + strings.Repeat("}", 100), "line 1: ${A:=${A:=${A:=${A:=${A:=${A:=${A:=${A:=${A:=${A:=${A:=${A:=... holds variables more than 50 deep"},
		"a replacement without its second part":    {"${A/b}", "line 1: ${A/b} is not a form of ${VARIABLE}: bad substitution"},
		"an expression is named only by its begin": {"${" + strings.Repeat("A", 70), "line 1: the brace of ${" + strings.Repeat("A", 58) + "... is not closed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			none := func(string) (string, bool) { return "", true }
			if out, err := (Envsubst{}).Process([]byte(tc.in), none); err == nil || err.Error() != tc.want {
				t.Errorf("Process: %q, error %v, want %s", out, err, tc.want)
			}
			if _, err := (Envsubst{}).Variables([]byte(tc.in)); err == nil || err.Error() != tc.want {
				t.Errorf("Variables: error %v, want %s", err, tc.want)
			}
		})
	}
}

func TestVariablesReturnsDefaults(t *testing.T) {
	got, err := Envsubst{}.Variables([]byte("${A} ${B:=1} ${C:=${D:-x}} ${E/a/b} ${E:=e} ${F=1} ${F} ${F=2} ${G:?say it} ${#H}"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*string{"A": nil, "B": new("1"), "C": new("${D}"), "D": new("x"), "E": new("e"), "F": nil, "G": nil, "H": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}
