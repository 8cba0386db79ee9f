// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// Sandboxes starts the sandboxes of Pods.
type Sandboxes interface {
	Start(ctx context.Context, s Sandbox) (Running, error)
	// Rootless reports that a process has one group, that of its user.
	Rootless() bool
}

// Sandbox describes the sandbox of one Pod.
type Sandbox struct {
	// Name is unique: namespace_name_uid.
	Name, Hostname string
	Address        netip.Addr
	// Limits are of all containers together.
	Limits podspec.Limits
	// Refused is called with the reason when connections of the Pod are reset at a limit
	// or by policy, at a bounded rate.
	Refused       func(why string)
	Resolv, Hosts []byte // the files in /etc
}

// Running is a sandbox that has been started.
type Running interface {
	Run(ctx context.Context, c Container) (Process, error)
	// Exec runs a command in a container, and returns its exit code.
	Exec(ctx context.Context, container string, args []string, s podlogs.Streams) (int, error)
	// Dial connects to a TCP port of the Pod, at its address, and DialLoopback at its
	// loopback.
	Dial(ctx context.Context, port int) (net.Conn, error)
	DialLoopback(ctx context.Context, port int) (net.Conn, error)
	// Stop ends all containers, kills those that remain after the grace period, and
	// removes the sandbox.
	Stop(ctx context.Context, grace time.Duration) error
}

// Container describes a container to run.
type Container struct {
	Name, Root string
	Args, Env  []string
	Dir        string
	User       podspec.User
	// ReadOnlyRoot permits writes to volumes only.
	ReadOnlyRoot bool
	Mounts       []Mount
	Limits       podspec.Limits
	// Scratch is how many bytes it may write to its root; 0 is the limit of the
	// sandbox.
	Scratch    int64
	TTY, Stdin bool
	// StopSignal is the number of the signal that requests its exit.
	StopSignal int
	// MessagePath is the file of its termination message; "" means none.
	MessagePath string
	// StdinOnce closes its input when the first attached client closes its own.
	StdinOnce bool
}

// Mount is a volume in a container: a directory of the host, or one in memory of at
// most Limit bytes.
type Mount struct {
	Source, SubPath, Target string
	ReadOnly, Memory        bool
	Limit                   int64
}

// Process is a running container.
type Process interface {
	// Stdout and Stderr end when it exits.
	Stdout() io.Reader
	Stderr() io.Reader
	// Attach connects a client to its streams, until it exits or the client closes
	// its input.
	Attach(ctx context.Context, s podlogs.Streams) error
	Signal(os.Signal) error
	// Wait returns when it has exited.
	Wait() Exit
}

// Exit is the result of a Process.
type Exit struct {
	Code, Signal int
	OOMKilled    bool
	// Message is why it could not start; "" if it ran.
	Message string
	// LastMessage is the start of what it wrote to its MessagePath.
	LastMessage string
}

// ErrNoImage means that an image is not in the store of this host.
var ErrNoImage = errors.New("the image is not here")

// Images is the store of container images.
type Images interface {
	// Find returns a stored image, or an error that is ErrNoImage.
	Find(ref string) (Image, error)
	// Pull downloads an image; keys are the contents of image pull Secrets. Its
	// error names the image.
	Pull(ctx context.Context, ref string, keys [][]byte) (Image, error)
	// Root is the directory of its files, which stay until release is called.
	Root(digest string) (dir string, release func(), err error)
}

// Image is a stored image.
type Image struct {
	Digest string
	// Imported means that the image was imported from a file: no registry may have
	// it.
	Imported bool
	podspec.Image
}
