// SPDX-License-Identifier: Apache-2.0

package pods

// Mode is how this process can run sandboxes.
type Mode string

// The modes.
const (
	// Root: each Pod has a range of user ids of its own, and limits.
	Root Mode = "root"
	// Rootless: each container has one user id, which is the plane's outside,
	// and no limits but of processes.
	Rootless Mode = "rootless"
	// None: no sandbox can be made.
	None Mode = "none"
)

// Missing is what this machine lacks.
type Missing struct {
	// What cannot be done, in a few words; Why as the kernel says; and how to
	// mend it.
	What, Why, Remedy string
}

// Report is what Check found.
type Report struct {
	Mode Mode
	// Missing is why there is None, or what the others do without.
	Missing []Missing
}
