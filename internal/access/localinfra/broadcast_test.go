// SPDX-License-Identifier: Apache-2.0

package localinfra

import (
	"context"
	"testing"

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
