// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

const (
	// planesPerCore is how many planes may run at the same time for each core. A plane
	// takes about 3 s of CPU to start and 450 MB of memory.
	planesPerCore = 2
	// slotPeriod is how often a waiting test reads the slots.
	slotPeriod = 100 * time.Millisecond
)

// slotCount is how many planes the tests of this machine may run at the same time,
// without a shared plane that the Makefile started.
func slotCount() int {
	n := planesPerCore * runtime.NumCPU()
	if os.Getenv(kubeconfigVariable) != "" {
		n-- // of the shared plane
	}
	return n
}

// reserve waits until n planes may start and holds their slots until the test ends. A
// slot is a locked file, so the kernel frees the slots of a process that was killed, and
// the test binaries of several packages share them.
func reserve(t testing.TB, n int) {
	t.Helper()
	locks, err := slots(n, slotCount())
	if err != nil {
		t.Fatalf("reserve %d planes: %v", n, err)
	}
	t.Cleanup(func() { release(locks) })
}

// slotsDir is the folder of the slots, which all tests of a user share.
func slotsDir() string {
	return filepath.Join(os.TempDir(), "capstan-test-planes-"+strconv.Itoa(os.Getuid()))
}

// slots locks n of the slots, or all if there are fewer. The caller that holds the gate
// is the only one that collects slots, so that no two callers wait for each other.
func slots(n, count int) (locks []*os.File, err error) {
	dir := slotsDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	gate, err := lockfile.TryLock(filepath.Join(dir, "gate"))
	for ; errors.Is(err, lockfile.ErrHeld); gate, err = lockfile.TryLock(filepath.Join(dir, "gate")) {
		<-time.After(slotPeriod)
	}
	if err != nil {
		return nil, err
	}
	defer release([]*os.File{gate})
	n = min(n, count)
	for {
		for i := 0; i < count && len(locks) < n; i++ {
			f, err := lockfile.TryLock(filepath.Join(dir, strconv.Itoa(i)))
			switch {
			case err == nil:
				locks = append(locks, f)
			case !errors.Is(err, lockfile.ErrHeld):
				release(locks)
				return nil, err
			}
		}
		if len(locks) == n {
			return locks, nil
		}
		<-time.After(slotPeriod)
	}
}

func release(locks []*os.File) {
	for _, f := range locks {
		_ = lockfile.Unlock(f) // it is only locked
	}
}
