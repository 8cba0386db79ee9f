// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestReconcileContinuesAfterOneFailure(t *testing.T) {
	t.Parallel()
	late := machineSet(2)
	late.Spec.Template.Spec.MinReadySeconds = new(int32(5))
	tests := map[string]struct {
		set     *clusterv1.MachineSet
		fail    string
		want    []string
		wantErr string
	}{
		"a patch": {
			set: late, fail: "patch Machine a",
			want:    []string{"patch Machine a", "patch Machine b", "patch status of MachineSet ms"},
			wantErr: "synchronise: Machine a: patch *v1beta2.Machine ns/a: no",
		},
		"a deletion": {
			set: machineSet(0), fail: "delete Machine a",
			want:    []string{"delete Machine a", "delete Machine b", "patch status of MachineSet ms"},
			wantErr: "scale: delete a: have 2, want 0: no",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), tc.set, machine("a"), machine("b"))
			w.fail[tc.fail] = errors.New("no")
			writes, err := w.reconcile()
			if err == nil || err.Error() != tc.wantErr {
				t.Errorf("error %v, want %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
