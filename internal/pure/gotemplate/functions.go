// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// Sprig, in the release that upstream has, is what classes are written for: its
// functions and their quirks are part of what a class means. Its successor, with
// another set of functions, is not.

const (
	differs = "it gives another result each time, so that machines would be replaced for ever"
	depends = "its result depends on the host"
	costs   = "it costs too much"
)

// refused are functions of sprig that templates do not get, and why.
var refused = map[string]string{
	"ago": differs, "bcrypt": differs, "encryptAES": differs, "genCA": differs, "genCAWithKey": differs, "genPrivateKey": differs,
	"genSelfSignedCert": differs, "genSelfSignedCertWithKey": differs, "genSignedCert": differs, "genSignedCertWithKey": differs,
	"htpasswd": differs, "now": differs, "randAlpha": differs, "randAlphaNum": differs, "randAscii": differs, "randBytes": differs,
	"randInt": differs, "randNumeric": differs, "shuffle": differs, "uuidv4": differs, "durationRound": differs,
	"keys": "", "values": "", // these are put in order instead
	"date": depends, "dateInZone": depends, "dateModify": depends, "date_in_zone": depends, "date_modify": depends, "env": depends, "expandenv": depends,
	"getHostByName": depends, "htmlDate": depends, "htmlDateInZone": depends, "mustToDate": depends, "toDate": depends,
	"derivePassword": costs,
}

// changing are functions that change a map that they are given.
var changing = []string{"set", "unset", "merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"}

// builtin are the functions of text/template that are left as they are; the
// parser looks for the names alone.
var builtin = map[string]any{
	"and": true, "call": true, "index": true, "len": true, "not": true, "or": true, "slice": true,
}

// functions are all that templates get beside builtin.
var functions = sync.OnceValue(func() map[string]any {
	all := map[string]any(sprig.HermeticTxtFuncMap())
	for name := range refused {
		delete(all, name)
	}
	for name, f := range map[string]any{
		"eq": equal, "ne": func(a, b any) (bool, error) { same, err := equal(a, b); return !same, err },
		"lt":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n < 0 }) },
		"le":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n <= 0 }) },
		"gt":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n > 0 }) },
		"ge":    func(a, b any) (bool, error) { return ordered(a, b, func(n int) bool { return n >= 0 }) },
		"print": fmt.Sprint, "println": fmt.Sprintln, "printf": printf,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
		"keys": keys, "values": valuesOf,
	} {
		all[name] = f
	}
	return all
})

// products are functions whose result, or whose work, is the product of some of
// their arguments.
var products = map[string]func(args []any) int{
	"indent":                     func(a []any) int { return times(a[0], lines(a[1])) },
	"join":                       func(a []any) int { return times(a[0], length(a[1])) },
	"mustRegexReplaceAll":        func(a []any) int { return times(a[2], length(a[1])) },
	"nindent":                    func(a []any) int { return times(a[0], lines(a[1])) },
	"printf":                     func(a []any) int { return format(a) },
	"regexReplaceAll":            func(a []any) int { return times(a[2], length(a[1])) },
	"regexReplaceAllLiteral":     func(a []any) int { return times(a[2], length(a[1])) },
	"mustRegexReplaceAllLiteral": func(a []any) int { return times(a[2], length(a[1])) },
	"repeat":                     func(a []any) int { return times(a[0], length(a[1])) },
	"replace":                    func(a []any) int { return times(a[1], length(a[2])+1) },
	"seq":                        func(a []any) int { return span(a) },
	"until":                      func(a []any) int { return span(a) },
	"untilStep":                  func(a []any) int { return span(a[:2]) },
	"wrap":                       func(a []any) int { return length(a[1]) * 2 },
	"wrapWith":                   func(a []any) int { return times(a[1], length(a[2])) },
	"uniq":                       func(a []any) int { return times(a[0], length(a[0])) },
	"mustUniq":                   func(a []any) int { return times(a[0], length(a[0])) },
}

// length is that of a text or list, or the value of a number.
func length(v any) int {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return r.Len()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return int(max(r.Int(), 0))
	}
	return 1
}

func lines(v any) int {
	text, _ := v.(string)
	n := 1
	for _, c := range text {
		if c == '\n' {
			n++
		}
	}
	return n
}

// times is the length of v, n times, or too much.
func times(v any, n int) int {
	if l := length(v); n == 0 || l <= budget/n {
		return l * n
	}
	return budget + 1
}

// span is about how many numbers a sequence has at most.
func span(args []any) int {
	n := 0
	for _, a := range args {
		r := reflect.ValueOf(a)
		if !r.CanInt() {
			return budget + 1
		}
		i := r.Int()
		if i > budget || i < -budget {
			return budget + 1
		}
		n += int(max(i, -i))
	}
	return n * 8
}

// format is what a format can make of its arguments, with the widths that it
// has in it.
func format(args []any) int {
	longest, text := 0, args[0].(string)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < '0' || r > '9' }) {
		width, err := strconv.Atoi(word)
		if err != nil {
			return budget + 1
		}
		longest += min(width, budget)
	}
	for _, a := range args[1:] {
		longest = max(longest, weight(reflect.ValueOf(a), budget, 0))
	}
	return times(text, longest)
}
