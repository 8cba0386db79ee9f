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
	Name    string // the Node's; empty for a member that was added and has never run
	Learner bool
	Alarms  []string
	// Healthy says that the member itself was asked, and had nothing to complain of.
	Healthy bool
}

// String names the member for people.
func (m Member) String() string { return cmp.Or(m.Name, fmt.Sprintf("%x", m.ID)) }

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
// before it has caught up. A member that does not vote, or has never run, may
// always go: nothing rests on it.
func MayRemove(members []Member, id uint64) string {
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
	if i < 0 || members[i].Learner || members[i].Name == "" {
		return ""
	}
	left := slices.Delete(slices.Clone(members), i, i+1)
	for _, m := range left {
		if m.Learner {
			return fmt.Sprintf("etcd member %s is a learner that has not caught up yet", m)
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
	Leaving string   // the Node of the machine that goes; empty if it has none
	Staying []string // the Nodes of the other machines; empty for one that has none
}

// Objection says why the replacement is not safe; nothing if it is. The member
// to come counts as one that is not healthy, unless there is at most one now.
// A member without a machine is healthy unless it has alarms, since nobody can
// ask it. One that has never run does not count once no machine that stays
// can be on its way to be it: it goes together with the machine, or after it.
func (r Replacement) Objection() string {
	var target []Member
	for _, m := range r.Members {
		if m.Name != "" && m.Name == r.Leaving || m.Name == "" && complete(r.Members, r.Staying) {
			continue
		}
		if m.Learner || m.Name == "" {
			return fmt.Sprintf("etcd member %s is a learner that has not caught up yet", m)
		}
		if !slices.Contains(r.Staying, m.Name) {
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

// Orphans are the members that belong to none of the machines, whose Nodes are
// given, in the order of their names. While a machine has no Node, nobody can
// tell whose a member is; while one has a Node and no member, a member that
// has never run may be on its way to be that one's.
func Orphans(members []Member, nodes []string) []Member {
	if slices.Contains(nodes, "") {
		return nil
	}
	all := complete(members, nodes)
	orphans := slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		return m.Name == "" && !all || slices.Contains(nodes, m.Name)
	})
	slices.SortFunc(orphans, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return orphans
}

// complete reports whether each of the machines has a member that has run.
func complete(members []Member, nodes []string) bool {
	for _, node := range nodes {
		if node == "" || !slices.ContainsFunc(members, func(m Member) bool { return m.Name == node }) {
			return false
		}
	}
	return true
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
