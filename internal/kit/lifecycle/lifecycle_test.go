// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"testing"
)

func TestUnwindRunsAllInReverse(t *testing.T) {
	var s Stack
	var got string
	for _, n := range []string{"etcd", "apiserver", "manager"} {
		s.Push(n, func(context.Context) error {
			got += n + " "
			if n == "apiserver" {
				return errors.New("boom")
			}
			return nil
		})
	}
	err := s.Unwind(t.Context())
	if got != "manager apiserver etcd " || err == nil || err.Error() != "stop apiserver: boom" {
		t.Errorf("order %q, error %v", got, err)
	}
	if s.Unwind(t.Context()) != nil {
		t.Error("second Unwind did something")
	}
}

func TestWhenActsOnceUntilItIsUnwound(t *testing.T) {
	for name, tc := range map[string]struct {
		send func(chan int)
		want int // received; -1 if nothing is
	}{
		"a value":   {func(c chan int) { c <- 7 }, 7},
		"the close": {func(c chan int) { close(c) }, 0},
		"neither":   {func(chan int) {}, -1},
	} {
		var s Stack
		c, got, received := make(chan int, 1), -1, make(chan struct{})
		When(&s, "it", c, func(n int) {
			got = n
			close(received)
		})
		tc.send(c)
		if tc.want >= 0 {
			<-received
		}
		if err := s.Unwind(t.Context()); err != nil || got != tc.want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, tc.want)
		}
		if tc.want < 0 {
			c <- 1 // nothing reads it any longer
		}
	}
}
