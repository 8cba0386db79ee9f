// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"cmp"
	"fmt"
	"math"
	"testing"
)

// TestNumbersCompareAcrossKinds: an integer in JSON is one here, and a literal may be
// either.
func TestNumbersCompareAcrossKinds(t *testing.T) {
	t.Parallel()
	ordinal := []any{int64(-1), 0, int64(1), 1.5, uint8(2), 2.5, int32(3), math.MaxInt64}
	for i, a := range ordinal {
		for j, b := range ordinal {
			want := cmp.Compare(i, j)
			if got, ok := numbers(a, b); got != want || !ok {
				t.Errorf("%T %v and %T %v: %d, %t, want %d", a, a, b, b, got, ok, want)
			}
			if same, err := equal(a, b); same != (i == j) || err != nil {
				t.Errorf("%v equals %v: %t, %v", a, b, same, err)
			}
		}
	}
	if order, ok := numbers(int64(math.MaxInt64-1), int64(math.MaxInt64)); order != -1 || !ok {
		t.Errorf("large integers: %d, %t: as floats they are equal", order, ok)
	}
	for _, pair := range [][2]any{{"1", 1}, {nil, 0}, {true, 1}, {[]any{}, 0}} {
		if _, ok := numbers(pair[0], pair[1]); ok {
			t.Errorf("%v and %v are numbers", pair[0], pair[1])
		}
	}
}

func TestEqualComparesValues(t *testing.T) {
	t.Parallel()
	list, object := []any{1, "a"}, map[string]any{"a": []any{1}}
	for name, tc := range map[string]struct {
		a    any
		b    []any
		want bool
		fail bool
	}{
		"nothing and nothing": {nil, []any{nil}, true, false},
		"nothing and text":    {nil, []any{""}, false, false},
		"one of several":      {"b", []any{"a", "b"}, true, false},
		"none of several":     {3, []any{1, 2.5}, false, false},
		"lists":               {list, []any{[]any{1, "a"}}, true, false},
		"lists of an order":   {list, []any{[]any{"a", 1}}, false, false},
		"objects":             {object, []any{map[string]any{"a": []any{1}}}, true, false},
		"text and list":       {"a", []any{list}, false, true},
		"no other":            {1, nil, false, true},
	} {
		if got, err := equal(tc.a, tc.b...); got != tc.want || (err != nil) != tc.fail {
			t.Errorf("%s: %t, %v, want %t", name, got, err, tc.want)
		}
	}
}

// TestPrintfConvertsOnlyNumbers compares with fmt, given the kind of number that each
// verb needs.
func TestPrintfConvertsOnlyNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		format    string
		got, want []any
	}{
		{"%d", []any{3.0}, []any{3}}, {"%x", []any{255.0}, []any{255}}, {"%5d|%-5d|%05d|%+d", []any{1.0, 2.0, 3.0, 4.0}, []any{1, 2, 3, 4}},
		{"%.2f", []any{3}, []any{3.0}}, {"%e %g", []any{1, 2}, []any{1.0, 2.0}}, {"%d", []any{1.5}, []any{1.5}}, {"%d", []any{1e300}, []any{1e300}},
		{"%v %s", []any{3.0, "a"}, []any{3.0, "a"}}, {"100%% of %d", []any{2.0}, []any{2}}, {"%d %d", []any{1.0}, []any{1}}, {"%", nil, nil}, {"%!", []any{1.0}, []any{1.0}},
		{"%s", []any{3}, []any{3}}, {"%d", []any{"a"}, []any{"a"}}, {"no verb", []any{1.0}, []any{1.0}}, {"%[2]d %[1]d", []any{1, 2}, []any{1, 2}}, {"%*d", []any{5, 42}, []any{5, 42}},
		{"é%d", []any{7.0}, []any{7}}, {"%d%d%d", []any{1.0, "x", 3.0}, []any{1, "x", 3}}, {"%t %q", []any{true, "a"}, []any{true, "a"}}, {"%d", []any{nil}, []any{nil}},
	} {
		before := fmt.Sprint(tc.got...)
		if got, want := printf(tc.format, tc.got...), fmt.Sprintf(tc.format, tc.want...); got != want {
			t.Errorf("%q of %v: %q, want %q", tc.format, tc.got, got, want)
		}
		if fmt.Sprint(tc.got...) != before {
			t.Errorf("%q: its arguments are %v now", tc.format, tc.got)
		}
	}
}

func TestBudgetEndsAtZero(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		budget Budget
		cost   int
		left   Budget
		fails  bool
	}{{10, 10, 0, false}, {10, 11, 0, true}, {10, 0, 10, false}, {0, 0, 0, false}, {10, -1, 0, true}, {10, math.MaxInt, 0, true}} {
		b := tc.budget
		if err := b.charge(tc.cost); (err != nil) != tc.fails || b != tc.left {
			t.Errorf("%d of %d: %v, %d are left, want %d", tc.cost, tc.budget, err, b, tc.left)
		}
	}
	for _, tc := range [][3]int{{0, 5, 0}, {5, 0, 0}, {2, 3, 6}, {int(PerObject), 2, tooMuch}, {math.MaxInt, math.MaxInt, tooMuch}} {
		if got := times(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%d times %d is %d, want %d", tc[0], tc[1], got, tc[2])
		}
	}
}
