// SPDX-License-Identifier: Apache-2.0

package pods

// Mode is how this process can run sandboxes.
type Mode string

// The modes.
const (
	// Root: each Pod has its own range of user ids, and limits.
	Root Mode = "root"
	// Rootless: each container has one user id, which is the plane's outside, and no
	// limits except for processes.
	Rootless Mode = "rootless"
	// None: no sandbox can be created.
	None Mode = "none"
)

// Missing is what this machine lacks.
type Missing struct {
	// What is not possible, in a few words; Why is the kernel's error; and Remedy how
	// to fix it.
	What, Why, Remedy string
}

// Report is the result of Check.
type Report struct {
	Mode Mode
	// Missing is why the mode is None, or what the other modes lack.
	Missing []Missing
}
