// SPDX-License-Identifier: Apache-2.0

// Package step tells those who make machines where the upgrade of a topology is.
package step

import (
	"cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Pending is the version that the control plane of a Cluster is about to get, so
// that a machine made now would be replaced; "" if it has the one that it is meant
// to have: that of the topology, or of the step that an upgrade has come to.
func Pending(c *clusterv1.Cluster, controlPlane string) string {
	want, at := c.Spec.Topology.Version, c.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation]
	if controlPlane == want || controlPlane == at || want == "" {
		return ""
	}
	return cmp.Or(at, want)
}
