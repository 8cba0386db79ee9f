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
	// ErrNotFound means that no container of that name is in the folder.
	ErrNotFound = errors.New("there is no such container")
	// ErrExists means that there is a container of that name which is wanted to
	// be something else.
	ErrExists = errors.New("there is another container of that name")
	// ErrNotRunning means that a container has no process to ask.
	ErrNotRunning = errors.New("the container does not run")
	// ErrNetworkInUse means that a container is attached to a network.
	ErrNetworkInUse = errors.New("a container is attached to the network")
	// ErrUnsupported means that this is no Linux.
	ErrUnsupported = errors.New("containers need Linux")
)

// HeldError says that another process has the folder open.
type HeldError struct{ Dir string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is in use by another process: stop that, or choose another folder", e.Dir)
}

// Spec is what a container is wanted to be. It is kept with the container, and
// does not change.
type Spec struct {
	// Name tells it from the others of its folder: a DNS label.
	Name string
	// Labels are the caller's.
	Labels map[string]string
	// Root are the read-only layers of its root, folders of the host, topmost
	// first. The container writes to a layer of its own.
	Root []string
	// Mounts are bound over its root, in the order of their targets.
	Mounts []Mount
	// Shadows are files of /proc and /sys that it shall see with this content,
	// read-only, by their absolute paths.
	Shadows map[string][]byte
	// Hostname is Name if it is empty.
	Hostname string
	// Args is its first process: a program of its root, and its arguments.
	Args []string
	// Env is the environment of its first process; nothing is added but PATH,
	// if it has none.
	Env []string
	// StopSignal asks its first process to end; 0 is SIGTERM. systemd powers
	// off on SIGRTMIN+3, which is 37.
	StopSignal int
	// Memory is how many bytes its processes and their files in memory may
	// have; 0 is no limit.
	Memory int64
	// MilliCPU is how many thousandths of a core it may use; 0 is no limit.
	MilliCPU int64
	// Network is how it is reached; nil is loopback only.
	Network *Attachment
}

// Mount is a folder or file of the host that a container sees, with all that is
// mounted below it.
type Mount struct {
	Source string // on the host; it must be there when the container starts
	Target string // in the container; made if it is not there
	// ReadOnly refuses writes by way of this mount, and what is below it.
	ReadOnly bool
}

// Attachment is a container's part in a network: a link eth0, and loopback.
type Attachment struct {
	// Network is the name of one that EnsureNetwork has made.
	Network string
	// Address is that of eth0, with the length of the network's prefix.
	Address netip.Prefix
	// Gateway is where all other addresses are reached; the zero value is no
	// such route.
	Gateway netip.Addr
	// Routes are further ones.
	Routes []Route
}

// Route says by which neighbour some addresses are reached.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Network is a bridge of the host for containers, with an address of the host in
// it. Containers reach what the host reaches, under the host's address; nobody
// but the host and the network's own containers begins to talk to them.
type Network struct {
	// Name tells it from the others of its folder: a DNS label.
	Name string
	// Address is the host's, with the length of the network's prefix. IPv4.
	Address netip.Prefix
	// MTU is the largest packet in bytes; 0 is the kernel's choice.
	MTU int
}

// State is what a container does.
type State string

// The states. A container that stopped may be started again.
const (
	Created  State = "Created"  // it has never been started
	Starting State = "Starting" // its first process is about to begin, also when it reboots
	Running  State = "Running"  // its first process runs
	Stopped  State = "Stopped"  // it ended, or was ended
)

// Status is what a container is, and what it does.
type Status struct {
	Spec Spec
	State
	// PID is that of its first process, as the host sees it; 0 if it does not
	// run.
	PID int
	// Boots counts how often its first process began since Start.
	Boots int
	// Started is when its first process began last; zero if it never did.
	Started time.Time
	// Ended is when it ended; zero while it runs.
	Ended time.Time
	// ExitCode is what its first process returned, or 128 and the number of
	// the signal that ended it; it has a meaning in Stopped only.
	ExitCode int
	// Message says why it stopped, if that was not because it was asked to.
	Message string
}

// Problem is something that the host lacks.
type Problem struct {
	// What is missing, as a sentence without a period.
	What string
	// Remedy is what its owner can do.
	Remedy string
	// Warning says that containers run nevertheless.
	Warning bool
}

func (p Problem) String() string { return p.What + ": " + p.Remedy }

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate says what is wrong with a spec, all at once. It does not look at the
// host.
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
	// leastMemory is what the first steps of a container need before its own
	// program runs.
	leastMemory = 16 << 20
	// leastMilliCPU is the least that the kernel takes: 1 ms in each period of
	// 100 ms.
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

// Validate says what is wrong with a network, all at once. It does not look at
// the host.
func (n Network) Validate() error {
	var errs []error
	if !label.MatchString(n.Name) {
		errs = append(errs, fmt.Errorf("Name: %q is no DNS label: use at most 63 lower-case letters, digits and dashes", n.Name))
	}
	if !n.Address.IsValid() || !n.Address.Addr().Is4() || n.Address.Bits() > 30 || n.Address.Addr() == n.Address.Masked().Addr() {
		errs = append(errs, fmt.Errorf("Address: %s is no IPv4 address of a host in a prefix of at most 30 bits", n.Address))
	}
	if n.MTU < 0 || n.MTU > 0 && n.MTU < 576 || n.MTU > 65535 { // what every IPv4 host takes; what a packet can have
		errs = append(errs, fmt.Errorf("MTU: %d is not 0 or 576 to 65535", n.MTU))
	}
	return errors.Join(errs...)
}

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
