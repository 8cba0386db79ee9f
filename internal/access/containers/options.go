// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"cmp"
	"io"

	"github.com/go-logr/logr"
)

// Options are how a Launcher works. The zero value is complete.
type Options struct {
	// Log is told of what happens by itself; the zero value is silent.
	Log logr.Logger
	// ConsoleBytes is how much is kept of what a container wrote to its
	// console; 0 is 1 MiB.
	ConsoleBytes int64
}

// consoleBytes holds what the boots of some days write.
const consoleBytes = 1 << 20

func (o Options) complete() Options {
	o.ConsoleBytes = cmp.Or(o.ConsoleBytes, consoleBytes)
	return o
}

// Streams are where a command reads and writes; nil is nowhere.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}
