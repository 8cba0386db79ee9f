// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package containers

import (
	"context"
	"io"
	"time"
)

// Launcher runs the containers of one folder. Its methods are safe for concurrent
// use.
type Launcher struct{}

// Open opens a folder, creating it if needed, and finds the containers that an
// earlier process left running. It returns a HeldError if another process has the
// folder open.
func Open(dir string, o Options) (*Launcher, error) { return nil, ErrUnsupported }

// Close releases the folder. Containers keep running.
func (l *Launcher) Close() error { return ErrUnsupported }

// Create creates everything that Start needs for a container; it starts nothing. It
// succeeds if the container exists with the same spec, and returns ErrExists if it
// exists with another one.
func (l *Launcher) Create(ctx context.Context, want Spec) error { return ErrUnsupported }

// Start starts a container and returns when its first process runs. It succeeds if
// the container runs already.
func (l *Launcher) Start(ctx context.Context, name string) error { return ErrUnsupported }

// Stop asks the first process of a container to exit, and kills it after the grace
// period. It succeeds if the container does not run.
func (l *Launcher) Stop(ctx context.Context, name string, grace time.Duration) error {
	return ErrUnsupported
}

// Remove ends a container immediately and removes everything of it. The container
// may not exist.
func (l *Launcher) Remove(ctx context.Context, name string) error { return ErrUnsupported }

// Inspect returns the spec and the current state of a container.
func (l *Launcher) Inspect(name string) (Status, error) { return Status{}, ErrUnsupported }

// List returns the status of all containers, in the order of their names.
func (l *Launcher) List() ([]Status, error) { return nil, ErrUnsupported }

// Changes returns the names of containers whose state changes: their first process
// starts, restarts or exits for any reason. The channel is closed when ctx ends.
func (l *Launcher) Changes(ctx context.Context) <-chan string { return nil }

// Console returns the end of a container's current console output.
func (l *Launcher) Console(name string) (io.ReadCloser, error) { return nil, ErrUnsupported }

// Exec runs a command in a running container and returns its exit code, or 128 and
// the number of the signal that ended it. The command is killed when ctx ends. A
// program name without a slash is searched in /usr/local/sbin, /usr/local/bin,
// /usr/sbin, /usr/bin, /sbin and /bin of the container.
func (l *Launcher) Exec(ctx context.Context, name string, args []string, s Streams) (int, error) {
	return 0, ErrUnsupported
}

// ReadFile reads a regular file as the processes of a running container see it, at
// most limit bytes; a longer file is an error. It follows no link out of the root.
func (l *Launcher) ReadFile(name, path string, limit int64) ([]byte, error) {
	return nil, ErrUnsupported
}

// Watch sends when a file of a container may have appeared or changed: at least
// once after each change, and once at the start if the file exists. It continues
// when the container reboots or is started again, and ends with ctx.
func (l *Launcher) Watch(ctx context.Context, name, path string) (<-chan struct{}, error) {
	return nil, ErrUnsupported
}

// Sweep removes everything that carries the identity of the folder and belongs to
// no container or network of it, such as leftovers of an interrupted process.
func (l *Launcher) Sweep(ctx context.Context) error { return ErrUnsupported }

// EnsureNetwork creates a network if it does not exist.
func (l *Launcher) EnsureNetwork(ctx context.Context, want Network) error { return ErrUnsupported }

// RemoveNetwork removes a network, which may not exist. It returns ErrNetworkInUse
// while a container is attached to it. When the last network of the host is
// removed, the changed settings of the host are restored.
func (l *Launcher) RemoveNetwork(ctx context.Context, name string) error { return ErrUnsupported }

// Networks returns the networks of the folder, in the order of their names.
func (l *Launcher) Networks() ([]Network, error) { return nil, ErrUnsupported }

// CheckNetwork reports whether the addresses of a network are already in use on
// this host, for example by a network of another folder.
func (l *Launcher) CheckNetwork(n Network) ([]Problem, error) { return nil, ErrUnsupported }

// Check returns what this host lacks to run containers. It changes nothing.
func Check(context.Context) []Problem {
	return []Problem{{What: "this is no Linux", Remedy: "use a Linux host, or simulated machines"}}
}
