// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

func TestSlotsHoldsOtherTestsBack(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const count = 3
	held, err := slots(2, count)
	if err != nil || len(held) != 2 {
		t.Fatalf("%d slots, %v, want 2", len(held), err)
	}
	if free := freeSlots(t, count); free != 1 {
		t.Errorf("%d slots are free, want 1", free)
	}
	got := make(chan int)
	go func() {
		locks, err := slots(count+1, count) // more than there are means all
		if err != nil {
			t.Error(err)
		}
		release(locks)
		got <- len(locks)
	}()
	select {
	case n := <-got:
		t.Errorf("got %d slots while another test held 2 of %d", n, count)
	default:
	}
	release(held)
	if n := <-got; n != count {
		t.Errorf("got %d slots, want %d", n, count)
	}
	if free := freeSlots(t, count); free != count {
		t.Errorf("%d slots are free after all, want %d", free, count)
	}
}

// freeSlots counts the slots that no test holds.
func freeSlots(t *testing.T, count int) (free int) {
	t.Helper()
	held, err := slots(0, count) // creates the folder
	if err != nil || len(held) != 0 {
		t.Fatalf("%d slots, %v, want none", len(held), err)
	}
	for i := range count {
		f, err := lockfile.TryLock(filepath.Join(slotsDir(), strconv.Itoa(i)))
		switch {
		case err == nil:
			free++
			release([]*os.File{f})
		case !errors.Is(err, lockfile.ErrHeld):
			t.Fatal(err)
		}
	}
	return free
}
