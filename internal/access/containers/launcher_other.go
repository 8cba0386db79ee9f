// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package containers

import (
	"context"
	"io"
	"time"
)

// Launcher runs the containers of one folder. Its methods may be called by
// several goroutines.
type Launcher struct{}

// Open opens a folder, which it makes if it is not there, and finds what an
// earlier process left running. It is a HeldError if another process has it open.
func Open(dir string, o Options) (*Launcher, error) { return nil, ErrUnsupported }

// Close lets go of the folder. Containers go on.
func (l *Launcher) Close() error { return ErrUnsupported }

// Create makes all that Start needs of a container; nothing runs. One that is
// there and wanted to be the same is fine; if it is wanted to be something else,
// it is ErrExists.
func (l *Launcher) Create(ctx context.Context, want Spec) error { return ErrUnsupported }

// Start runs a container and returns when its first process has begun; one that
// runs is fine.
func (l *Launcher) Start(ctx context.Context, name string) error { return ErrUnsupported }

// Stop asks the first process of a container to end, and ends it if it has not
// after the grace period; one that does not run is fine.
func (l *Launcher) Stop(ctx context.Context, name string, grace time.Duration) error {
	return ErrUnsupported
}

// Remove ends a container at once and removes all there is of it; there need be
// none.
func (l *Launcher) Remove(ctx context.Context, name string) error { return ErrUnsupported }

// Inspect tells what a container is and does.
func (l *Launcher) Inspect(name string) (Status, error) { return Status{}, ErrUnsupported }

// List tells of all containers, in the order of their names.
func (l *Launcher) List() ([]Status, error) { return nil, ErrUnsupported }

// Changes names containers whose state changed: their first process began, or
// began again, or ended, also by itself. It ends with ctx.
func (l *Launcher) Changes(ctx context.Context) <-chan string { return nil }

// Console is the newest of what a container wrote to its console, as it is now.
func (l *Launcher) Console(name string) (io.ReadCloser, error) { return nil, ErrUnsupported }

// Exec runs a command in a container that runs, and returns what it returned, or
// 128 and the number of the signal that ended it. It is killed when ctx ends. A
// program without a slash is looked for in /usr/local/sbin, /usr/local/bin,
// /usr/sbin, /usr/bin, /sbin and /bin of the container.
func (l *Launcher) Exec(ctx context.Context, name string, args []string, s Streams) (int, error) {
	return 0, ErrUnsupported
}

// ReadFile reads a regular file as the processes of a container that runs see it,
// at most limit bytes; a longer one is an error. No link leads out of its root.
func (l *Launcher) ReadFile(name, path string, limit int64) ([]byte, error) {
	return nil, ErrUnsupported
}

// Watch tells when a file of a container may have appeared or changed, at least
// once after it did, and once at the start if it is there. It goes on when the
// container reboots or is started again, and ends with ctx.
func (l *Launcher) Watch(ctx context.Context, name, path string) (<-chan struct{}, error) {
	return nil, ErrUnsupported
}

// Sweep removes what carries the identity of the folder and belongs to no
// container or network of it, such as what an interrupted process left.
func (l *Launcher) Sweep(ctx context.Context) error { return ErrUnsupported }

// EnsureNetwork makes a network, or finds it made.
func (l *Launcher) EnsureNetwork(ctx context.Context, want Network) error { return ErrUnsupported }

// RemoveNetwork removes a network; there need be none. While a container is
// attached to it, it is ErrNetworkInUse. With the last network of the host goes
// what had to be changed of the host's settings.
func (l *Launcher) RemoveNetwork(ctx context.Context, name string) error { return ErrUnsupported }

// Networks are those of the folder, in the order of their names.
func (l *Launcher) Networks() ([]Network, error) { return nil, ErrUnsupported }

// CheckNetwork tells whether a network would take addresses that this host uses
// elsewhere, such as for a network of another folder.
func (l *Launcher) CheckNetwork(n Network) ([]Problem, error) { return nil, ErrUnsupported }

// Check tells what this host lacks to run containers. It changes nothing.
func Check(context.Context) []Problem {
	return []Problem{{What: "this is no Linux", Remedy: "use a Linux host, or simulated machines"}}
}
