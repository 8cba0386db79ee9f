// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestStandaloneMachineHasNoUpToDateCondition(t *testing.T) {
	t.Parallel()
	s := &state{machine: machine(), set: &clusterv1.MachineSet{}, now: now}
	if report(s, nil); conditions.Has(s.machine, clusterv1.MachineUpToDateCondition) {
		t.Error("a Machine without MachineDeployment got the condition")
	}
	if got, err := outdated(s); got != nil || err != nil {
		t.Errorf("without MachineDeployment: %v, %v", got, err)
	}
}
