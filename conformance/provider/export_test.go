// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"github.com/capstan-dev/capstan/internal/access/sandbox"
	"slices"
	"time"
)

// Limit makes a config wait as long as a test can, which is short for what must
// not happen, and long, on a busy machine, for what must. At the checks that are
// to fail it is the other way round: what happens against the contract is waited
// for, and what never happens is not.
func Limit(c *Config, failing ...string) {
	c.limits = func(check string) sandbox.Limits {
		if slices.Contains(failing, check) {
			return sandbox.Limits{Timeout: 2 * time.Second, Soon: time.Second, Quiet: time.Minute}
		}
		return sandbox.Limits{Timeout: time.Minute, Soon: time.Minute, Quiet: 100 * time.Millisecond}
	}
}
