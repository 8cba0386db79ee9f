// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pointer distinguishes two equal maps or lists.
func pointer(t *testing.T, u *unstructured.Unstructured, path ...any) uintptr {
	t.Helper()
	var v any = u.Object
	for _, p := range path {
		switch at := p.(type) {
		case string:
			v = v.(map[string]any)[at]
		case int:
			v = v.([]any)[at]
		}
	}
	return reflect.ValueOf(v).Pointer()
}

func TestWhatAWriteDoesNotChangeIsKeptOnce(t *testing.T) {
	t.Parallel()
	h := &history{}
	parse := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	const object = `{"kind": "K", "metadata": {"uid": "u", "labels": {"a": "b"}, "managedFields": [{"manager": "m", "f": {"x": {}}}, {"manager": "n"}]},
		"spec": {"list": [{"name": "one", "v": {"size": 1}}, {"name": "two", "v": {}}], "deep": {"er": [1, 2]}}, "status": {"phase": %q}}`
	first, second := parse(fmt.Sprintf(object, "A")), parse(fmt.Sprintf(object, "B"))
	second.Object["spec"].(map[string]any)["list"].([]any)[1].(map[string]any)["v"] = "text"
	want := second.DeepCopy()
	h.add(first)
	first.SetResourceVersion("1") // as the reader does
	h.add(second)
	second.SetResourceVersion("2")
	want.SetResourceVersion("2")
	if diff := cmp.Diff(want.Object, second.Object); diff != "" {
		t.Errorf("changed by sharing (-want +got):\n%s", diff)
	}
	if phase, _, _ := unstructured.NestedString(first.Object, "status", "phase"); phase != "A" || first.GetResourceVersion() != "1" {
		t.Errorf("the one before has changed: %v", first.Object)
	}
	for name, tc := range map[string]struct {
		path   []any
		shared bool
	}{
		"metadata, whose resource version is set": {[]any{"metadata"}, false},
		"labels":                     {[]any{"metadata", "labels"}, true},
		"managedFields":              {[]any{"metadata", "managedFields"}, true},
		"a list with another item":   {[]any{"spec", "list"}, false},
		"an item that is the same":   {[]any{"spec", "list", 0}, true},
		"a part of the spec":         {[]any{"spec", "deep"}, true},
		"a status that is different": {[]any{"status"}, false},
	} {
		if got := pointer(t, first, tc.path...) == pointer(t, second, tc.path...); got != tc.shared {
			t.Errorf("%s: shared %t, want %t", name, got, tc.shared)
		}
	}
	other := parse(fmt.Sprintf(object, "B"))
	other.SetUID("another")
	h.add(other)
	h.add(parse(`{"kind": "K"}`))
	if pointer(t, other, "spec", "deep") == pointer(t, second, "spec", "deep") {
		t.Error("shared with another object")
	}
}

// TestSharingChangesNothing uses random trees.
func TestSharingChangesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var tree func(depth int) any
	tree = func(depth int) any {
		switch n := random.IntN(7); {
		case depth == 0 || n < 2:
			return []any{"a", "b", int64(1), 1.5, true, nil}[random.IntN(6)]
		case n < 5:
			m := map[string]any{}
			for range random.IntN(4) {
				m[string(rune('a'+random.IntN(5)))] = tree(depth - 1)
			}
			return m
		}
		l := []any{}
		for range random.IntN(4) {
			l = append(l, tree(depth-1))
		}
		return l
	}
	for range 20000 {
		now, was := tree(4), tree(4)
		before, wasBefore := encode(t, now), encode(t, was)
		got, same := share(now, was)
		if !same {
			got = now
		}
		if same != (before == wasBefore) || encode(t, got) != before || encode(t, was) != wasBefore {
			t.Fatalf("%s after %s: same %t, became %s, was became %s", before, wasBefore, same, encode(t, got), encode(t, was))
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHistoryEvictsUnusedObjects(t *testing.T) {
	t.Parallel()
	h := &history{}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "u"}}}
	h.add(u)
	again := u.DeepCopy()
	h.add(again)
	known := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.last)
	}
	runtime.KeepAlive(u)
	for range 3 { // the older one goes, and the newer one is still known
		runtime.GC()
	}
	if known() != 1 {
		t.Error("an object in use is evicted")
	}
	runtime.KeepAlive(again)
	for known() > 0 { // until the test is out of time
		runtime.GC()
		runtime.Gosched()
	}
}
