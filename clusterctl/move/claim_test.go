// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestAProcessThatLostItsClaimWritesNothing: after each write of one process, which then
// sleeps for longer than its claim lasts, another process ends the move. The first finds
// that it no longer holds the move.
func TestAProcessThatLostItsClaimWritesNothing(t *testing.T) {
	t.Parallel()
	begin, _, after := beginning(t)
	calm := begin.fork()
	writes := len(calm.moments(func() error { return calm.run(false) }))
	for n := 1; n < writes; n++ {
		s := begin.fork()
		var last string
		seen, versions := 0, [2]int{}
		s.after = func(call string) {
			if seen++; seen != n {
				return
			}
			s.after, last = nil, call
			s.clock.Step(claimLasts + time.Second)
			o := s.options()
			o.Gone = nil
			if err := Run(t.Context(), o); err != nil {
				t.Errorf("the second, after %s: %v", call, err)
			}
			versions = [2]int{s.source.version, s.target.version}
		}
		if err := s.run(false); err == nil && n < writes-4 { // by then, all objects moved
			t.Errorf("after %s, the first process reports no error", last)
		}
		if now := [2]int{s.source.version, s.target.version}; now != versions {
			t.Errorf("after %s, the first process has written: versions %v, then %v", last, versions, now)
		}
		s.has("after "+last, after)
	}
}

// TestARetriedWriteNeedsTheClaim: a write fails so that it can be sent again. Until then,
// the claim of its process ends, and another process ends the move.
func TestARetriedWriteNeedsTheClaim(t *testing.T) {
	t.Parallel()
	begin, _, after := beginning(t)
	calm := begin.fork()
	if err := calm.run(false); err != nil {
		t.Fatal(err)
	}
	for at, call := range calm.calls {
		if !isWrite(call) || strings.Contains(call, JournalName) || strings.Contains(call, "Namespace") {
			continue // these are written without the claim
		}
		s, versions := begin.fork(), [2]int{}
		s.fails = func(n int, _ string) failure {
			if n != at+1 {
				return none
			}
			s.fails = nil
			s.clock.Step(claimLasts + time.Second)
			o := s.options()
			o.Gone = nil
			if err := Run(t.Context(), o); err != nil {
				t.Errorf("the second, at %s: %v", call, err)
			}
			versions = [2]int{s.source.version, s.target.version}
			return busy
		}
		if err := s.run(false); err == nil {
			t.Errorf("at %s, the first process reports no error", call)
		}
		if now := [2]int{s.source.version, s.target.version}; now != versions {
			t.Errorf("at %s, the first process has written: versions %v, then %v", call, versions, now)
		}
		s.has("at "+call, after)
	}
}

// TestAMoveIsNotResumedOnOtherSides, also if the user may not read what identifies them.
func TestAMoveIsNotResumedOnOtherSides(t *testing.T) {
	t.Parallel()
	const journal = "ConfigMap fleet/" + JournalName
	begin, _, _ := beginning(t)
	hidden := func(_ int, call string) failure {
		if strings.HasPrefix(call, "get Namespace kube-system") {
			return refused
		}
		return none
	}
	for name, fails := range map[string]func(int, string) failure{"readable": nil, "hidden": hidden} {
		// named has the objects of another management cluster.
		named := func(side *side, name string) *side {
			other := side.fork(side.sides)
			other.name, other.Plane = name, NewPlane(request{side: other}, name)
			other.change("Namespace kube-system", func(obj *unstructured.Unstructured) { obj.SetUID(types.UID(name)) })
			return other
		}
		moved, saved, others := begin.fork(), begin.fork(), newSides(t, fleet, beforeMove)
		moved.fails = fails
		cases := map[string]*sides{
			"a save": saved.moments(func() error { return Save(t.Context(), saved.options(), t.TempDir()) })[2],
		}
		for _, m := range moved.moments(func() error { return moved.run(false) }) {
			switch here, there := m.source.objects[journal], m.target.objects[journal]; {
			case here != nil && there != nil && strings.Contains(m.last, "create Machine"):
				m.target = named(others.target.fork(m), "elsewhere")
				cases["another target"] = m
			case here != nil && there != nil && strings.Contains(fmt.Sprint(there.Object["data"]), "phase: finishing"):
				m.target = named(others.target.fork(m), "elsewhere")
				cases["another target at the end"] = m
			case here == nil && there != nil:
				m.source = named(others.source.fork(m), "another")
				cases["another source"] = m
			}
		}
		if len(cases) != 4 {
			t.Fatalf("%d moments", len(cases))
		}
		for what, s := range cases {
			s.fails = fails
			versions := [2]int{s.source.version, s.target.version}
			err := s.run(false)
			if busy := (*BusyError)(nil); !errors.As(err, &busy) {
				t.Errorf("%s, identities %s: error %v", what, name, err)
			}
			if now := [2]int{s.source.version, s.target.version}; now != versions {
				t.Errorf("%s, identities %s: versions %v, then %v", what, name, versions, now)
			}
		}
	}
}

// TestRunRefusesAJournalThatItCannotRead, and names it.
func TestRunRefusesAJournalThatItCannotRead(t *testing.T) {
	t.Parallel()
	for what, data := range map[string]string{
		"no journal":   `{}`,
		"no YAML":      `{journal: "{"}`,
		"no operation": `{journal: "by: x"}`,
		"no plan":      `{journal: "operation: x"}`,
	} {
		for _, name := range []string{"source", "target"} {
			s, _, _ := beginning(t)
			side := map[string]*side{"source": s.source, "target": s.target}[name]
			side.add("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: fleet, name: capstan-move, uid: j}, data: " + data + "}")
			want := name + ": ConfigMap fleet/capstan-move is no journal of a move"
			for _, rollback := range []bool{false, true} {
				if err := s.run(rollback); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, rollback %t: error %v", what, rollback, err)
				}
				if n := slices.IndexFunc(s.calls, isWrite); n >= 0 {
					t.Errorf("%s: %s", what, s.calls[n])
				}
			}
		}
	}
}
