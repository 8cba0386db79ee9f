// SPDX-License-Identifier: Apache-2.0

// Package scaling decides which Machines a MachineSet creates, deletes and
// replaces.
//
// It is pure: no client, no clock, no context. The controller observes, calls
// Plan, and carries the actions out.
package scaling

import (
	"fmt"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Batch is how many Machines a set of that many creates, deletes or changes
// before it is looked at again: a number that was mistyped and corrected is not
// carried on with. It grows with the set, as the cost of a look does, so that
// looking stays cheap beside doing.
func Batch(machines int) int { return max(10, machines/50) }

// Action is one change to make. String is the line that logs, events and tests show.
type Action interface{ fmt.Stringer }

type (
	// Create makes one Machine with its bootstrap config and infrastructure.
	Create struct{ Name, Why string }
	// Delete deletes one Machine.
	Delete struct{ Name, Why string }
)

// String implements Action.
func (a Create) String() string { return "create " + a.Name + ": " + a.Why }

// String implements Action.
func (a Delete) String() string { return "delete " + a.Name + ": " + a.Why }

// Facts are what Plan looks at. They are nothing but values: written down, they
// give the same plan again.
type Facts struct {
	Want     int
	Machines []*clusterv1.Machine // all that count for the set, those being deleted included
	Order    clusterv1.MachineSetDeletionOrder
	// Blocked says why no Machine may be created now; empty when one may.
	Blocked []string
	// Recipient takes Machines of which there are too many; nil: they are deleted.
	Recipient *Recipient `json:",omitempty"`
	// Names for new Machines; Missing tells how many are needed.
	Names []string
}

// Missing is how many Machines Plan creates, if there are names for them.
func (f Facts) Missing() int {
	have := len(f.Machines)
	if len(f.Blocked) > 0 || have >= f.Want {
		return 0
	}
	return min(f.Want-have, Batch(have))
}

// Plan returns what brings the Machines to the wanted number.
//
// A Machine that is being deleted counts until it has gone: its host may still
// hold what the next one needs. Too many Machines: those being deleted are the
// first of the surplus, then those marked by an annotation, those in the middle
// of an update, the unhealthy, and last the healthy ones in the order the set
// asks for. Where there is a recipient, they are handed over to it. Too few: the missing ones are created, unless something blocks that.
// At most one Batch is planned; the next plan has more.
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
