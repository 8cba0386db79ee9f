// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheMainThreadIsSpared tries it often: which thread a goroutine gets is
// chance.
func TestTheMainThreadIsSpared(t *testing.T) {
	for range 1000 {
		onThreadOfItsOwn(func() {
			if unix.Gettid() == unix.Getpid() {
				t.Error("it runs on the main thread")
			}
		})
	}
}
