// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"crypto/sha256"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// waitLimit is how long one wait of a test may take on an idle machine. What works
	// takes seconds; only a fault waits this long. The limit grows with Slowdown.
	waitLimit = 3 * time.Minute
	// A wait checks often at first, since most steps take milliseconds, then rarely
	// enough not to be the load.
	firstPeriod = 20 * time.Millisecond
	lastPeriod  = 320 * time.Millisecond

	// calibrationBytes are hashed to measure the machine, and calibrationTime is how
	// long that takes a core of 2 GHz without instructions for SHA-256.
	calibrationBytes = 4 << 20
	calibrationTime  = 25 * time.Millisecond
	// maxSlowdown bounds how much a machine that is out of memory can delay tests.
	maxSlowdown = 20
)

// calibrate returns how many times longer than on the machine of reference a fixed
// amount of computing takes.
var calibrate = sync.OnceValue(func() float64 {
	start := time.Now()
	sha256.Sum256(make([]byte, calibrationBytes))
	return float64(time.Since(start)) / float64(calibrationTime)
})

// Slowdown returns how many times longer than on an idle machine of reference something
// may take here and now, by the speed of a core and the number of processes that wait for
// one. It is at least 1.
func Slowdown() float64 {
	return min(max(1, calibrate())*max(1, load()/float64(runtime.NumCPU())), maxSlowdown)
}

// load is the average number of runnable processes of the last minute, or 0 where the
// operating system does not report it.
func load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return n
}

// Limit returns d, a time that is generous on an idle machine, for the machine as it is
// now. Tests use it for the time limits of programs that they run.
func Limit(d time.Duration) time.Duration { return time.Duration(float64(d) * Slowdown()) }

// Eventually calls check until it returns nil, and fails the test with its last error if
// that takes too long for a machine that is as busy as this one.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	Within(t, waitLimit, check)
}

// Within is Eventually with another limit, for steps that take longer, such as the
// creation of a large cluster. The limit is that of an idle machine.
func Within(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	start := time.Now()
	for period := firstPeriod; ; period = min(2*period, lastPeriod) {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(period):
		case <-t.Context().Done():
			t.Fatalf("the test ended: %v", err)
		}
		if waited := time.Since(start); waited > limit && waited > Limit(limit) {
			t.Fatalf("after %s: %v", waited.Round(time.Second), err)
		}
	}
}
