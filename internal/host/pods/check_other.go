// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package pods

import "context"

// Check reports None.
func Check(context.Context, string) Report {
	return Report{Mode: None, Missing: []Missing{{
		What: "sandboxes of Pods", Why: "sandboxes of Pods need Linux: run the plane there, or the provider in a Kubernetes cluster", Remedy: "run the plane on Linux",
	}}}
}
