// SPDX-License-Identifier: Apache-2.0

// Package quorum decides about the members of an etcd cluster: who may be
// removed without losing the majority, who belongs to no machine, and who
// should lead next.
package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Member is a member of an etcd cluster.
type Member struct {
	ID      uint64
	Name    string // the Node's; empty while the member has never run
	Learner bool
	Alarms  []string
	// Healthy says that the member itself was asked, and had nothing to complain of.
	Healthy bool
}

// Needed is the majority of that many voting members.
func Needed(voting int) int { return voting/2 + 1 }

// Votes counts the voting members, and those of them that are healthy.
func Votes(members []Member) (voting, healthy int) {
	for _, m := range members {
		if m.Learner {
			continue
		}
		voting++
		if m.Healthy && len(m.Alarms) == 0 {
			healthy++
		}
	}
	return voting, healthy
}

// MayRemove says why a member may not be removed now; nothing if it may. After
// the removal a majority of those who are left must be healthy, and no learner
// may be among them: it will vote soon, and must not be needed for a majority
// before it has caught up.
func MayRemove(members []Member, id uint64) string {
	left := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.ID == id })
	if len(left) == len(members) {
		return "" // it has gone already
	}
	for _, m := range left {
		if m.Learner {
			return fmt.Sprintf("etcd member %s is a learner that has not caught up yet", name(m))
		}
	}
	voting, healthy := Votes(left)
	if voting == 0 {
		return "it is the last etcd member"
	}
	if healthy < Needed(voting) {
		return fmt.Sprintf("of the %d etcd members left, %d would be healthy and %d are needed", voting, healthy, Needed(voting))
	}
	return ""
}

// Replacement is what a replacement of an unhealthy machine would do to etcd.
type Replacement struct {
	Members []Member
	Leaving string          // name of the member that goes; it may not be in Members
	Owned   map[string]bool // names of members that have a machine
}

// Objection says why the replacement is not safe; nothing if it is. The member
// to come counts as one that is not healthy, unless there is at most one now.
// A member without a machine is healthy unless it has alarms, since nobody can
// ask it.
func (r Replacement) Objection() string {
	var target []Member
	for _, m := range r.Members {
		if m.Name != "" && m.Name == r.Leaving {
			continue
		}
		if m.Learner || m.Name == "" {
			return fmt.Sprintf("etcd member %s is a learner that has not caught up yet", name(m))
		}
		if !r.Owned[m.Name] {
			m.Healthy = true
		}
		target = append(target, m)
	}
	voting, healthy := Votes(target)
	if len(r.Members) > 1 {
		voting++ // the one to come
	}
	if healthy < Needed(voting) {
		return fmt.Sprintf("etcd would have %d healthy of %d members and needs %d", healthy, voting, Needed(voting))
	}
	return ""
}

// Orphans are the members whose Node belongs to no machine, in the order of
// their names. A member without a name is joining, and is nobody's orphan.
func Orphans(members []Member, nodes []string) []Member {
	orphans := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Name == "" || slices.Contains(nodes, m.Name) })
	slices.SortFunc(orphans, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return orphans
}

// Heir is a machine that could lead etcd.
type Heir struct {
	Node                                   string
	MemberHealthy, MachineHealthy, Current bool // as far as their conditions say
	Created                                time.Time
}

// Heirs are the members to hand the leadership to, the best first: those of
// machines that stay, the healthy before others, the up-to-date before the
// outdated, the newer before the older.
func Heirs(members []Member, candidates []Heir) []Member {
	slices.SortStableFunc(candidates, func(a, b Heir) int {
		return cmp.Or(
			first(a.MemberHealthy, b.MemberHealthy), first(a.MachineHealthy, b.MachineHealthy), first(a.Current, b.Current),
			b.Created.Compare(a.Created), strings.Compare(a.Node, b.Node))
	})
	var heirs []Member
	for _, c := range candidates {
		i := slices.IndexFunc(members, func(m Member) bool { return m.Name == c.Node && !m.Learner })
		if i >= 0 {
			heirs = append(heirs, members[i])
		}
	}
	return heirs
}

// first puts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func name(m Member) string { return cmp.Or(m.Name, fmt.Sprintf("%x", m.ID)) }
