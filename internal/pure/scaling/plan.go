// SPDX-License-Identifier: Apache-2.0

// Package scaling decides which Machines a MachineSet creates, deletes and replaces.
//
// It is pure: no client, no clock, no context. The controller observes, calls Plan, and
// executes the actions.
package scaling

import (
	"cmp"
	"fmt"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Batch is how many Machines a set of that size creates, deletes or changes in one
// reconcile: so a mistyped number that is corrected is not executed to the end. It grows
// with the set, as the cost of a reconcile does, so that reconciles stay cheap relative
// to the changes.
func Batch(machines int) int { return max(10, machines/50) }

// Action is one change to make. String is the text in logs, events and tests.
type Action interface{ fmt.Stringer }

type (
	// Create creates one Machine with its bootstrap config and infrastructure.
	Create struct{ Name, Why string }
	// Delete deletes one Machine.
	Delete struct{ Name, Why string }
)

// String implements Action.
func (a Create) String() string { return "create " + a.Name + ": " + a.Why }

// String implements Action.
func (a Delete) String() string { return "delete " + a.Name + ": " + a.Why }

// Facts are the input of Plan. They are only values: a stored record gives the same plan
// again.
type Facts struct {
	Want     int
	Machines []*clusterv1.Machine // all that count for the set, including those being deleted
	Order    clusterv1.MachineSetDeletionOrder
	// Blocked is why no Machine may be created now; empty when one may.
	Blocked []string
	// Recipient accepts surplus Machines; nil: they are deleted.
	Recipient *Recipient `json:",omitempty"`
	// Names for new Machines; Missing returns how many are needed.
	Names []string
}

// NewNames implements decisions.Naming.
func (f Facts) NewNames() []string { return f.Names }

// Missing is how many Machines Plan creates, if there are names for them.
func (f Facts) Missing() int {
	have := len(f.Machines)
	if len(f.Blocked) > 0 || have >= f.Want {
		return 0
	}
	return min(f.Want-have, Batch(have))
}

// Plan returns the actions toward the desired number of Machines.
//
// A Machine that is being deleted counts until it is deleted: its infrastructure may
// still use resources that the next one needs. With too many Machines, those being
// deleted are the first of the surplus, then those marked by an annotation, those with
// an update in progress, the unhealthy, and last the healthy ones in the order of the
// set. If there is a recipient, they are handed over to it. With too few, the missing
// ones are created, unless something blocks that. At most one Batch is planned; the next
// plan continues.
func Plan(f Facts) []Action {
	have := len(f.Machines)
	why := fmt.Sprintf("have %d, want %d", have, f.Want)
	var acts []Action
	for _, name := range f.Names[:min(len(f.Names), f.Missing())] {
		acts = append(acts, Create{name, why})
	}
	if have <= f.Want {
		return acts
	}
	room := 0
	if f.Recipient != nil {
		room = f.Recipient.Room
	}
	for _, m := range inOrder(f.Machines, f.Order)[:have-f.Want] {
		if !m.DeletionTimestamp.IsZero() || len(acts) == Batch(have) {
			continue
		}
		if a := f.leave(m, why, &room); a != nil {
			acts = append(acts, a)
		}
	}
	return acts
}

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
