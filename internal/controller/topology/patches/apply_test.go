// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// anyValue is a value with few names, so that paths often hit.
func anyValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case depth > 0 && n < 3:
		out := map[string]any{}
		for range r.IntN(3) {
			out[anyName(r)] = anyValue(r, depth-1)
		}
		return out
	case depth > 0 && n < 5:
		out := []any{}
		for range r.IntN(3) {
			out = append(out, anyValue(r, depth-1))
		}
		return out
	}
	return []any{nil, true, "x", int64(1), 1.5}[r.IntN(5)]
}

func anyName(r *rand.Rand) string { return []string{"a", "b", "0", "x/y", "t~"}[r.IntN(5)] }

// TestOperationsDoWhatTheStandardSays compares with a library that is used
// everywhere.
func TestOperationsDoWhatTheStandardSays(t *testing.T) {
	t.Parallel()
	applied := 0
	for seed := range uint64(10000) {
		r := rand.New(rand.NewPCG(seed, 1))
		document := map[string]any{"a": anyValue(r, 3), "b": anyValue(r, 3)}
		before, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var path strings.Builder
		for range 1 + r.IntN(4) {
			step := []string{anyName(r), "0", "1", "2", "-"}[r.IntN(5)]
			path.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1"))
		}
		op, value := []string{"add", "replace", "remove"}[r.IntN(3)], anyValue(r, 1)
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		from := clusterv1.JSONPatch{Op: op, Path: path.String()}
		theirs := fmt.Sprintf(`[{"op":%q,"path":%q,"value":%s}]`, op, path.String(), text)
		patch, err := jsonpatch.DecodePatch([]byte(theirs))
		if err != nil {
			t.Fatal(err)
		}
		want, wantErr := patch.Apply(before)
		o := operation{op: from.Op, path: from.Path}
		if o.pointer, err = pointer(from.Path); err != nil {
			t.Fatal(err)
		}
		_, err = o.change(document, o.pointer, value)
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%s to %s: %v, want %v", theirs, before, err, wantErr)
			continue
		}
		if err != nil {
			continue
		}
		applied++
		got, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var is, should any
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(want, &should); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(should, is); diff != "" {
			t.Errorf("%s to %s (-want +got):\n%s", theirs, before, diff)
		}
	}
	if applied < 1000 {
		t.Errorf("only %d of 10000 apply", applied)
	}
}
