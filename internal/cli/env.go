// SPDX-License-Identifier: Apache-2.0

// Package cli turns command lines into calls of the library and the plane. Data
// goes to stdout, messages to stderr.
package cli

import (
	"context"
	"io"

	"filippo.io/age"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// Env is what a command may access in addition to its flags.
type Env struct {
	command.Env
	// StartPlane starts a management plane in this process. It is a field so
	// that tests of the commands do not link an API server; nil where none can be
	// started.
	StartPlane func(context.Context, PlaneOptions) (Plane, error)
	// Backup and Restore save the data of a plane, and create a data directory from
	// it; nil where no plane can be started.
	Backup  func(ctx context.Context, dir, file string, recipients ...age.Recipient) (Backup, error)
	Restore func(file, dir string, dryRun bool, identities ...age.Identity) (Backup, error)
	// SetLog sends the logs of all libraries to w, up to the given level.
	SetLog func(w io.Writer, level int)
}
