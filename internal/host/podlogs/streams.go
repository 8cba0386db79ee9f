// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"io"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// Streams connect a client to a container, or to a command in it.
type Streams struct {
	// Stdin may be nil. A read that blocks when the command exits is not interrupted.
	Stdin io.Reader
	// Stdout and Stderr may be nil; with TTY all output is in Stdout.
	Stdout, Stderr io.Writer
	TTY            bool
	// Resize are the sizes of the terminal.
	Resize <-chan Size
}

// Size is the size of a terminal, in characters.
type Size = remotecommand.TerminalSize
