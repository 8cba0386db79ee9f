// SPDX-License-Identifier: Apache-2.0

package host

import "context"

// Updater is a Backend that can bring machines which run to another version of
// Kubernetes.
type Updater interface {
	// UpdateMachine has a machine brought to Machine.Version, or tells how far that
	// is. It does not wait for it, and finds one that an earlier process has begun.
	// An error says why it failed; a later call tries again.
	UpdateMachine(ctx context.Context, want Machine) (Progress, error)
}

// Progress is how far the update of a machine is.
type Progress struct {
	Done bool
	// Message says what is being done, if it is not done.
	Message string
}
