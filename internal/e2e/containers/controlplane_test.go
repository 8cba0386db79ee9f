// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"fmt"
	"testing"
)

// TestAControlPlaneOutlivesAMachine kills one of three machines of a control plane:
// the API server answers on, at the same endpoint, and another machine takes its place.
func TestAControlPlaneOutlivesAMachine(t *testing.T) {
	l := newLab(t)
	before := l.left(t)
	c := l.create(t, "three", shape{flavor: "container", version: l.version, controlPlane: 3, workers: 1})
	c.count(t)
	c.mgmt(t, fmt.Sprintf(healthCheck, c.name), "apply", "--filename", "-")
	from, err := c.counted(t)
	if err != nil {
		t.Fatal(err)
	}
	// What it leaves in the cluster is removed while there is one.
	t.Run("a-control-plane-that-was-killed-is-replaced", func(t *testing.T) { c.replaced(t, c.oneOf(t, controlPlanes), "lost", 1) })
	c.counts(t, from)
	c.etcdIsWhole(t)
	c.leavesNothing(t, before)
}
