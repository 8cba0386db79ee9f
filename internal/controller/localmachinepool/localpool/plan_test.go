// SPDX-License-Identifier: Apache-2.0

package localpool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// member builds a healthy machine of the current template, named by the first word and
// changed by the others: old, coming, failing, unheard, marked, going, bare.
func member(text string) Member {
	words := strings.Fields(text)
	m := Member{
		Local:   &infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: words[0], Annotations: map[string]string{infrav1.PoolTemplateAnnotation: "now"}}},
		Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: words[0], Annotations: map[string]string{}}},
	}
	m.Local.Status.Initialization.Provisioned = new(true)
	m.Machine.Status.NodeRef.Name = words[0]
	is := func(condition string, status metav1.ConditionStatus) {
		conditions.Set(m.Machine, now, conditions.New(condition, status, "Test", ""))
	}
	is(clusterv1.AvailableCondition, metav1.ConditionTrue)
	for _, word := range words[1:] {
		switch word {
		case "old":
			m.Local.Annotations[infrav1.PoolTemplateAnnotation] = "before"
		case "coming":
			m.Local.Status.Initialization.Provisioned = nil
			m.Machine.Status.NodeRef.Name = ""
			is(clusterv1.AvailableCondition, metav1.ConditionFalse)
		case "failing":
			is(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse)
			is(clusterv1.AvailableCondition, metav1.ConditionFalse)
		case "unheard":
			is(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown)
			is(clusterv1.AvailableCondition, metav1.ConditionUnknown)
		case "marked":
			m.Machine.Annotations[clusterv1.DeleteMachineAnnotation] = ""
		case "going":
			m.Machine.DeletionTimestamp = &metav1.Time{Time: now}
		case "bare":
			m.Machine = nil
		}
	}
	return m
}

func members(texts ...string) (all []Member) {
	for _, text := range texts {
		all = append(all, member(text))
	}
	return all
}

// many are n machines that are all alike.
func many(n int, like string) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprintf("m%02d %s", i, like))
	}
	return texts
}

func TestPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want    int
		members []string
		blocked bool
		acts    []string
	}{
		"enough": {want: 2, members: []string{"a", "b"}},
		"too few": {want: 3, members: []string{"a"}, acts: []string{
			"create n0: have 1, want 3", "create n1: have 1, want 3",
		}},
		"too few, and none can be made":                                      {want: 3, members: []string{"a"}, blocked: true},
		"one that goes is replaced when it has gone":                         {want: 2, members: []string{"a", "b going"}},
		"one that goes is the first of too many":                             {want: 1, members: []string{"a", "b going"}},
		"all are deleted":                                                    {want: 0, members: []string{"a", "b coming"}, acts: []string{"delete b: have 2, want 0", "delete a: have 2, want 0"}},
		"the marked go first, then the unhealthy":                            {want: 2, members: []string{"a", "b", "c marked", "d failing"}, acts: []string{"delete c: have 4, want 2", "delete d: have 4, want 2"}},
		"one without a Machine goes before the healthy":                      {want: 1, members: []string{"a", "b bare"}, acts: []string{"delete b: have 2, want 1"}},
		"one that was not heard of is like the healthy":                      {want: 1, members: []string{"a unheard", "b failing"}, acts: []string{"delete b: have 2, want 1"}},
		"a mark alone deletes nothing":                                       {want: 2, members: []string{"a marked", "b"}},
		"an old one is followed by a new one":                                {want: 2, members: []string{"a old", "b old"}, acts: []string{"create n0: have 2, want 2, 2 of another template"}},
		"and stays until that is available":                                  {want: 2, members: []string{"a old", "b old", "c coming"}},
		"then one goes":                                                      {want: 2, members: []string{"a old", "b old", "c"}, acts: []string{"delete a: have 3, want 2, 2 of another template"}},
		"the unhealthy first":                                                {want: 2, members: []string{"a old", "b old failing", "c"}, acts: []string{"delete b: have 3, want 2, 2 of another template"}},
		"and the next comes when it has gone":                                {want: 2, members: []string{"a old going", "b old", "c"}},
		"the last old one goes":                                              {want: 2, members: []string{"b old", "c", "d"}, acts: []string{"delete b: have 3, want 2, 1 of another template"}},
		"if all old ones are unhealthy, none is deleted for one that starts": {want: 2, members: []string{"a old failing", "b old failing", "c coming"}},
		"old ones without a report stay":                                     {want: 2, members: []string{"a old unheard", "b old unheard", "c unheard"}},
		"unhealthy new ones keep the old ones":                               {want: 2, members: []string{"a old", "b old", "c failing"}},
		"fewer are wanted in the middle of it":                               {want: 1, members: []string{"a old", "b old", "c old", "d coming"}, acts: []string{"delete a: have 4, want 1, 3 of another template", "delete b: have 4, want 1, 3 of another template"}},
		"fewer are wanted near its end":                                      {want: 1, members: []string{"a old", "b", "c", "d failing"}, acts: []string{"delete a: have 4, want 1, 1 of another template", "delete d: have 4, want 1", "delete b: have 4, want 1"}},
		"more are wanted in the middle of it":                                {want: 4, members: []string{"a old", "b"}, acts: []string{"create n0: have 2, want 4, 1 of another template", "create n1: have 2, want 4, 1 of another template", "create n2: have 2, want 4, 1 of another template"}},
		"none is wanted in the middle of it":                                 {want: 0, members: []string{"a old", "b coming"}, acts: []string{"delete a: have 2, want 0, 1 of another template", "delete b: have 2, want 0"}},
		"at most a batch is deleted at once":                                 {want: 0, members: many(12, ""), acts: deleted(10, "have 12, want 0")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Facts{Want: tc.want, Template: "now", Members: members(tc.members...), Blocked: tc.blocked}
			for i := range f.Missing() {
				f.Names = append(f.Names, fmt.Sprintf("n%d", i))
			}
			var got []string
			for _, a := range Plan(f) {
				got = append(got, a.String())
			}
			if diff := cmp.Diff(tc.acts, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func deleted(n int, why string) (acts []string) {
	for i := range n {
		acts = append(acts, fmt.Sprintf("delete m%02d: %s", i, why))
	}
	return acts
}

// TestAPlanIsCarriedOutToItsEnd lets machines do as planned, each new one coming
// up a step later, and each that is deleted going a step later.
func TestAPlanIsCarriedOutToItsEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from  []string
		want  int
		least int // the minimum number of available machines
		most  int // the maximum number of machines
	}{
		"up":                  {nil, 50, 0, 50},
		"down":                {many(50, ""), 1, 1, 50},
		"to another template": {many(50, "old"), 50, 50, 55},
		"of one":              {many(1, "old"), 1, 1, 2},
		"down, to another":    {many(20, "old"), 5, 5, 21},
		"up, to another":      {many(5, "old"), 20, 5, 22},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, made := members(tc.from...), 0
			for range 500 {
				f := Facts{Want: tc.want, Template: "now", Members: all}
				for range f.Missing() {
					made++
					f.Names = append(f.Names, fmt.Sprintf("n%03d", made))
				}
				acts, going := Plan(f), map[string]bool{}
				for _, a := range acts {
					verb, name, _ := strings.Cut(strings.Split(a.String(), ":")[0], " ")
					going[name] = verb == "delete"
				}
				var next []Member
				available := 0
				for _, m := range all {
					switch {
					case m.Going():
					case going[m.Local.Name]:
						m.Machine.DeletionTimestamp = &metav1.Time{Time: now}
						next = append(next, m)
					case !m.available():
						next = append(next, member(m.Local.Name))
					default:
						available++
						next = append(next, m)
					}
				}
				for _, name := range f.Names {
					next = append(next, member(name+" coming"))
				}
				rest := len(acts) == 0 && available == len(all)
				all = next
				if available < tc.least || len(all) > tc.most {
					t.Fatalf("%d available of %d, want %d at least, of %d at most", available, len(all), tc.least, tc.most)
				}
				if rest {
					break
				}
			}
			old := 0
			for _, m := range all {
				if (Facts{Template: "now"}).outdated(m) {
					old++
				}
			}
			if len(all) != tc.want || old > 0 {
				t.Errorf("ended with %d machines, %d old ones; want %d and none", len(all), old, tc.want)
			}
		})
	}
}
