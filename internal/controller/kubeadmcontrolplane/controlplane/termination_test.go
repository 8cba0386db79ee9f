// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

func TestOrphansStayWhileTheyAreNeeded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machines string
		more     string // members without a machine
		change   func(*Facts)
		want     []string // orphan, and why it is kept
	}{
		"none":                       {"a,b,c", "", nil, nil},
		"one":                        {"a,b,c", "x", nil, []string{"x: "}},
		"one that has never run":     {"a,b,c", "?", nil, []string{"3f: "}},
		"one that a machine may be":  {"a,b,c lost", "?", nil, nil},
		"a machine without a Node":   {"a,b,c bare", "x", nil, nil},
		"next to a learner":          {"a,b,c", "x y+", nil, []string{"x: etcd member y is a learner that has not caught up yet", "y: "}},
		"with an unhealthy majority": {"a nomember,b nomember,c", "x", nil, []string{"x: of the 3 etcd members left, 1 would be healthy and 2 are needed"}},
		"no member can be asked":     {"a nomember", "?", nil, []string{"3f: no other etcd member is healthy"}},
		"members are not known":      {"a,b,c", "x", etcdUnknown, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(3, tc.machines)
			f.Etcd.Members = append(f.Etcd.Members, members(tc.more)...)
			if tc.change != nil {
				tc.change(&f)
			}
			var got []string
			for _, o := range Orphans(f) {
				got = append(got, o.String()+": "+o.Keep)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTerminations(t *testing.T) {
	t.Parallel()
	const lastComponents = "no other machine would be left with healthy control plane components"
	tests := map[string]struct {
		machines string
		change   func(*Facts)
		want     []string
	}{
		"no deletion":                         {"a held,b", nil, nil},
		"one that is not held":                {"a going,b", nil, nil},
		"one that goes":                       {"a drained,b,c", nil, []string{"a: remove its member a"}},
		"one that is still drained":           {"a going held,b,c", nil, []string{"a: early: its deletion has not come to the hooks yet"}},
		"another hook goes first":             {"a drained hooked,b,c", nil, []string{"a: early: hook pre-terminate.delete.hook.machine.cluster.x-k8s.io/x goes first: without its etcd member the Node may stop working"}},
		"two at once":                         {"a drained,b drained,c", nil, []string{"a: remove its member a", "b: remove its member b"}},
		"next to one that is on its way":      {"a going,b drained,c failing", nil, []string{"b: wait: " + lastComponents}},
		"the last one":                        {"a drained", nil, []string{"a: go"}},
		"the last one, still drained":         {"a going held", nil, []string{"a: go"}},
		"the whole cluster goes":              {"a drained,b failing", func(f *Facts) { f.Cluster.DeletionTimestamp = new(metav1.NewTime(now)) }, []string{"a: go"}},
		"one without a Node":                  {"a drained bare,b", nil, []string{"a: go"}},
		"one without a member":                {"a drained lost,b,c", nil, []string{"a: go"}},
		"no other serves":                     {"a drained,b failing,c bare", nil, []string{"a: wait: " + lastComponents}},
		"no other serves, before init":        {"a drained,b failing", uninitialized, []string{"a: remove its member a"}},
		"no other serves, and etcd is not":    {"a drained,b failing", etcdUnknown, []string{"a: wait: " + lastComponents}},
		"members are not known":               {"a drained,b,c", etcdUnknown, []string{"a: wait: the etcd members are not known: timeout"}},
		"members of others need not be known": {"a drained,b,c", func(f *Facts) { etcdUnknown(f); externalEtcd(f) }, []string{"a: go"}},
		"no other member can be asked":        {"a drained,b nomember,c nomember", nil, []string{"a: wait: no other etcd member is healthy"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(3, tc.machines)
			if tc.change != nil {
				tc.change(&f)
			}
			var got []string
			for _, one := range Terminations(f) {
				line := one.Machine.Name + ": "
				switch {
				case one.Early != "":
					line += "early: " + one.Early
				case one.Wait != "":
					line += "wait: " + one.Wait
				case one.Member != nil:
					line += "remove its member " + one.Member.Name
				default:
					line += "go"
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCandidatesAreRemainingMachines(t *testing.T) {
	t.Parallel()
	f := facts(5, "a,b nomember old,c bare,d going,e unhealthy")
	want := []quorum.Candidate{
		{Node: "b", MachineHealthy: true, Created: f.Machines[1].CreationTimestamp.Time},
		{Node: "e", MemberHealthy: true, Current: true, Created: f.Machines[4].CreationTimestamp.Time},
	}
	if diff := cmp.Diff(want, LeaderCandidates(f, f.Machines[0])); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
