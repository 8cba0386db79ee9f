// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
)

// Options configure how a Host runs its sandboxes.
type Options struct {
	// Network receives outgoing connections of Pods; nil refuses all of them.
	Network Network
	// Log receives errors outside of calls; nil discards them.
	Log *slog.Logger
	// Connections is how many outgoing connections a Pod may have open at a time;
	// further ones are reset. 0 is 1024.
	Connections int
	// Descriptors is how many descriptors of the plane all Pods together may use. 0 is
	// a quarter of those that the plane can open.
	Descriptors int
	// Kept is how many bytes of a container's output are stored for a slow reader, for
	// each of its two streams; the oldest output is dropped, and the reader sees
	// where. 0 is 1 MiB.
	Kept int
}

// Network is the network that Pods reach.
type Network interface {
	// Connect receives a connection that a Pod opened to an address, which is not
	// reserved as dialguard.IsReserved defines, or can be the endpoint of a simulated
	// cluster on the loopback of the host. Connect, or the function to which it passes
	// the connection, closes or refuses it. ctx ends with the sandbox, which closes the
	// connection; Connect returns soon then.
	Connect(ctx context.Context, from netip.Addr, to netip.AddrPort, c *Conn)
	// Resolve answers a DNS message; after an error no response is sent.
	Resolve(ctx context.Context, from netip.Addr, query []byte) ([]byte, error)
}

// Conn is a connection that a Pod opened. Until it is closed it counts toward the
// limit of the Pod.
type Conn struct {
	*net.TCPConn
	once   sync.Once
	free   func()
	own    func(ctx context.Context) (net.Conn, error)
	report func(why string)
}

// Own connects to the address within the Pod, where one of its processes may listen: the
// loopback of a Pod is its own.
func (c *Conn) Own(ctx context.Context) (net.Conn, error) { return c.own(ctx) }

// Close closes it.
func (c *Conn) Close() error {
	c.once.Do(c.free)
	return c.TCPConn.Close()
}

// Refuse closes it so that the Pod sees a reset: for the Pod, the connection was
// established before its destination was checked. It reports why, unless that is empty.
func (c *Conn) Refuse(why string) {
	_ = c.SetLinger(0) // otherwise it sees an end
	_ = c.Close()      // the Pod may have closed it
	if why != "" {
		c.report(why)
	}
}

// refusals limits reports of refused connections of a Pod.
type refusals struct {
	mu    sync.Mutex // guards all below
	since time.Time
	seen  map[netip.AddrPort]bool
}

// first reports whether the refusal of an address, the zero one for a limit, must be
// reported: one a minute for a limit, and one for each of a few addresses.
func (r *refusals) first(to netip.AddrPort, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) > refusedEvery {
		r.since, r.seen = now, map[netip.AddrPort]bool{}
	}
	if r.seen[to] || to.IsValid() && len(r.seen) >= refusedAddresses {
		return false
	}
	r.seen[to] = true
	return true
}

// Spec is the sandbox of one Pod.
type Spec struct {
	// Name is unique in a Host, such as namespace_name_uid.
	Name     string
	Hostname string
	// Address is the Pod's IPv4 address.
	Address netip.Addr
	// Memory in bytes, MilliCPU in thousandths of a core, and processes (with their
	// threads) of all containers together. 0 is no limit, and 512 PIDs.
	Memory, MilliCPU, PIDs int64
	// Refused is called with the reason when connections are reset at a limit or by
	// policy, at most once a minute for the limit and for each of a few addresses; it
	// may be nil.
	Refused func(why string)
	// Resolv and Hosts are the files /etc/resolv.conf and /etc/hosts.
	Resolv, Hosts []byte
}

// Container is a container of a Pod.
type Container struct {
	// Name is unique among the running containers of the sandbox.
	Name string
	// Root is the folder of the unpacked image. Nothing is written to it.
	Root string
	// Args is the program with its arguments; Env is its whole environment.
	Args, Env []string
	// Dir is its working directory; "" is /.
	Dir         string
	User, Group int64
	// Groups are supplemental groups. Without root there are none.
	Groups       []int64
	ReadOnlyRoot bool
	// Scratch is how many bytes it may write to its root, which are stored in its
	// memory; 0 is 256 MiB.
	Scratch int64
	Mounts  []Mount
	// MessagePath is the file for its last message, which is stored in memory; "" is
	// none.
	MessagePath string
	// Memory in bytes and MilliCPU in thousandths of a core; 0 is no limit except that
	// of the Pod.
	Memory, MilliCPU int64
	// TTY gives it a terminal, and all its output is in Stdout. Stdin keeps its
	// standard input open; otherwise that is at its end.
	TTY, Stdin bool
	// StopSignal asks it to exit; 0 is SIGTERM.
	StopSignal syscall.Signal
	// StdinOnce ends its standard input with that of the first attached client that
	// has one. Otherwise it stays open for the next client.
	StdinOnce bool
}

// Mount is a folder or file in a container.
type Mount struct {
	// Source is the path on the host. Later changes there are visible in the
	// container, too.
	Source string
	// SubPath is the path below Source that is mounted; no link leads out of Source.
	SubPath string
	// Target is an absolute path of the container.
	Target   string
	ReadOnly bool
	// Tmpfs is a folder in memory instead of Source, of at most Limit bytes; 0
	// is 64 MiB.
	Tmpfs bool
	Limit int64

	message bool // the file of the last message
}

// Exit is how a container ended.
type Exit struct {
	// Code is its exit code, or 128 and the number of the signal.
	Code, Signal int
	// OOMKilled is true if one of its processes was killed for lack of memory.
	OOMKilled bool
	At        time.Time
	// Message is why it could not start or how it was lost; "" if it ran.
	Message string
	// LastMessage is the start of what it wrote to its MessagePath.
	LastMessage string
}

// Streams are those of a client.
type Streams = podlogs.Streams

// Size is that of a client's terminal.
type Size = podlogs.Size

const (
	// defaultPIDs is ten times what a controller has. Half of kubelet's usual limit
	// keeps the time short in which a fork bomb in a Pod runs each of its processes
	// once.
	defaultPIDs = 512
	// shareOfFree is the part of the free processes that a Pod may have: so the last
	// Pods get fewer, instead of none.
	shareOfFree = 8
	// fewestPIDs is what a Go program needs on a machine with many processors.
	fewestPIDs = 64
	// defaultScratch is what a container may write to its root, in its memory.
	defaultScratch = 256 << 20
	// defaultTmpfs is the size of a folder in memory without a configured size: that
	// of /dev/shm in other runtimes.
	defaultTmpfs = 64 << 20
	// defaultConnections is far more than the tens that a busy controller has.
	defaultConnections = 1024
	// maxMessage is how much of a last message is read, as by a kubelet.
	maxMessage = 4 << 10
	// descriptorShare is the part of the plane's descriptors that Pods may take together.
	descriptorShare = 4
	// What a Pod uses of them: for its holder and sockets, for a container with its
	// streams, log and probes, for a connection at both ends, and for a query.
	ofSandbox, ofContainer, ofConnection, ofQuestion = 16, 8, 2, 1
	// refusedEvery is the minimum time between two reports of refused connections of a
	// Pod.
	refusedEvery = time.Minute
	// refusedAddresses keeps a Pod that scans ports from filling the log, and one that asks
	// for metadata from hiding what else is refused.
	refusedAddresses = 4
	// defaultKept is some thousand lines.
	defaultKept = 1 << 20
	// maxMounts and the rest are sent as descriptors in one message, which is limited
	// to 253.
	maxMounts = 200
	// maxID is the greatest id in a Pod's range.
	maxID = 65535
)

// limitOfPod returns the limit of processes of a Pod that requests a number, or 0
// for the default, given how many are free for all further Pods.
func limitOfPod(wanted, free int64) (int64, error) {
	if free < fewestPIDs {
		return 0, fmt.Errorf("only %d processes are left for Pods, of half of those that the plane's user may have: raise that limit (ulimit -u), or run fewer Pods", max(free, 0))
	}
	return min(cmp.Or(wanted, defaultPIDs), max(fewestPIDs, free/shareOfFree)), nil
}

func (s Spec) validate() error {
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "/\x00\n") || s.Name[0] == '.' || len(s.Name) > 255:
		return fmt.Errorf("Name %q: want the name of a folder", s.Name)
	case !s.Address.Is4() || s.Address.IsLoopback() || s.Address.IsUnspecified():
		return fmt.Errorf("Address %s: want an address of version 4 that is not loopback", s.Address)
	case len(s.Hostname) > 64:
		return fmt.Errorf("Hostname %q: want at most 64 characters", s.Hostname)
	case s.Memory < 0 || s.MilliCPU < 0 || s.PIDs < 0:
		return fmt.Errorf("Memory %d, MilliCPU %d, PIDs %d: want 0 or more", s.Memory, s.MilliCPU, s.PIDs)
	}
	return nil
}

func (c Container) validate(rootless bool) error {
	switch {
	case c.Name == "" || strings.ContainsAny(c.Name, "/\x00\n") || c.Name[0] == '.' || len(c.Name) > 128:
		return fmt.Errorf("Name %q: want the name of a folder", c.Name)
	case !path.IsAbs(c.Root):
		return fmt.Errorf("Root %q: want an absolute path", c.Root)
	case len(c.Args) == 0 || c.Args[0] == "":
		return fmt.Errorf("Args: want a program: set the container's command, or use an image with an entrypoint")
	case c.User < 0 || c.User > maxID || c.Group < 0 || c.Group > maxID:
		return fmt.Errorf("User %d, Group %d: want 0 to %d", c.User, c.Group, maxID)
	case slices.ContainsFunc(c.Groups, func(g int64) bool { return g < 0 || g > maxID }):
		return fmt.Errorf("Groups %v: want 0 to %d", c.Groups, maxID)
	case rootless && slices.ContainsFunc(c.Groups, func(g int64) bool { return g != c.Group }):
		return fmt.Errorf("Groups %v: a plane without root gives a process one group: run it as root, or leave out supplementalGroups and fsGroup", c.Groups)
	case len(c.Mounts) > maxMounts:
		return fmt.Errorf("Mounts: %d, want at most %d", len(c.Mounts), maxMounts)
	case c.Memory < 0 || c.MilliCPU < 0 || c.Scratch < 0:
		return fmt.Errorf("Memory %d, MilliCPU %d, Scratch %d: want 0 or more", c.Memory, c.MilliCPU, c.Scratch)
	}
	for _, s := range slices.Concat(c.Args, c.Env, []string{c.Dir}) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("Args, Env, Dir: one has a NUL byte: remove it")
		}
	}
	for _, m := range c.mounts() {
		if err := m.validate(); err != nil {
			return err
		}
	}
	return nil
}

// kernels are folders of a container that the sandbox creates, and devices the
// content of the one in which further mounts are allowed.
var (
	kernels = []string{"/proc", "/dev", "/sys"}
	devices = []string{"fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
)

// ofKernel reports whether a path must not be a mount target.
func ofKernel(target string) bool {
	if target == "/dev/shm" {
		return false
	}
	if name, inside := strings.CutPrefix(target, "/dev/"); inside {
		first, _, _ := strings.Cut(name, "/")
		return slices.Contains(devices, first)
	}
	return slices.ContainsFunc(kernels, func(k string) bool { return target == k || strings.HasPrefix(target, k+"/") })
}

func (m Mount) validate() error {
	target := path.Clean(m.Target)
	switch {
	case !path.IsAbs(m.Target) || target == "/" || strings.ContainsRune(m.Target, 0):
		return fmt.Errorf("mount Target %q: want an absolute path below /", m.Target)
	case ofKernel(target):
		return fmt.Errorf("mount Target %q: /proc, /sys and the devices in /dev are made by the sandbox: mount it elsewhere", m.Target)
	case m.Tmpfs && m.Limit < 0:
		return fmt.Errorf("mount %s: Limit %d: want 0 or more", m.Target, m.Limit)
	case !m.Tmpfs && !m.message && !path.IsAbs(m.Source):
		return fmt.Errorf("mount %s: Source %q: want an absolute path", m.Target, m.Source)
	case m.SubPath != "" && (path.IsAbs(m.SubPath) || path.Clean("/"+m.SubPath) != "/"+path.Clean(m.SubPath)):
		return fmt.Errorf("mount %s: SubPath %q: want a path that stays inside", m.Target, m.SubPath)
	}
	return nil
}

// mounts returns all mounts of a container.
func (c Container) mounts() []Mount {
	if c.MessagePath == "" {
		return c.Mounts
	}
	return append(slices.Clone(c.Mounts), Mount{Target: c.MessagePath, message: true})
}

// inOrder sorts mounts so that none hides another: parents come first.
func inOrder(mounts []Mount) []Mount {
	sorted := slices.Clone(mounts)
	slices.SortStableFunc(sorted, func(a, b Mount) int { return strings.Compare(path.Clean(a.Target)+"/", path.Clean(b.Target)+"/") })
	return sorted
}
