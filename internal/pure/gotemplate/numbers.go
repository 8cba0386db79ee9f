// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Whole numbers in variables are integers here, so that they print as such; for upstream
// all numbers are floats. Classes are written for floats, as in eq .replicas 3.0 or
// printf "%.0f" .replicas, and for integers, which new users expect: both work.

// equal reports whether the first value equals one of the others.
func equal(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, fmt.Errorf("missing argument for comparison")
	}
	for _, b := range others {
		if n, ok := numbers(a, b); ok {
			if n == 0 {
				return true, nil
			}
			continue
		}
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		switch {
		case !x.IsValid() || !y.IsValid():
			if x.IsValid() == y.IsValid() {
				return true, nil
			}
		case x.Kind() != y.Kind():
			return false, fmt.Errorf("%T and %T cannot be compared", a, b)
		case reflect.DeepEqual(a, b):
			return true, nil
		}
	}
	return false, nil
}

func ordered(a, b any, is func(int) bool) (bool, error) {
	if n, ok := numbers(a, b); ok {
		return is(n), nil
	}
	x, xok := a.(string)
	y, yok := b.(string)
	if !xok || !yok {
		return false, fmt.Errorf("%T and %T have no order", a, b)
	}
	return is(strings.Compare(x, y)), nil
}

// numbers compares two numbers, if they are.
func numbers(a, b any) (order int, ok bool) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.CanInt() && y.CanInt() {
		return cmp.Compare(x.Int(), y.Int()), true
	}
	f, fok := float(x)
	g, gok := float(y)
	return cmp.Compare(f, g), fok && gok
}

func float(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// printf converts the argument of each verb to the matching kind of number.
func printf(format string, args ...any) string {
	args = slices.Clone(args)
	n := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			if format[i] == '[' || format[i] == '*' {
				return fmt.Sprintf(format, args...) // it says itself which
			}
		}
		if i == len(format) || format[i] == '%' || n == len(args) {
			continue
		}
		v := reflect.ValueOf(args[n])
		switch {
		case strings.IndexByte("eEfFgG", format[i]) >= 0 && v.CanInt():
			args[n] = float64(v.Int())
		case strings.IndexByte("bcdoOxXU", format[i]) >= 0 && v.CanFloat() && v.Float() == math.Trunc(v.Float()) && math.Abs(v.Float()) < 1<<53:
			args[n] = int64(v.Float())
		}
		n++
	}
	return fmt.Sprintf(format, args...)
}

// keys are those of some maps, in order: as Go's maps have them they would
// differ from call to call.
func keys(of ...map[string]any) (out []string) {
	for _, m := range of {
		out = append(out, slices.Sorted(maps.Keys(m))...)
	}
	return out
}

func valuesOf(m map[string]any) (out []any) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}
