// SPDX-License-Identifier: Apache-2.0

package localinfra

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

func TestWhatWasNotReadYetIsNamedOnce(t *testing.T) {
	t.Parallel()
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	var h Hub
	h.Publish(a) // without subscribers
	ctx, cancel := context.WithCancel(t.Context())
	names := h.Subscribe(ctx)
	for range 3 {
		h.Publish(a)
	}
	if got := <-names; got != a {
		t.Errorf("got %v", got)
	}
	h.Publish(b)
	for got := range names {
		if got == b { // a may be sent again: it changed after it was taken
			break
		}
	}
	cancel()
	for range names {
		t.Log("one more was reported before the end")
	}
	h.Close()
	if _, open := <-h.Subscribe(t.Context()); open {
		t.Error("told after the end")
	}
}

func TestOwnedContinuesAfterPanic(t *testing.T) {
	t.Parallel()
	var o Owned
	ran := make(chan struct{})
	o.Start(func() { panic("planted") })
	o.Start(func() { close(ran) })
	<-ran
	o.End()
}

// TestSlowSubscriberDelaysNoOther: Publish is called with locks held.
func TestSlowSubscriberDelaysNoOther(t *testing.T) {
	t.Parallel()
	const n = 1000
	var h Hub
	defer h.Close()
	slow, fast := h.Subscribe(t.Context()), h.Subscribe(t.Context())
	for i := range n {
		h.Publish(types.NamespacedName{Name: fmt.Sprint(i)})
	}
	for what, names := range map[string]<-chan types.NamespacedName{"fast": fast, "slow": slow} {
		for i := range n { // each once, in the order of the changes
			if got := <-names; got.Name != fmt.Sprint(i) {
				t.Fatalf("%s: got %s, want %d", what, got.Name, i)
			}
		}
	}
}

// TestHubLeavesNoGoroutine also publishes and subscribes while it is closed.
func TestHubLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		var h Hub
		ctx, cancel := context.WithCancel(t.Context())
		ended, pending, unread := h.Subscribe(ctx), h.Subscribe(t.Context()), h.Subscribe(ctx)
		h.Publish(types.NamespacedName{Name: "a"})
		synctest.Wait() // each waits for a reader now
		cancel()
		for range ended {
			t.Log("one was reported before the end")
		}
		synctest.Wait()
		h.mu.Lock()
		if len(h.subs) != 1 {
			t.Errorf("%d subscribers, want 1", len(h.subs))
		}
		h.mu.Unlock()
		var all sync.WaitGroup
		for range 3 {
			all.Go(h.Close)
			all.Go(func() { h.Publish(types.NamespacedName{Name: "b"}) })
			all.Go(func() {
				for range h.Subscribe(t.Context()) {
					t.Log("one was reported before the end")
				}
			})
		}
		all.Wait()
		for _, names := range []<-chan types.NamespacedName{pending, unread} {
			for range names {
				t.Error("reported after the end")
			}
		}
	})
}

func TestOwnedWaitsForItsGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o Owned
		release, ended := make(chan struct{}), false
		o.Start(func() {
			<-release
			ended = true
		})
		waited := make(chan struct{})
		go func() {
			o.End()
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("it has ended before its goroutine")
		default:
		}
		o.Start(func() { t.Error("started after the end") })
		close(release)
		<-waited
		o.End()
		if !ended {
			t.Error("the goroutine was not waited for")
		}
	})
}
