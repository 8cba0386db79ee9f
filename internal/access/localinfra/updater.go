// SPDX-License-Identifier: Apache-2.0

package localinfra

import "context"

// Updater is a Backend that can update running machines to another version of
// Kubernetes.
type Updater interface {
	// UpdateMachine updates a machine to Machine.Version, and returns the progress. It
	// does not wait for the end, and continues an update that an earlier process
	// started. An error is the reason of a failure; a later call tries again.
	UpdateMachine(ctx context.Context, want Machine) (Progress, error)
}

// Progress is the progress of the update of a machine.
type Progress struct {
	Done bool
	// Message is the current step, if the update is not done.
	Message string
}
