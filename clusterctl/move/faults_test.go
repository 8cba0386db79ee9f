// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// once has a failure at one request.
func once(at int, how failure) func(int, string) failure {
	return func(n int, _ string) failure {
		if n == at {
			return how
		}
		return none
	}
}

// isWrite reports whether a request changes an object.
func isWrite(call string) bool {
	verb, _, _ := strings.Cut(call, " ")
	return verb == "create" || verb == "update" || verb == "patch" || verb == "delete"
}

// TestRunMovesAllObjects, and neither others nor what is there before under their names.
func TestRunMovesAllObjects(t *testing.T) {
	t.Parallel()
	s, _, after := beginning(t)
	if err := s.run(false); err != nil {
		t.Fatal(err)
	}
	s.has("moved", after)
	if err := s.run(false); err == nil || !strings.Contains(err.Error(), "namespace fleet of source has nothing to move") {
		t.Errorf("moved again: %v", err)
	}
	if err := s.run(true); err == nil || !strings.Contains(err.Error(), "there is no move of namespace fleet") {
		t.Errorf("rolled back: %v", err)
	}
	s.has("afterwards", after)
}

// TestRunEndsWhenARequestIsSentAgain: each request fails once in a way that lets it be
// sent again, before it is executed or after. The user sees no error.
func TestRunEndsWhenARequestIsSentAgain(t *testing.T) {
	t.Parallel()
	begin, before, after := beginning(t)
	halfway, moved := begin.fork(), begin.fork()
	if err := moved.run(false); err != nil {
		t.Fatal(err)
	}
	halfway.fails = func(_ int, call string) failure {
		if call == "delete Cluster fleet/c at source" {
			return died
		}
		return none
	}
	if err := halfway.run(false); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	back := halfway.fork()
	if err := back.run(true); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		begin    *sides
		calls    []string
		rollback bool
		want     result
	}{
		"move": {begin, moved.calls, false, after}, "rollback": {halfway, back.calls, true, before},
	} {
		for at, call := range tc.calls {
			for how, text := range map[failure]string{busy: "server busy", lost: "response lost"} {
				if how == lost && !isWrite(call) || how == busy && at%4 > 0 {
					continue // as if it had not been sent
				}
				s, what := tc.begin.fork(), fmt.Sprintf("%s, request %d, %s, %s", name, at+1, call, text)
				s.fails = once(at+1, how)
				if err := s.run(tc.rollback); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				s.has(what, tc.want)
			}
		}
	}
}

// TestRunResumesAfterARefusedRequest: each request is refused once, such as by a webhook
// or because a permission lacks. The move then ends when it runs again, or is rolled back.
func TestRunResumesAfterARefusedRequest(t *testing.T) {
	t.Parallel()
	begin, before, after := beginning(t)
	calm := begin.fork()
	if err := calm.run(false); err != nil {
		t.Fatal(err)
	}
	for at, call := range calm.calls {
		s, what := begin.fork(), fmt.Sprintf("request %d, %s, refused", at+1, call)
		s.fails = once(at+1, refused)
		err := s.run(false)
		if err == nil { // a request that a move can do without
			s.has(what, after)
			continue
		}
		if isWrite(call) || at%8 == 0 { // reads leave what the write before them has left
			s.endsEitherWay(what, before, after)
		}
	}
}

// TestRunResumesAfterACrash: a process exits after each write of a move, and after each
// write of a rollback. Another one ends the move, or the rollback.
func TestRunResumesAfterACrash(t *testing.T) {
	t.Parallel()
	begin, before, after := beginning(t)
	calm := begin.fork()
	moments := calm.moments(func() error { return calm.run(false) })
	for n, m := range moments {
		what := fmt.Sprintf("exited after write %d, %s", n+1, m.last)
		if n < len(moments)-1 {
			m.fork().endsEitherWay(what, before, after)
		}
		if n%6 > 0 || m.fork().run(true) != nil {
			continue
		}
		back := m.fork()
		for k, m := range back.moments(func() error { return back.run(true) }) {
			what := fmt.Sprintf("%s, and after write %d of the rollback, %s", what, k+1, m.last)
			if err := m.run(true); err != nil && !strings.Contains(err.Error(), "there is no move") {
				t.Errorf("%s: %v", what, err)
			}
			m.has(what, before)
		}
	}
}

// endsEitherWay resumes a move, and rolls back another one from the same moment. If every
// object has left the source, that is refused; if nothing has been recorded, there is
// nothing to roll back.
func (s *sides) endsEitherWay(what string, before, after result) {
	s.t.Helper()
	on, back := s.fork(), s.fork()
	if err := on.run(false); err != nil {
		s.t.Errorf("%s, moved again: %v", what, err)
	}
	on.has(what+", moved again", after)
	switch err := back.run(true); {
	case err == nil, strings.Contains(err.Error(), "there is no move of namespace fleet"):
		back.has(what+", rolled back", before)
	case !strings.Contains(err.Error(), "every object has left source"):
		s.t.Errorf("%s, rolled back: %v", what, err)
	}
}
