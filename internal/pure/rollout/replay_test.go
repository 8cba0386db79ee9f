// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/builder"
)

// recorded is a plan with its input, in a form that can be stored.
type recorded[R any] struct {
	Facts Facts
	Plan  R
}

func TestARecordedPlanIsMadeAgain(t *testing.T) {
	t.Parallel()
	md := deployment(3)
	for name, f := range map[string]Facts{
		"recorded-creation": {Deployment: md, Sets: []Set{set(md, "old", "v1", 3, 3, 3)}, Now: epoch, Name: "md-x7k2p", FieldOwner: "test"},
		"recorded-rollout":  {Deployment: md, Sets: []Set{set(md, "old", "v1", 3, 3, 3), set(md, "new", "v2", 1, 1, 1)}, Now: epoch, FieldOwner: "test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(recorded[Result]{f, Plan(f)}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			builder.Golden(t, name+".json", string(text)+"\n")
			var r recorded[any]
			if text, err = os.ReadFile(filepath.Join("testdata", name+".json")); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			var again any
			if text, err = json.Marshal(Plan(r.Facts)); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Plan, again); diff != "" {
				t.Errorf("plan (-recorded +made again):\n%s", diff)
			}
		})
	}
}
