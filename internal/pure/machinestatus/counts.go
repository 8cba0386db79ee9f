// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"cmp"
	"slices"
	"time"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// How many versions a status may list, and how long one may be.
const (
	MostOfGroup   = 100
	MostOfCluster = 32

	maxVersion = 256
)

// Counters are the counters of machines.
type Counters struct {
	Desired, Replicas, Ready, Available, UpToDate int32

	versions map[string]int32
}

// CountMachines counts Machines.
func CountMachines(machines []*clusterv1.Machine) *Counters {
	c := &Counters{}
	for _, m := range machines {
		c.Machine(m)
	}
	return c
}

// Machine adds one Machine; it also counts as desired.
func (c *Counters) Machine(m *clusterv1.Machine) {
	c.Desired++
	c.Replicas++
	c.version(countsAsRunning(m), 1)
	c.Ready += one(is(m, clusterv1.MachineReadyCondition))
	c.Available += one(IsAvailable(m))
	c.UpToDate += one(is(m, clusterv1.MachineUpToDateCondition))
}

// IsAvailable reports whether a Machine counts as available.
func IsAvailable(m *clusterv1.Machine) bool { return is(m, clusterv1.MachineAvailableCondition) }

func is(m *clusterv1.Machine, condition string) bool {
	_, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	return !updating && conditions.IsTrue(m, condition)
}

// Group is what a group of machines reports in its status.
type Group struct {
	Desired, Replicas, Ready, Available, UpToDate *int32

	Versions []clusterv1.StatusVersion
}

// Group adds a group.
func (c *Counters) Group(g Group) {
	c.Desired += ptr.Deref(g.Desired, 0)
	c.Replicas += ptr.Deref(g.Replicas, 0)
	c.Ready += ptr.Deref(g.Ready, 0)
	c.Available += ptr.Deref(g.Available, 0)
	c.UpToDate += ptr.Deref(g.UpToDate, 0)
	for _, v := range g.Versions {
		c.version(v.Version, v.Replicas)
	}
}

// Versions lists the versions of the machines.
func (c *Counters) Versions(most int) (out []clusterv1.StatusVersion) {
	for v, n := range c.versions {
		out = append(out, clusterv1.StatusVersion{Version: v, Replicas: n})
	}
	return ListedVersions(out, most)
}

// ListedVersions converts versions to the form of a status.
func ListedVersions(versions []clusterv1.StatusVersion, most int) []clusterv1.StatusVersion {
	out := slices.DeleteFunc(slices.Clone(versions), func(v clusterv1.StatusVersion) bool { return !fits(v.Version) || v.Replicas < 0 })
	slices.SortFunc(out, func(a, b clusterv1.StatusVersion) int { return compareVersions(a.Version, b.Version) })
	return out[:min(len(out), most)]
}

func (c *Counters) version(v string, machines int32) {
	if machines <= 0 || !fits(v) {
		return
	}
	if c.versions == nil {
		c.versions = map[string]int32{}
	}
	c.versions[v] += machines
}

func fits(v string) bool { return v != "" && len(v) <= maxVersion }

func countsAsRunning(m *clusterv1.Machine) string {
	if info := m.Status.NodeInfo; info != nil && fits(info.KubeletVersion) {
		return info.KubeletVersion
	}
	return m.Spec.Version
}

// compareVersions sorts older versions first, and invalid versions last.
func compareVersions(a, b string) int {
	va, errA := semver.ParseTolerant(a)
	vb, errB := semver.ParseTolerant(b)
	return cmp.Or(cmp.Compare(one(errA != nil), one(errB != nil)), va.Compare(vb), cmp.Compare(a, b))
}

func one(is bool) int32 {
	if is {
		return 1
	}
	return 0
}

// CountNodes counts the Machines whose Nodes are ready, and those whose Nodes have been ready
// for minReadySeconds, as v1beta1 defines it. Other conditions of a Machine do not
// count.
func CountNodes(machines []*clusterv1.Machine, minReadySeconds *int32, now time.Time) (ready, available int32) {
	wait := time.Duration(ptr.Deref(minReadySeconds, 0)) * time.Second
	for _, m := range machines {
		node := conditions.Get(m, clusterv1.MachineNodeReadyCondition)
		if node == nil || node.Status != metav1.ConditionTrue {
			continue
		}
		ready++
		available += one(!now.Before(node.LastTransitionTime.Add(wait)))
	}
	return ready, available
}
