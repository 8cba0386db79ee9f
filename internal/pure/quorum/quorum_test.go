// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// members are named a, b, …; a capital is healthy, a digit is a learner, and !
// after a letter is an alarm.
func members(short string) (all []Member) {
	for _, r := range short {
		switch {
		case r == '!':
			all[len(all)-1].Alarms = []string{"NOSPACE"}
		case r >= '0' && r <= '9':
			all = append(all, Member{ID: uint64(r), Name: string(r), Learner: true, Healthy: true})
		case r == '_':
			all = append(all, Member{ID: 1})
		default:
			name := strings.ToLower(string(r))
			all = append(all, Member{ID: uint64(name[0]), Name: name, Healthy: name != string(r)})
		}
	}
	return all
}

func TestMayRemove(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ members, remove, want string }{
		"one of three healthy":            {"ABC", "a", ""},
		"the broken one of three":         {"aBC", "a", ""},
		"a healthy one beside a broken":   {"aBC", "b", "of the 2 etcd members left, 1 would be healthy and 2 are needed"},
		"an alarm is not healthy":         {"AB!C", "a", "of the 2 etcd members left, 1 would be healthy and 2 are needed"},
		"the last":                        {"A", "a", "it is the last etcd member"},
		"one of two":                      {"AB", "a", ""},
		"the healthy of two":              {"Ab", "a", "of the 1 etcd members left, 0 would be healthy and 1 are needed"},
		"a learner has not caught up":     {"AB3", "a", "etcd member 3 is a learner that has not caught up yet"},
		"the learner itself":              {"AB3", "3", ""},
		"one that has gone already":       {"ab", "x", ""},
		"of five with two broken":         {"abCDE", "a", ""},
		"healthy of five with two broken": {"abCDE", "c", "of the 4 etcd members left, 2 would be healthy and 3 are needed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := MayRemove(members(tc.members), uint64(tc.remove[0])); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	owned := map[string]bool{"a": true, "b": true, "c": true}
	tests := map[string]struct {
		members, leaving, want string
		owned                  map[string]bool
	}{
		"the broken one of three":             {"aBC", "a", "", owned},
		"one broken, another leaves":          {"aBC", "b", "etcd would have 1 healthy of 3 members and needs 2", owned},
		"one that never joined":               {"BC", "a", "", owned},
		"two broken of three":                 {"abC", "a", "etcd would have 1 healthy of 3 members and needs 2", owned},
		"the broken one of five":              {"aBCDE", "a", "", map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true}},
		"a learner is there":                  {"aB3", "a", "etcd member 3 is a learner that has not caught up yet", owned},
		"a nameless one is joining":           {"aB_", "a", "etcd member 1 is a learner that has not caught up yet", owned},
		"one without a machine counts":        {"aBz", "a", "", owned},
		"one without a machine with an alarm": {"aBz!", "a", "etcd would have 1 healthy of 3 members and needs 2", owned},
		"the only one":                        {"a", "a", "etcd would have 0 healthy of 0 members and needs 1", owned},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Replacement{members(tc.members), tc.leaving, tc.owned}).Objection(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func names(all []Member) (out []string) {
	for _, m := range all {
		out = append(out, m.Name)
	}
	return out
}

func TestOrphansBelongToNoMachine(t *testing.T) {
	t.Parallel()
	got := names(Orphans(members("cbA_"), []string{"a"}))
	if diff := cmp.Diff([]string{"b", "c"}, got); diff != "" {
		t.Errorf("orphans (-want +got)\n%s", diff)
	}
}

func TestHeirsAreHealthyThenCurrentThenNew(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	got := names(Heirs(members("abcde1"), []Heir{
		{Node: "a", Created: day(9)},
		{Node: "b", MemberHealthy: true, MachineHealthy: true, Created: day(3)},
		{Node: "c", MemberHealthy: true, MachineHealthy: true, Created: day(4)},
		{Node: "d", MemberHealthy: true, MachineHealthy: true, Current: true, Created: day(1)},
		{Node: "e", MemberHealthy: true, Current: true, Created: day(8)},
		{Node: "1", MemberHealthy: true, MachineHealthy: true, Current: true, Created: day(9)},
		{Node: "gone", MemberHealthy: true},
	}))
	if diff := cmp.Diff([]string{"d", "c", "b", "e", "a"}, got); diff != "" {
		t.Errorf("heirs (-want +got)\n%s", diff)
	}
}
