// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

var (
	// ErrNotFound means that the folder has no container of that name.
	ErrNotFound = errors.New("there is no such container")
	// ErrExists means that a container of that name exists with another spec.
	ErrExists = errors.New("there is another container of that name")
	// ErrNotRunning means that the container has no running process.
	ErrNotRunning = errors.New("the container does not run")
	// ErrNetworkInUse means that a container is attached to a network.
	ErrNetworkInUse = errors.New("a container is attached to the network")
)

// HeldError means that another process has the folder open.
type HeldError struct{ Dir string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by another process: stop that, or choose another folder", e.Dir)
}

// Spec is the desired state of a container. It is stored with the container and
// does not change.
type Spec struct {
	// Name is unique in its folder: a DNS label.
	Name string
	// Labels are for the caller's use.
	Labels map[string]string
	// Root are the read-only layers of its root, folders of the host, topmost first.
	// The container writes to a separate layer.
	Root []string
	// Mounts are bound over its root, in the order of their targets.
	Mounts []Mount
	// Shadows are contents of files of /proc and /sys that the container sees instead
	// of the kernel's, read-only, by their absolute paths.
	Shadows map[string][]byte
	// Hostname defaults to Name.
	Hostname string
	// Args is its first process: a program of its root, and its arguments.
	Args []string
	// Env is the environment of its first process; only PATH is added if missing.
	Env []string
	// StopSignal asks its first process to exit; 0 is SIGTERM. systemd powers off on
	// SIGRTMIN+3, which is 37.
	StopSignal int
	// Memory is the limit in bytes for its processes and their files in memory; 0 is
	// no limit.
	Memory int64
	// MilliCPU is the limit in thousandths of a core; 0 is no limit.
	MilliCPU int64
	// Network is its network connection; nil is loopback only.
	Network *Attachment
}

// Mount is a folder or file of the host that a container sees, with everything
// mounted below it.
type Mount struct {
	Source string // on the host; it must exist when the container starts
	Target string // in the container; created if it does not exist
	// ReadOnly refuses writes through this mount and the mounts below it.
	ReadOnly bool
}

// Attachment connects a container to a network: it has a link eth0, and loopback.
type Attachment struct {
	// Network is the name of a network that EnsureNetwork created.
	Network string
	// Address is that of eth0, with the length of the network's prefix.
	Address netip.Prefix
	// Gateway is the default route; the zero value is no default route.
	Gateway netip.Addr
	// Routes are additional routes.
	Routes []Route
}

// Route names the neighbor through which some addresses are reached.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Network is a bridge of the host for containers, on which the host has an address.
// Containers reach what the host reaches, under the host's address. Only the host
// and the network's own containers can open connections to them.
type Network struct {
	// Name is unique in its folder: a DNS label.
	Name string
	// Address is the host's, with the length of the network's prefix. IPv4.
	Address netip.Prefix
	// MTU is the largest packet in bytes; 0 is the kernel's choice.
	MTU int
}

// State is the state of a container.
type State string

// The states. A container that stopped may be started again.
const (
	Created  State = "Created"  // it was never started
	Starting State = "Starting" // its first process is about to start, also when it reboots
	Running  State = "Running"  // its first process runs
	Stopped  State = "Stopped"  // it exited or was stopped
)

// Status is the spec and the current state of a container.
type Status struct {
	Spec Spec
	State
	// PID is that of its first process, as the host sees it; 0 if it does not
	// run.
	PID int
	// Boots is the number of starts of its first process since Start.
	Boots int
	// Started is when its first process last started; zero if it never did.
	Started time.Time
	// Ended is when it ended; zero while it runs.
	Ended time.Time
	// ExitCode is the exit code of its first process, or 128 and the number of the
	// signal that ended it. It is only valid in Stopped.
	ExitCode int
	// Message is why it stopped, unless a stop was requested.
	Message string
}

// Problem is something that the host lacks.
type Problem struct {
	// What is missing, as a sentence without a period.
	What string
	// Remedy is what the host's owner can do.
	Remedy string
	// Warning is true if containers run anyway.
	Warning bool
}

func (p Problem) String() string { return p.What + ": " + p.Remedy }

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate returns all problems of a spec together. It does not read the host's
// state.
func (s Spec) Validate() error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if !label.MatchString(s.Name) {
		wrong("Name", "%q is no DNS label: use at most 63 lower-case letters, digits and dashes", s.Name)
	}
	if len(s.Root) == 0 {
		wrong("Root", "is empty: name at least one folder")
	}
	for i, dir := range s.Root {
		if !filepath.IsAbs(dir) {
			wrong(fmt.Sprintf("Root[%d]", i), "%q is not absolute", dir)
		}
	}
	seen := map[string]bool{}
	for i, m := range s.Mounts {
		field := fmt.Sprintf("Mounts[%d]", i)
		if !filepath.IsAbs(m.Source) {
			wrong(field+".Source", "%q is not absolute", m.Source)
		}
		if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
			wrong(field+".Target", "%q is no absolute, clean path below /", m.Target)
		}
		if seen[m.Target] {
			wrong(field+".Target", "%s is there twice", m.Target)
		}
		seen[m.Target] = true
	}
	for _, p := range slices.Sorted(maps.Keys(s.Shadows)) {
		if path.Clean(p) != p || !strings.HasPrefix(p, "/proc/") && !strings.HasPrefix(p, "/sys/") {
			wrong("Shadows", "%q is no clean path below /proc or /sys", p)
		}
	}
	if len(s.Args) == 0 || !path.IsAbs(s.Args[0]) {
		wrong("Args", "must begin with the absolute path of a program in Root")
	}
	if len(s.Hostname) > 64 { // the kernel's own limit
		wrong("Hostname", "has %d bytes: use at most 64", len(s.Hostname))
	}
	if s.StopSignal < 0 || s.StopSignal > 64 { // SIGRTMAX
		wrong("StopSignal", "%d is no signal: use 0 to 64", s.StopSignal)
	}
	if s.Memory < 0 || s.Memory > 0 && s.Memory < leastMemory {
		wrong("Memory", "%d bytes are too few: use 0 for no limit, or at least %d", s.Memory, leastMemory)
	}
	if s.MilliCPU < 0 || s.MilliCPU > 0 && s.MilliCPU < leastMilliCPU {
		wrong("MilliCPU", "%d is too little: use 0 for no limit, or at least %d", s.MilliCPU, leastMilliCPU)
	}
	if s.Network != nil {
		errs = append(errs, s.Network.validate()...)
	}
	return errors.Join(errs...)
}

const (
	// leastMemory is what the first steps of a container need before its own program
	// runs.
	leastMemory = 16 << 20
	// leastMilliCPU is the least that the kernel accepts: 1 ms in each period of 100
	// ms.
	leastMilliCPU = 10
)

func (a *Attachment) validate() (errs []error) {
	if !label.MatchString(a.Network) {
		errs = append(errs, fmt.Errorf("Network.Network: %q is no DNS label", a.Network))
	}
	if !a.Address.IsValid() || !a.Address.Addr().Is4() {
		errs = append(errs, errors.New("Network.Address: is no IPv4 address with a length"))
		return errs
	}
	if a.Gateway.IsValid() && !a.Address.Contains(a.Gateway) {
		errs = append(errs, fmt.Errorf("Network.Gateway: %s is not in %s", a.Gateway, a.Address.Masked()))
	}
	for i, r := range a.Routes {
		if !r.To.IsValid() || !a.Address.Contains(r.Via) {
			errs = append(errs, fmt.Errorf("Network.Routes[%d]: needs a prefix, and a neighbour in %s", i, a.Address.Masked()))
		}
	}
	return errs
}

// Validate returns all problems of a network together. It does not read the host's
// state.
func (n Network) Validate() error {
	var errs []error
	if !label.MatchString(n.Name) {
		errs = append(errs, fmt.Errorf("Name: %q is no DNS label: use at most 63 lower-case letters, digits and dashes", n.Name))
	}
	if !n.Address.IsValid() || !n.Address.Addr().Is4() || n.Address.Bits() > 30 || n.Address.Addr() == n.Address.Masked().Addr() {
		errs = append(errs, fmt.Errorf("Address: %s is no IPv4 address of a host in a prefix of at most 30 bits", n.Address))
	}
	if n.MTU < 0 || n.MTU > 0 && n.MTU < 576 || n.MTU > 65535 { // the minimum of IPv4 hosts; the maximum of packets
		errs = append(errs, fmt.Errorf("MTU: %d is not 0 or 576 to 65535", n.MTU))
	}
	return errors.Join(errs...)
}

// Options configure a Launcher. The zero value is valid.
type Options struct {
	// Log receives what happens without a call; the zero value discards it.
	Log logr.Logger
	// ConsoleBytes is how much of a container's console output is stored; 0 is 1 MiB.
	ConsoleBytes int64
}

// consoleBytes is enough for the output of boots of several days.
const consoleBytes = 1 << 20

func (o Options) complete() Options {
	o.ConsoleBytes = cmp.Or(o.ConsoleBytes, consoleBytes)
	return o
}

// Streams are the input and outputs of a command; nil discards or is empty.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}
