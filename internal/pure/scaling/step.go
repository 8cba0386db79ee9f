// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Pending is the next version of a Cluster's control plane, so that a machine created
// now would be replaced; "" if it has its desired version: that of the topology, or of
// the current step of an upgrade.
func Pending(c *clusterv1.Cluster, controlPlane string) string {
	want, at := c.Spec.Topology.Version, c.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation]
	if controlPlane == want || controlPlane == at || want == "" {
		return ""
	}
	return cmp.Or(at, want)
}
