// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// TestWhoIsCutOffMayNotActBeforeAnotherLeads calls MayAct without waiting for Lost.
func TestWhoIsCutOffMayNotActBeforeAnotherLeads(t *testing.T) {
	t.Parallel()
	dial := store(t)
	link := newLink(t, strings.TrimPrefix(dial().Endpoints()[0], "http://"))
	a, b := join(t, connect(t, link.Addr().String()), "a"), join(t, dial(), "b")
	closes(t, "a leads", a.Elected())
	for _, m := range []*Membership{a, b} {
		if err := m.MayAct(); err != nil {
			t.Errorf("%s may not act: %v", m.self.Name, err)
		}
	}
	link.cut(true)
	closes(t, "b leads", b.Elected())
	if err := a.MayAct(); !errors.Is(err, lifecycle.ErrDeposed) {
		t.Errorf("a may act while b leads: %v", err)
	}
	link.cut(false)
	closes(t, "a is lost", a.Lost())
	if err := a.MayAct(); !errors.Is(err, lifecycle.ErrDeposed) {
		t.Errorf("a may act again: %v", err)
	}
}

func TestMayActCountsFromTheSignThatWasGiven(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		led     bool
		silence time.Duration
		want    error
	}{
		"it has led":            {true, lostAfter - time.Minute, nil},
		"it is silent too long": {true, lostAfter, lifecycle.ErrDeposed},
		"it waits":              {false, time.Hour, nil},
	}
	for name, tc := range tests {
		m := &Membership{led: tc.led, sign: uptime() - tc.silence}
		if err := m.MayAct(); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", name, err, tc.want)
		}
	}
}

// TestWhoIsLostIsRememberedAndWhoLeftIsNot has b lost, and c leave.
func TestWhoIsLostIsRememberedAndWhoLeftIsNot(t *testing.T) {
	t.Parallel()
	dial := store(t)
	link := newLink(t, strings.TrimPrefix(dial().Endpoints()[0], "http://"))
	a, b, c := join(t, dial(), "a"), join(t, connect(t, link.Addr().String()), "b"), join(t, dial(), "c")
	shown(t, a, "a leads", "b", "c")
	if all, err := a.List(t.Context()); err != nil || time.Since(all[0].LeadsSince).Abs() > time.Hour {
		t.Errorf("%v, %v: a leads since another time", all, err)
	}
	until(t, "b is remembered", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return !b.memo.noted.IsZero() })
	link.cut(true)
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	shown(t, a, "a leads", "b gone")
	link.cut(false)
	shown(t, a, "a leads", "b")
}

// shown requires that a member lists these members with these states.
func shown(t *testing.T, m *Membership, want ...string) {
	t.Helper()
	var diff string
	until(t, fmt.Sprintf("%s shows %q", m.self.Name, want), func() bool {
		all, err := m.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range all {
			text := m.Name
			if m.Leads && !m.LeadsSince.IsZero() {
				text += " leads"
			}
			if m.Gone {
				text += " gone"
			}
			got = append(got, text)
		}
		diff = cmp.Diff(want, got)
		return diff == ""
	})
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, busyTimeout, true, func(context.Context) (bool, error) { return done(), nil }); err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}
