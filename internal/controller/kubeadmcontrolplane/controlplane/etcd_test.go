// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

// members are given by names: ? is one that has never run; after a name, ! is an
// alarm and + a learner.
func members(list string) (all []quorum.Member) {
	for name := range strings.FieldsSeq(list) {
		m := quorum.Member{Name: strings.Trim(name, "?!+"), Learner: strings.HasSuffix(name, "+")}
		m.ID = uint64(name[0])
		if strings.HasSuffix(name, "!") {
			m.Alarms = []string{"NOSPACE"}
		}
		all = append(all, m)
	}
	return all
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	said := func(node, list string) Answer { return Answer{Node: node, Members: members(list)} }
	dead := func(node string) Answer { return Answer{Node: node, Err: errors.New(node + " is dead")} }
	complains := func(node, list string) Answer {
		return Answer{Node: node, Members: members(list), Errors: []string{"no leader"}}
	}
	repeats := func(node, list string) Answer {
		return Answer{Node: node, Members: members(list), Errors: []string{"memberID:98 alarm:NOSPACE "}}
	}
	tests := map[string]struct {
		answers []Answer
		want    []string // the members, healthy or not, then the errors
		good    bool
	}{
		"all are well":                     {[]Answer{said("a", "a b"), said("b", "a b")}, []string{"a healthy", "b healthy"}, true},
		"one is dead":                      {[]Answer{dead("a"), said("b", "a b")}, []string{"a", "b healthy", "a: a is dead"}, false},
		"one was not asked":                {[]Answer{said("a", "a b")}, []string{"a healthy", "b"}, false},
		"all are dead":                     {[]Answer{dead("a"), dead("b")}, []string{"unknown: a is dead\nb is dead", "a: a is dead", "b: b is dead"}, false},
		"one has never run":                {[]Answer{said("a", "a ?")}, []string{"a healthy", "3f"}, false},
		"one without a name answers":       {[]Answer{said("", "a ?")}, []string{"a", "3f"}, false},
		"a learner is not complete":        {[]Answer{said("a", "a b+"), said("b", "a b+")}, []string{"a healthy", "b healthy"}, false},
		"one knows others":                 {[]Answer{said("a", "a b"), said("b", "a b c")}, []string{"a healthy", "b", "b: etcd member b knows other members than the others do"}, false},
		"one has no Machine":               {[]Answer{said("a", "a x")}, []string{"a healthy", "x"}, false},
		"one that answers is no member":    {[]Answer{said("a", "a"), said("b", "a")}, []string{"a healthy"}, true},
		"one complains":                    {[]Answer{complains("a", "a b"), said("b", "a b")}, []string{"a", "b healthy", "a: etcd member reports errors: no leader"}, false},
		"an alarm is said by the alarm":    {[]Answer{complains("a", "a!"), said("b", "a!")}, []string{"a healthy"}, false},
		"each repeats the alarm of one":    {[]Answer{repeats("a", "a b!"), repeats("b", "a b!")}, []string{"a healthy", "b healthy"}, false},
		"the alarm of another is no error": {[]Answer{complains("a", "a b!"), said("b", "a b!")}, []string{"a", "b healthy", "a: etcd member reports errors: no leader"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Evaluate(now, tc.answers)
			var got []string
			if e.Err != nil {
				got = append(got, "unknown: "+e.Err.Error())
			}
			for _, m := range e.Members {
				line := m.String()
				if m.Healthy {
					line += " healthy"
				}
				got = append(got, line)
			}
			for _, a := range tc.answers {
				if err := e.MemberErrs[a.Node]; err != nil {
					got = append(got, fmt.Sprintf("%s: %v", a.Node, err))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			want := 3 * time.Second
			if tc.good {
				want = InspectionLasts
			}
			if lasts := e.Expires().Sub(now); lasts != want {
				t.Errorf("holds for %s, want %s", lasts, want)
			}
		})
	}
}

func TestExpiresIsZeroAfterFailure(t *testing.T) {
	t.Parallel()
	if at := (Etcd{Err: errors.New("no Pod runs")}).Expires(); !at.IsZero() {
		t.Errorf("got %s, want no time", at)
	}
}

func TestLaterMembersHaveTheHealthThatIsKnown(t *testing.T) {
	t.Parallel()
	e := Evaluate(now, []Answer{{Node: "a", Members: members("a b c")}, {Node: "b", Members: members("a b c")}})
	list := members("a b x")
	list[1].ID = 7 // another one of that name
	got := fmt.Sprint(quorum.Votes(e.With(list)))
	if want := "3 1"; got != want {
		t.Errorf("voting and healthy %s, want %s", got, want)
	}
}

func TestAskable(t *testing.T) {
	t.Parallel()
	f := facts(4, "a,b nomember,c bare,d going")
	if diff := cmp.Diff([]string{"a", "d"}, f.Askable(nil)); diff != "" {
		t.Errorf("of all (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d"}, f.Askable(f.Machines[0])); diff != "" {
		t.Errorf("without a (-want +got)\n%s", diff)
	}
}
