// SPDX-License-Identifier: Apache-2.0

// Package quorum decides about the members of an etcd cluster: which can be removed
// without losing the majority, which belong to no machine, and which should lead next.
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
	// Healthy says that the member itself answered, and reported no errors.
	Healthy bool
}

// String names the member for users.
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

// MayRemove returns why a member must not be removed now; empty if it can be. After the
// removal a majority of the remaining members must be healthy, and none of them may be a
// learner: it will vote soon, and must not be needed for a majority before it has caught
// up. A member that does not vote, or has never run, can always be removed: no majority
// depends on it.
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

// Replacement describes the effect of replacing an unhealthy machine on etcd.
type Replacement struct {
	Members []Member
	Leaving string   // the Node of the machine to be replaced; empty if it has none
	Staying []string // the Nodes of the other machines; empty for one that has none
}

// Objection returns why the replacement is not safe; empty if it is. The future member
// counts as not healthy, unless there is at most one member now. A member without a
// machine counts as healthy unless it has alarms, since it cannot be asked. A member
// that has never run does not count if no remaining machine can become it: it is removed
// together with the machine, or after it.
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
		voting++ // the future member
	}
	if healthy < Needed(voting) {
		return fmt.Sprintf("etcd would have %d healthy of %d members and needs %d", healthy, voting, Needed(voting))
	}
	return ""
}

// Orphans are the members that belong to none of the machines, whose Nodes are given,
// sorted by name. While a machine has no Node, the machine of a member cannot be
// determined; while a machine has a Node and no member, a member that has never run may
// become its member.
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
	return !slices.ContainsFunc(nodes, func(node string) bool {
		return node == "" || !slices.ContainsFunc(members, func(m Member) bool { return m.Name == node })
	})
}

// Candidate is a leader candidate: a machine that could lead etcd.
type Candidate struct {
	Node                                   string
	MemberHealthy, MachineHealthy, Current bool // according to their conditions
	Created                                time.Time
}

// Candidates are the members to which leadership can be moved, the best first: those of
// machines that stay, the healthy before others, the up-to-date before the outdated, the
// newer before the older.
func Candidates(members []Member, candidates []Candidate) []Member {
	slices.SortStableFunc(candidates, func(a, b Candidate) int {
		return cmp.Or(
			TrueFirst(a.MemberHealthy, b.MemberHealthy), TrueFirst(a.MachineHealthy, b.MachineHealthy), TrueFirst(a.Current, b.Current),
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

// TrueFirst compares: true is before false.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
