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

// errLinux is the error of all functions on other systems.
var errLinux = errors.New("sandboxes of Pods need Linux: run the plane there, or the provider in a Kubernetes cluster")

// Host is not available on this system.
type Host struct{}

// Sandbox is not available on this system.
type Sandbox struct{}

// Process is not available on this system.
type Process struct{}

// Open fails.
func Open(string, Options) (*Host, error) { return nil, errLinux }

// Check reports None.
func Check(context.Context, string) Report {
	return Report{Mode: None, Missing: []Missing{{What: "sandboxes of Pods", Why: errLinux.Error(), Remedy: "run the plane on Linux"}}}
}

// Rootless is never called.
func (*Host) Rootless() bool { return true }

// Find returns nil.
func (*Host) Find(string) *Sandbox { return nil }

// Close does nothing.
func (*Host) Close() error { return nil }

// Start fails.
func (*Host) Start(context.Context, Spec) (*Sandbox, error) { return nil, errLinux }

// Name is never called.
func (*Sandbox) Name() string { return "" }

// Done returns nil.
func (*Sandbox) Done() <-chan struct{} { return nil }

// Err returns why sandboxes are not available.
func (*Sandbox) Err() error { return errLinux }

// Run fails.
func (*Sandbox) Run(context.Context, Container) (*Process, error) { return nil, errLinux }

// Exec fails.
func (*Sandbox) Exec(context.Context, string, []string, Streams) (int, error) { return 0, errLinux }

// Dial fails.
func (*Sandbox) Dial(context.Context, int) (net.Conn, error) { return nil, errLinux }

// DialLoopback fails.
func (*Sandbox) DialLoopback(context.Context, int) (net.Conn, error) { return nil, errLinux }

// Stop does nothing.
func (*Sandbox) Stop(context.Context, time.Duration) error { return nil }

// Stdout is never called.
func (*Process) Stdout() io.ReadCloser { return nil }

// Stderr is never called.
func (*Process) Stderr() io.ReadCloser { return nil }

// Stdin is never called.
func (*Process) Stdin() io.WriteCloser { return nil }

// Done returns nil.
func (*Process) Done() <-chan struct{} { return nil }

// Wait is never called.
func (*Process) Wait() Exit { return Exit{} }

// Attach fails.
func (*Process) Attach(context.Context, Streams) error { return errLinux }

// Signal fails.
func (*Process) Signal(syscall.Signal) error { return errLinux }

// Resize fails.
func (*Process) Resize(Size) error { return errLinux }
