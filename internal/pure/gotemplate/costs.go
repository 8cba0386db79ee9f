// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"reflect"
	"regexp/syntax"
	"strconv"
	"strings"
)

const (
	// tooMuch is more than any budget.
	tooMuch = int(PerObject) + 1
	// A deeper value contains itself, and its output would be infinite.
	deepest = 1000
	// No class has a longer regular expression; compiling one takes 1000 times its size.
	maxRegexp = 4 << 10
	// The cost of an item of a list or map in addition to its text: memory, and the time
	// to reach it.
	itemCost, entryCost = 4, 8
)

// charged is a function that is charged for what it gets and returns, and before it
// is called for its work, if that is more. text/template returns a panic as the error
// of the call.
func (t *Template) charged(name string, f any) any {
	of := reflect.ValueOf(f)
	work := works[name]
	return reflect.MakeFunc(of.Type(), func(args []reflect.Value) []reflect.Value {
		left := int(*t.budget)
		cost := nodeCost
		for _, arg := range args {
			cost += weight(arg, left, 0)
		}
		if work != nil && cost <= left {
			cost += max(work(flat(of.Type(), args)), 0)
		}
		if err := t.budget.charge(cost); err != nil {
			panic(err)
		}
		var results []reflect.Value
		if of.Type().IsVariadic() {
			results = of.CallSlice(args)
		} else {
			results = of.Call(args)
		}
		if err := t.budget.charge(weight(results[0], int(*t.budget), 0)); err != nil {
			panic(err)
		}
		return results
	}).Interface()
}

// flat lists arguments one at a time, as values.
func flat(of reflect.Type, args []reflect.Value) []any {
	var out []any
	for i, arg := range args {
		if of.IsVariadic() && i == len(args)-1 {
			for j := range arg.Len() {
				out = append(out, arg.Index(j).Interface())
			}
			continue
		}
		out = append(out, arg.Interface())
	}
	return out
}

// weight is about how many bytes a value has, or more than limit.
func weight(v reflect.Value, limit, depth int) int {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if limit < 0 || depth > deepest {
		return tooMuch
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice, reflect.Array:
		n := v.Len()
		if kind := v.Type().Elem().Kind(); kind != reflect.Interface && kind != reflect.String && kind != reflect.Slice && kind != reflect.Map {
			return n
		}
		n *= itemCost
		for i := 0; i < v.Len() && n <= limit; i++ {
			n += weight(v.Index(i), limit-n, depth+1)
		}
		return n
	case reflect.Map:
		n := v.Len() * entryCost
		for it := v.MapRange(); n <= limit && it.Next(); {
			n += weight(it.Key(), limit-n, depth+1) + weight(it.Value(), limit-n, depth+1)
		}
		return n
	}
	return 1
}

// works returns the cost of a call in addition to its arguments, for functions whose
// work is a multiple or a product of them. Arguments are those in the template.
var works = map[string]func(args []any) int{
	"indent":  func(a []any) int { return times(number(a[0]), 1+strings.Count(text(a[1]), "\n")) },
	"nindent": func(a []any) int { return times(number(a[0]), 1+strings.Count(text(a[1]), "\n")) },
	"repeat":  func(a []any) int { return times(number(a[0]), length(a[1])) },
	"replace": func(a []any) int { return times(length(a[1]), strings.Count(text(a[2]), text(a[0]))) },
	"join":    func(a []any) int { return times(length(a[0])+itemCost, length(a[1])) },
	"printf":  format,
	// A byte becomes four at most, as \x00.
	"quote": func(a []any) int { return times(4, heavy(a)) }, "squote": func(a []any) int { return times(4, heavy(a)) },
	"wrap":     func(a []any) int { return times(2, length(a[1])) },
	"wrapWith": func(a []any) int { return times(1+length(a[1]), length(a[2])) },

	"seq": span, "until": span, "untilStep": func(a []any) int { return span(a[:2]) },
	"split":     func(a []any) int { return parts(a[0], a[1], 8*entryCost) },
	"splitList": func(a []any) int { return parts(a[0], a[1], itemCost) },
	"splitn":    func(a []any) int { return parts(a[0], a[2], 8*entryCost) },
	"toStrings": items, "sortAlpha": items,
	"chunk": func(a []any) int { return times(2*itemCost, length(a[1])) }, "mustChunk": func(a []any) int { return times(2*itemCost, length(a[1])) },
	"uniq": pairs, "mustUniq": pairs, "without": pairs, "mustWithout": pairs,

	"addf": decimals, "subf": decimals, "mulf": decimals, "divf": decimals,
	"fromJson": decode, "mustFromJson": decode,
	"toPrettyJson": indented, "mustToPrettyJson": indented,
	"deepCopy": copied, "mustDeepCopy": copied, "merge": copied, "mustMerge": copied, "mergeOverwrite": copied, "mustMergeOverwrite": copied,
	// A constraint and a version are matched with expressions of some hundred steps.
	"semver": func(a []any) int { return times(64, length(a[0])) }, "semverCompare": func(a []any) int { return times(64, heavy(a)) },

	"regexMatch": search, "mustRegexMatch": search, "regexFind": search, "mustRegexFind": search,
	"regexFindAll": search, "mustRegexFindAll": search, "regexSplit": search, "mustRegexSplit": search,
	"regexReplaceAll": substitute, "mustRegexReplaceAll": substitute, "regexReplaceAllLiteral": substitute, "mustRegexReplaceAllLiteral": substitute,
}

func text(v any) string { s, _ := v.(string); return s }

// length is that of a text, list or map.
func length(v any) int {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return r.Len()
	}
	return 1
}

// number is the size of a whole number.
func number(v any) int {
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt() && r.Int() > -int64(tooMuch) && r.Int() < int64(tooMuch):
		return int(max(r.Int(), -r.Int()))
	case r.CanUint() && r.Uint() < uint64(tooMuch):
		return int(r.Uint())
	case r.CanInt() || r.CanUint():
		return tooMuch
	}
	return 0
}

// heavy is the weight of arguments.
func heavy(args []any) int { return weight(reflect.ValueOf(args), int(PerObject), 0) }

// times is a product of non-negative numbers, or the maximum on overflow.
func times(a, b int) int {
	if b == 0 || a <= int(PerObject)/b {
		return a * b
	}
	return tooMuch
}

// span is for about how many numbers a sequence has at most.
func span(args []any) int {
	n := 0
	for _, a := range args {
		n += number(a)
	}
	return times(n, 8)
}

// parts is for a text that is split.
func parts(sep, of any, each int) int { return times(each, 1+strings.Count(text(of), text(sep))) }

// pairs is for a list of which each item is compared with each one.
func pairs(args []any) int { return times(heavy(args), length(args[0])+len(args)) }

// items is for a list whose items are converted to texts.
func items(args []any) int { return times(8*itemCost, length(args[0])) }

// decimals is for numbers of some hundred digits for each argument.
func decimals(args []any) int { return times(1024*len(args), len(args)) }

func decode(args []any) int { return times(8, length(args[0])) }

func copied(args []any) int { return times(32, heavy(args)) }

// indented is for each item on its own line, indented by its depth.
func indented(args []any) int { return times(heavy(args), 2*depth(reflect.ValueOf(args))) }

func depth(v reflect.Value) (deep int) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			deep = max(deep, depth(v.Index(i)))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			deep = max(deep, depth(it.Value()))
		}
	default:
		return 0
	}
	return deep + 1
}

// format is the maximum output of a format with its arguments, each with all of its
// widths.
func format(args []any) int {
	width, longest, of := 1, 1, text(args[0])
	for word := range strings.FieldsFuncSeq(of, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return tooMuch
		}
		width += min(n, tooMuch)
	}
	for _, a := range args[1:] {
		longest = max(longest, heavy([]any{a}))
		width += times(strings.Count(of, "*"), number(a))
	}
	return times(times(strings.Count(of, "%"), width), longest)
}

// search is for a text in which each character is compared with each step of a
// regular expression.
func search(args []any) int { return times(steps(text(args[0])), 16+length(args[1])) }

// substitute is a search that puts another text in the place of each match, which
// can have the whole match in it for each character.
func substitute(args []any) int {
	return min(tooMuch, search(args)+times(1+length(args[2]), 1+length(args[1])))
}

// steps is the size of the program of a regular expression.
func steps(pattern string) int {
	if len(pattern) > maxRegexp {
		return tooMuch
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // for the function to report
	}
	return size(re)
}

func size(re *syntax.Regexp) int {
	n := 4 + len(re.Rune)
	for _, sub := range re.Sub {
		n = min(n+size(sub), tooMuch)
	}
	if re.Op == syntax.OpRepeat {
		return times(n, max(re.Min, re.Max)+1)
	}
	return n
}
