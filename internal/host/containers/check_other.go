// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package containers

import "context"

// Check returns what this host lacks to run containers. It changes nothing.
func Check(context.Context) []Problem {
	return []Problem{{What: "this is no Linux", Remedy: "use a Linux host, or simulated machines"}}
}
