// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// maxVersions is how many versions a status may list.
const maxVersions = 100

// Counters are the counters of a group of Machines.
type Counters struct {
	Replicas, Ready, Available, UpToDate int32
	Versions                             []clusterv1.StatusVersion
}

// Count counts Machines. One that is being updated in place is neither ready,
// nor available, nor up to date, whatever its conditions still say.
func Count(machines []*clusterv1.Machine) Counters {
	c := Counters{Replicas: int32(len(machines))}
	versions := map[string]int32{}
	for _, m := range machines {
		if v := running(m); v != "" {
			versions[v]++
		}
		if _, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]; updating {
			continue
		}
		c.Ready += one(conditions.IsTrue(m, clusterv1.MachineReadyCondition))
		c.Available += one(conditions.IsTrue(m, clusterv1.MachineAvailableCondition))
		c.UpToDate += one(conditions.IsTrue(m, clusterv1.MachineUpToDateCondition))
	}
	for v, n := range versions {
		c.Versions = append(c.Versions, clusterv1.StatusVersion{Version: v, Replicas: n})
	}
	slices.SortFunc(c.Versions, func(a, b clusterv1.StatusVersion) int { return compareVersions(a.Version, b.Version) })
	if len(c.Versions) > maxVersions {
		c.Versions = c.Versions[:maxVersions]
	}
	return c
}

// running is the version that the Node reports or, before there is a Node, the
// one that the Machine is made for.
func running(m *clusterv1.Machine) string {
	if m.Status.NodeInfo != nil {
		return cmp.Or(m.Status.NodeInfo.KubeletVersion, m.Spec.Version)
	}
	return m.Spec.Version
}

// compareVersions puts older versions first, and what is no version last.
func compareVersions(a, b string) int {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	switch {
	case errA != nil && errB != nil:
		return cmp.Compare(a, b)
	case errA != nil:
		return 1
	case errB != nil:
		return -1
	case va.LessThan(vb):
		return -1
	case vb.LessThan(va):
		return 1
	}
	return cmp.Compare(a, b)
}

func one(is bool) int32 {
	if is {
		return 1
	}
	return 0
}
