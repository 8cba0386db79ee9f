// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// Sandboxes starts what Pods run in.
type Sandboxes interface {
	Start(ctx context.Context, s Sandbox) (Running, error)
	// Rootless says that a process has one group, that of its user.
	Rootless() bool
}

// Sandbox is what one Pod runs in.
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
	// Exec runs a command beside a container, and returns what that returned.
	Exec(ctx context.Context, container string, args []string, s Streams) (int, error)
	// Dial connects to a TCP port of the Pod, at its address, and DialLoopback at its
	// loopback.
	Dial(ctx context.Context, port int) (net.Conn, error)
	DialLoopback(ctx context.Context, port int) (net.Conn, error)
	// Stop ends all containers, those that are left after the grace period by
	// force, and undoes the sandbox.
	Stop(ctx context.Context, grace time.Duration) error
}

// Container is one that is to be run.
type Container struct {
	Name, Root string
	Args, Env  []string
	Dir        string
	User       podspec.User
	// ReadOnlyRoot lets it write to volumes alone.
	ReadOnlyRoot bool
	Mounts       []Mount
	Limits       podspec.Limits
	// Scratch is how many bytes it may write to its root; 0 is what the sandbox lets.
	Scratch    int64
	TTY, Stdin bool
	// StopSignal is the number of the one that asks it to end.
	StopSignal int
	// MessagePath is the file for its last message; "" is none.
	MessagePath string
	// StdinOnce ends its input with that of the first client that is attached.
	StdinOnce bool
}

// Mount is a volume in a container: a folder of the host, or one in memory of at
// most Limit bytes.
type Mount struct {
	Source, SubPath, Target string
	ReadOnly, Memory        bool
	Limit                   int64
}

// Process is a container that runs.
type Process interface {
	// Stdout and Stderr end with it.
	Stdout() io.Reader
	Stderr() io.Reader
	// Attach has a client take part in it, until it ends or the client has said all.
	Attach(ctx context.Context, s Streams) error
	Signal(os.Signal) error
	// Wait returns when it has ended.
	Wait() Exit
}

// Exit is the end of a Process.
type Exit struct {
	Code, Signal int
	OOMKilled    bool
	// Message says why it could not begin; "" if it ran.
	Message string
	// LastMessage is the start of what it wrote to its MessagePath.
	LastMessage string
}

// Streams are those of a command in a container.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            bool
	Resize         <-chan Size
}

// Size is that of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// ErrNoImage says that an image is not kept here.
var ErrNoImage = errors.New("the image is not here")

// Images are those that containers are made of.
type Images interface {
	// Find returns an image that is kept, or an error that is ErrNoImage.
	Find(ref string) (Image, error)
	// Pull fetches it; keys are the contents of Secrets of registries. Its error
	// names the image.
	Pull(ctx context.Context, ref string, keys [][]byte) (Image, error)
	// Root is the folder of its files, which stay until release is called.
	Root(digest string) (dir string, release func(), err error)
}

// Image is one that is kept.
type Image struct {
	Digest string
	// Imported says that a file brought it: no registry may have it.
	Imported bool
	podspec.Image
}
