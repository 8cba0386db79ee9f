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
			all = append(all, Member{ID: '_'})
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
		"a healthy one next to a broken":  {"aBC", "b", "of the 2 etcd members left, 1 would be healthy and 2 are needed"},
		"an alarm is not healthy":         {"AB!C", "a", "of the 2 etcd members left, 1 would be healthy and 2 are needed"},
		"the last":                        {"A", "a", "it is the last etcd member"},
		"one of two":                      {"AB", "a", ""},
		"the healthy of two":              {"Ab", "a", "of the 1 etcd members left, 0 would be healthy and 1 are needed"},
		"a learner has not caught up":     {"AB3", "a", "etcd member 3 is a learner that has not caught up yet"},
		"the learner itself":              {"AB3", "3", ""},
		"one of two learners":             {"AB34", "3", ""},
		"one that has never run":          {"aB_", "_", ""},
		"one of two that have never run":  {"a__", "_", ""},
		"next to one that has never run":  {"AB_", "a", "of the 2 etcd members left, 1 would be healthy and 2 are needed"},
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
	tests := map[string]struct{ members, leaving, staying, want string }{
		"the broken one of three":                {"aBC", "a", "b c", ""},
		"one broken, another leaves":             {"aBC", "b", "a c", "etcd would have 1 healthy of 3 members and needs 2"},
		"one that never joined":                  {"BC", "a", "b c", ""},
		"two broken of three":                    {"abC", "a", "b c", "etcd would have 1 healthy of 3 members and needs 2"},
		"the broken one of five":                 {"aBCDE", "a", "b c d e", ""},
		"a learner is there":                     {"aB3", "a", "b 3", "etcd member 3 is a learner that has not caught up yet"},
		"another one is joining":                 {"aB_", "a", "b c", "etcd member 5f is a learner that has not caught up yet"},
		"another one has no Node yet":            {"aB_", "a", "b -", "etcd member 5f is a learner that has not caught up yet"},
		"its own member has never run":           {"BC_", "a", "b c", ""},
		"it has no Node, nor run":                {"BC_", "-", "b c", ""},
		"a member without Machine has never run": {"aBC_", "a", "b c", ""},
		"one without a machine counts":           {"aBz", "a", "b", ""},
		"one without a machine with an alarm":    {"aBz!", "a", "b", "etcd would have 1 healthy of 3 members and needs 2"},
		"the only one":                           {"a", "a", "", "etcd would have 0 healthy of 0 members and needs 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Replacement{members(tc.members), strings.Trim(tc.leaving, "-"), nodes(tc.staying)}
			if got := r.Objection(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// nodes are given by their names; - is a machine that has none.
func nodes(list string) (all []string) {
	for node := range strings.FieldsSeq(list) {
		all = append(all, strings.Trim(node, "-"))
	}
	return all
}

func names(all []Member) (out []string) {
	for _, m := range all {
		out = append(out, m.Name)
	}
	return out
}

func TestOrphansBelongToNoMachine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		members, nodes string
		want           []string
	}{
		"by their names":                      {"cbA", "a", []string{"b", "c"}},
		"none":                                {"AB", "a b", nil},
		"a machine has no Node yet":           {"ABc", "a -", nil},
		"one that has never run":              {"AB_", "a b", []string{"5f"}},
		"two that have never run":             {"A__", "a", []string{"5f", "5f"}},
		"it may be a machine's to come":       {"AB_", "a b c", nil},
		"but not one that has run":            {"ABz_", "a b c", []string{"z"}},
		"a member still learns":               {"AB3", "a b 3", nil},
		"a learner without a waiting machine": {"AB3", "a b", []string{"3"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, m := range Orphans(members(tc.members), nodes(tc.nodes)) {
				got = append(got, m.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("orphans (-want +got)\n%s", diff)
			}
		})
	}
}

func TestCandidatesAreOrderedByHealthAndAge(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	got := names(Candidates(members("abcde1"), []Candidate{
		{Node: "a", Created: day(9)},
		{Node: "b", MemberHealthy: true, MachineHealthy: true, Created: day(3)},
		{Node: "c", MemberHealthy: true, MachineHealthy: true, Created: day(4)},
		{Node: "d", MemberHealthy: true, MachineHealthy: true, Current: true, Created: day(1)},
		{Node: "e", MemberHealthy: true, Current: true, Created: day(8)},
		{Node: "1", MemberHealthy: true, MachineHealthy: true, Current: true, Created: day(9)},
		{Node: "gone", MemberHealthy: true},
	}))
	if diff := cmp.Diff([]string{"d", "c", "b", "e", "a"}, got); diff != "" {
		t.Errorf("candidates (-want +got)\n%s", diff)
	}
}
