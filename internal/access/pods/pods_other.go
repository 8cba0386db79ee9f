// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package pods

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// errLinux is what all answer elsewhere.
var errLinux = errors.New("sandboxes of Pods need Linux: run the plane there, or the provider in a Kubernetes cluster")

// Host is that of Linux; there is none.
type Host struct{}

// Sandbox is that of Linux; there is none.
type Sandbox struct{}

// Process is that of Linux; there is none.
type Process struct{}

// Open fails.
func Open(string, Options) (*Host, error) { return nil, errLinux }

// Check says that there is None.
func Check(context.Context, string) Report {
	return Report{Mode: None, Missing: []Missing{{What: "sandboxes of Pods", Why: errLinux.Error(), Remedy: "run the plane on Linux"}}}
}

// Rootless is never asked.
func (*Host) Rootless() bool { return true }

// Find finds none.
func (*Host) Find(string) *Sandbox { return nil }

// Close has nothing to close.
func (*Host) Close() error { return nil }

// Start fails.
func (*Host) Start(context.Context, Spec) (*Sandbox, error) { return nil, errLinux }

// Name is never asked.
func (*Sandbox) Name() string { return "" }

// Done is nil.
func (*Sandbox) Done() <-chan struct{} { return nil }

// Err says why there is none.
func (*Sandbox) Err() error { return errLinux }

// Run fails.
func (*Sandbox) Run(context.Context, Container) (*Process, error) { return nil, errLinux }

// Exec fails.
func (*Sandbox) Exec(context.Context, string, []string, Streams) (int, error) { return 0, errLinux }

// Dial fails.
func (*Sandbox) Dial(context.Context, int) (net.Conn, error) { return nil, errLinux }

// DialLoopback fails.
func (*Sandbox) DialLoopback(context.Context, int) (net.Conn, error) { return nil, errLinux }

// Stop has nothing to stop.
func (*Sandbox) Stop(context.Context, time.Duration) error { return nil }

// Stdout is never asked.
func (*Process) Stdout() io.ReadCloser { return nil }

// Stderr is never asked.
func (*Process) Stderr() io.ReadCloser { return nil }

// Stdin is never asked.
func (*Process) Stdin() io.WriteCloser { return nil }

// Done is nil.
func (*Process) Done() <-chan struct{} { return nil }

// Wait is never asked.
func (*Process) Wait() Exit { return Exit{} }

// Attach fails.
func (*Process) Attach(context.Context, Streams) error { return errLinux }

// Signal fails.
func (*Process) Signal(syscall.Signal) error { return errLinux }

// Resize fails.
func (*Process) Resize(Size) error { return errLinux }
