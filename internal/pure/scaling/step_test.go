// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"testing"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestPending(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ topology, step, controlPlane, want string }{
		"no topology":                         {"", "", "v1.34.0", ""},
		"at the version of the topology":      {"v1.34.0", "", "v1.34.0", ""},
		"an upgrade that has not started":     {"v1.34.0", "", "v1.31.0", "v1.34.0"},
		"at the step of an upgrade":           {"v1.34.0", "v1.32.0", "v1.32.0", ""},
		"a step that is about to be taken":    {"v1.34.0", "v1.32.0", "v1.31.0", "v1.32.0"},
		"back to the version that it had":     {"v1.31.0", "v1.32.0", "v1.31.0", ""},
		"builds of one version are different": {"v1.34.0+b2", "", "v1.34.0+b1", "v1.34.0+b2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{}
			c.Spec.Topology.Version = tc.topology
			c.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: tc.step}
			if got := Pending(c, tc.controlPlane); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
