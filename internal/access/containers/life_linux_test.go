// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"testing"
	"time"
)

func TestAContainerIsCreatedRunsAndIsRemoved(t *testing.T) {
	b := newLab(t)
	s := b.spec("one", "wait", "hello")
	b.start(s)
	got, err := b.Inspect("one")
	if err != nil || got.State != Running || got.PID == 0 || got.Boots != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	b.awaitConsole("one", "hello\n")
	if err := b.Stop(t.Context(), "one", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	got, err = b.Inspect("one")
	if err != nil || got.State != Stopped || got.ExitCode != 0 || got.Message != "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := b.Remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
}
