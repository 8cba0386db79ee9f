// SPDX-License-Identifier: Apache-2.0

package loopback

import "testing"

func TestEveryAddressThatIsChosenIsAllowed(t *testing.T) {
	t.Parallel()
	for n := uint32(0); n < 1<<32-9973; n += 9973 {
		if at := Candidate(n); !Allowed(at) || !Range.Contains(at.Addr()) {
			t.Fatalf("%s, the candidate %d, is not allowed", at, n)
		}
	}
}
