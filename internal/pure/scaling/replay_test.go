// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// recorded is a plan with its input, in a form that can be stored.
type recorded struct {
	Facts Facts
	Plan  []string
}

func TestARecordedPlanIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Facts{
		"recorded-creations": {Want: 4, Machines: machines(healthyOne("a"), deletingOne("b")), Names: names(3)},
		"recorded-deletions": {
			Want: 1, Machines: machines(healthyOne("a"), healthyOne("b"), markedOne("c")), Order: clusterv1.NewestMachineSetDeletionOrder,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(recorded{f, texts(Plan(f))}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			builder.Golden(t, name+".json", string(text)+"\n")
			var r recorded
			if text, err = os.ReadFile(filepath.Join("testdata", name+".json")); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Plan, texts(Plan(r.Facts))); diff != "" || len(r.Plan) == 0 {
				t.Errorf("plan (-recorded +made again):\n%s", diff)
			}
		})
	}
}
