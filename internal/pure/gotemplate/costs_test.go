// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// maxBytes is what may be allocated for a unit of a budget, of which a rendering holds
// little at a time. Measured are 11.
const maxBytes = 64

// TestFunctionsAreChargedForTheirWork calls each function with arguments that make work,
// those that a release of sprig adds as well.
func TestFunctionsAreChargedForTheirWork(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same calls each time
	all := functions()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of := reflect.TypeOf(all[name])
		var bytes, units uint64
		worst := ""
		for range 20 {
			args := arguments(random, of)
			allocated, used := measure(name, all[name], args)
			bytes, units = bytes+allocated, units+used
			if allocated > maxBytes*used+1<<16 && worst == "" { // the first call of some functions builds tables
				worst = fmt.Sprintf("%d bytes for %d units with %.200v", allocated, used, args)
			}
		}
		if worst != "" || bytes > maxBytes*units {
			t.Errorf("%s allocates %d bytes for %d units, the limit is %d for one: add it to works. The worst call: %s", name, bytes, units, maxBytes, worst)
		}
	}
}

// measure calls a function as a template does.
func measure(name string, f any, args []reflect.Value) (bytes, units uint64) {
	budget := PerObject
	tpl := &Template{budget: &budget}
	call := reflect.ValueOf(tpl.charged(name, f))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	func() {
		defer func() { _ = recover() }() // errors of functions, too
		call.Call(args)
	}()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, uint64(PerObject - budget)
}

func arguments(random *rand.Rand, of reflect.Type) (args []reflect.Value) {
	n := of.NumIn()
	if of.IsVariadic() {
		n += random.IntN(3) - 1
	}
	for i := range n {
		var in reflect.Type
		if of.IsVariadic() && i >= of.NumIn()-1 {
			in = of.In(of.NumIn() - 1).Elem()
		} else {
			in = of.In(i)
		}
		args = append(args, argument(random, in))
	}
	return args
}

var (
	deep = func(v any) any {
		for range deepest - 10 {
			v = []any{v}
		}
		return v
	}
	wide = func() (v []any) {
		for i := range 1000 {
			v = append(v, i, fmt.Sprint(i))
		}
		return v
	}()
	large = func() map[string]any {
		v := map[string]any{}
		for i := range 500 {
			v[fmt.Sprint(i)] = []any{i, map[string]any{"a": i}}
		}
		return v
	}()
	texts = []string{
		"", "x", ",", "1.2.3", ">= 1.2.3 || < 2", strings.Repeat("x ", 20000), strings.Repeat("\n", 20000), strings.Repeat("<ä\x00", 10000),
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "[" + strings.Repeat("{},", 10000) + "1]", `{"a":` + strings.Repeat("[1,", 900) + "1" + strings.Repeat("]", 900) + "}",
		"(x|y?){300}", `[\pL\pN]{100}`, "(?i)" + strings.Repeat(`\pL`, 500), "%9999d", "%*.*f", "%v%#v%+q", "https://u:p@h/p?q#f",
	}
)

func argument(random *rand.Rand, of reflect.Type) reflect.Value {
	switch of.Kind() {
	case reflect.String:
		return reflect.ValueOf(texts[random.IntN(len(texts))])
	case reflect.Int:
		return reflect.ValueOf([]int{0, 1, 80, 10000, 1 << 40, -1}[random.IntN(6)])
	case reflect.Float64:
		return reflect.ValueOf(0.5)
	case reflect.Bool:
		return reflect.ValueOf(random.IntN(2) == 0)
	case reflect.Map:
		if of == reflect.TypeFor[map[string]any]() {
			return reflect.ValueOf(maps.Clone(large)) // set and unset change it
		}
	case reflect.Slice:
		if of == reflect.TypeFor[[]any]() {
			return reflect.ValueOf(slices.Clone(wide))
		}
	case reflect.Interface:
		values := []any{wide, deep(1), deep(wide), large, 7, 1e300, int64(5000), texts[random.IntN(len(texts))]}
		return reflect.ValueOf(&values[random.IntN(len(values))]).Elem()
	}
	return reflect.Zero(of)
}
