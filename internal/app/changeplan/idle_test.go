// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// TestPlanIsTheSameWithoutIdleReconciles compares plans with those that call every controller
// for every object in each round.
func TestPlanIsTheSameWithoutIdleReconciles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		serve  func(*testing.T) mgmt
		change []changeplan.Write
	}{
		"an upgrade and a deletion": {func(t *testing.T) mgmt { return serve(t) }, []changeplan.Write{upgrade(), shrink()}},
		"a class":                   {func(t *testing.T) mgmt { return served(t, fleet(t, 3, 2)) }, []changeplan.Write{applied(t, otherJoin), applied(t, rolled)}},
		"the deletion of a Cluster": {func(t *testing.T) mgmt { return serve(t) }, []changeplan.Write{deletion("Cluster", "plain")}},
		"a pool":                    {func(t *testing.T) mgmt { return servePool(t, true) }, []changeplan.Write{set("MachinePool", "fleet-pool", int64(4), "spec", "replicas")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := tc.serve(t)
			want := text(t, plan(t, m, changeplan.Exhaustive(changeplan.Options{}), tc.change...))
			if diff := cmp.Diff(want, text(t, plan(t, m, changeplan.Options{}, tc.change...))); diff != "" {
				t.Errorf("(-every reconcile +this)\n%s", diff)
			}
		})
	}
}
