// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
)

// plane is the side of the plane of one holder, which is this program in new namespaces.
type plane struct {
	*testing.T
	control int
	process *os.Process
	number  uint64
}

// launch starts a holder, which waits for its Pod.
func launch(t *testing.T) *plane {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = theirs.Close() }() // the holder has its own
	p := &plane{T: t, control: pair[0]}
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	p.process, err = os.StartProcess(containerproc.Self, []string{Name}, &os.ProcAttr{
		Dir: "/", Env: containerproc.Environment, Files: []*os.File{nil, nil, os.Stderr, theirs},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
			Setsid:     true, Pdeathsig: syscall.SIGKILL, UidMappings: ids(os.Geteuid()), GidMappings: ids(os.Getegid()),
		},
	})
	if err != nil {
		_ = unix.Close(p.control)
		t.Skipf("creates namespaces: %v", err)
	}
	t.Cleanup(func() {
		p.close()
		_ = p.process.Kill() // it may have exited
		_, _ = p.process.Wait()
	})
	return p
}

// close ends the connection, as the end of a plane does.
func (p *plane) close() {
	if p.control >= 0 {
		_ = unix.Close(p.control)
		p.control = -1
	}
}

// exits waits for the end of the holder, and returns its exit code.
func (p *plane) exits() int {
	p.Helper()
	state, err := p.process.Wait()
	if err != nil {
		p.Fatal(err)
	}
	return state.ExitCode()
}

// receive returns the next message, whose descriptors are closed at the end of the test.
func (p *plane) receive() (e Event, files []*os.File) {
	p.Helper()
	fds, err := containerproc.Receive(p.control, &e)
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "received")
		p.Cleanup(func() { _ = f.Close() })
		files = append(files, f)
	}
	if err != nil {
		p.Fatalf("the holder sends nothing: %v", err)
	}
	return e, files
}

// request sends a request, and returns its answer.
func (p *plane) request(r Request, fds ...int) (Event, []*os.File) {
	p.Helper()
	p.number++
	r.ID = p.number
	if err := containerproc.Send(p.control, r, fds...); err != nil {
		p.Fatal(err)
	}
	e, files := p.receive()
	if e.ID != r.ID {
		p.Errorf("request %d got the answer of %d", r.ID, e.ID)
	}
	return e, files
}

var (
	own      = [4]byte{10, 244, 0, 7}
	testPod  = Pod{Hostname: "test", Address: own, Endpoints: [4]byte{127, 64}, EndpointsMask: [4]byte{255, 192}, EndpointsPort: 6443, PIDs: 64}
	loopback = [4]byte{127, 0, 0, 1}
)

// run launches a holder with its Pod, and returns the listener of what leaves the Pod.
func run(t *testing.T) (*plane, *net.TCPListener) {
	t.Helper()
	p := launch(t)
	if err := containerproc.Send(p.control, testPod); err != nil {
		t.Fatal(err)
	}
	e, files := p.receive()
	if e.Kind != Ready {
		if os.Geteuid() != 0 {
			t.Skipf("this user runs no sandboxes: %s", e.Error)
		}
		t.Fatalf("the holder is not ready: %+v", e)
	}
	if len(files) != 2 {
		t.Fatalf("%d sockets came, want those of TCP and DNS", len(files))
	}
	ln, err := net.FileListener(files[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return p, ln.(*net.TCPListener)
}

// socket returns a socket of the Pod that blocks, but not forever.
func (p *plane) socket() int {
	p.Helper()
	e, files := p.request(Request{Kind: MakeSocket})
	if e.Kind != Done || len(files) != 1 {
		p.Fatalf("got %+v with %d descriptors, want a socket", e, len(files))
	}
	fd := int(files[0].Fd())
	limit := unix.Timeval{Sec: 10}
	if err := errors.Join(unix.SetNonblock(fd, false), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)); err != nil {
		p.Fatal(err)
	}
	return fd
}

// TestConnectionsOfPodAreRedirected: the kernel decides by the rules of the Pod; what
// leaves it must reach the plane with its destination, and nothing else must.
func TestConnectionsOfPodAreRedirected(t *testing.T) {
	t.Parallel()
	p, relay := run(t)
	server := p.socket()
	if err := errors.Join(unix.Bind(server, &unix.SockaddrInet4{Port: 8080}), unix.Listen(server, 8)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		to      string
		relayed bool
		err     error // of a connection that stays
	}{
		"outside":                     {to: "192.0.2.1:80", relayed: true},
		"another Pod":                 {to: "10.244.0.8:8080", relayed: true},
		"metadata of a cloud":         {to: "169.254.169.254:80", relayed: true},
		"DNS by TCP":                  {to: "10.96.0.10:53", relayed: true},
		"an endpoint of the host":     {to: "127.64.3.4:6443", relayed: true},
		"another port of its address": {to: "127.64.3.4:8080"},
		"an address past them":        {to: "127.128.0.1:6443", err: unix.ECONNREFUSED},
		"its own loopback":            {to: "127.0.0.1:8080"},
		"no server there":             {to: "127.0.0.1:9", err: unix.ECONNREFUSED},
		"its own address":             {to: "10.244.0.7:8080"},
		"no server at it":             {to: "10.244.0.7:9", err: unix.ECONNREFUSED},
	} {
		to := netip.MustParseAddrPort(tc.to)
		fd := p.socket()
		err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: got %v, want %v", name, err, tc.err)
		}
		if !tc.relayed {
			continue
		}
		if err := relay.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		c, err := relay.AcceptTCP()
		if err != nil {
			t.Errorf("%s: the plane receives nothing: %v", name, err)
			continue
		}
		if got := original(t, c); got != to {
			t.Errorf("%s: the plane receives a connection to %s, want %s", name, got, to)
		}
		_ = c.Close()
	}
	if err := relay.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if c, err := relay.AcceptTCP(); err == nil {
		t.Errorf("the plane receives a connection to %s that should stay in the Pod", original(t, c))
	}
}

// original returns the destination of a redirected connection.
func original(t *testing.T, c *net.TCPConn) netip.AddrPort {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var m *unix.IPv6Mreq                                                                                                                     // large enough for a sockaddr_in
	if cerr := raw.Control(func(fd uintptr) { m, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, 80) }); err != nil || cerr != nil { // SO_ORIGINAL_DST
		t.Fatal(err, cerr)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Multiaddr[4:8])), binary.BigEndian.Uint16(m.Multiaddr[2:4]))
}

// TestSocketsOfPodAreItsOwn: a socket that the plane gets is in the network of the Pod,
// whose processes cannot take the addresses of the relay.
func TestSocketsOfPodAreItsOwn(t *testing.T) {
	t.Parallel()
	p, _ := run(t)
	for name, tc := range map[string]struct {
		address [4]byte
		port    int
		want    error
	}{
		"the address of the Pod":       {own, 0, nil},
		"loopback":                     {loopback, 0, nil},
		"the relay":                    {Relay, relayPort, unix.EADDRINUSE},
		"an address of another Pod":    {[4]byte{10, 244, 0, 8}, 0, unix.EADDRNOTAVAIL},
		"all addresses, at its port":   {[4]byte{}, relayPort, unix.EADDRINUSE},
		"an address that routes to it": {[4]byte{192, 0, 2, 1}, 0, unix.EADDRNOTAVAIL},
	} {
		if err := unix.Bind(p.socket(), &unix.SockaddrInet4{Addr: tc.address, Port: tc.port}); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

// TestHolderRefusesRequests: a request that cannot be served ends neither the holder nor
// its containers.
func TestHolderRefusesRequests(t *testing.T) {
	t.Parallel()
	p, _ := run(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	few := make([]int, containerproc.TargetAt)
	for i := range few {
		few[i] = int(null.Fd())
	}
	for name, tc := range map[string]struct {
		request Request
		fds     []int
		want    string
	}{
		"of an unknown kind":              {Request{Kind: "mount"}, few, `a request of kind "mount" is unknown`},
		"without kind":                    {Request{}, nil, `a request of kind "" is unknown`},
		"a container without descriptors": {Request{Kind: Run}, nil, "only 0 descriptors came: is the limit of open files reached (ulimit -n)?"},
		"a container without its pipes":   {Request{Kind: Run}, few[:4], "only 4 descriptors came"},
		"a command without its container": {Request{Kind: Exec}, few, fmt.Sprintf("only %d descriptors came", len(few))},
	} {
		e, files := p.request(tc.request, tc.fds...)
		if e.Kind != Refused || !strings.HasPrefix(e.Error, tc.want) || len(files) > 0 {
			t.Errorf("%s: got %+v with %d descriptors, want %q", name, e, len(files), tc.want)
		}
	}
	p.socket() // it still serves
}

// TestHolderReportsHowItsProcessesEnd starts a container whose plan never comes: it exits
// with an answer, and the holder reports that.
func TestHolderReportsHowItsProcessesEnd(t *testing.T) {
	t.Parallel()
	p, _ := run(t)
	pipes, err := containerproc.NewPipes()
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	silent := int(null.Fd())
	e, files := p.request(Request{Kind: Run, Nested: true, UID: 7, GID: 8}, silent, silent, silent, int(pipes.Given.Fd()), int(pipes.Answer.Fd()))
	if e.Kind != Done || len(files) != 1 {
		t.Fatalf("got %+v with %d descriptors, want a process", e, len(files))
	}
	pipes.Passed()
	if err := pipes.Plan.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pipes.Await(); err == nil || errors.Is(err, io.EOF) || err.Error() != "read what to run: EOF" {
		t.Errorf("the container answers %v, want that it got no plan", err)
	}
	started := e.ID
	if e, _ = p.receive(); e.Kind != Ended || e.ID != started || e.Code != containerproc.NotBegun || e.Signal != 0 {
		t.Errorf("got %+v, want the end of process %d with code %d", e, started, containerproc.NotBegun)
	}
	if err := unix.PidfdSendSignal(int(files[0].Fd()), unix.SIGKILL, nil, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the descriptor of the process: %v, want that it has exited", err)
	}
}

// TestHolderExitsWithItsPlane: nothing of a Pod remains after the plane.
func TestHolderExitsWithItsPlane(t *testing.T) {
	t.Parallel()
	p, _ := run(t)
	p.close()
	if code := p.exits(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	early := launch(t)
	early.close() // before it sent the Pod
	if code := early.exits(); code != containerproc.NotBegun {
		t.Errorf("without a Pod it exits with %d, want %d", code, containerproc.NotBegun)
	}
}

// TestHolderReportsWhyItIsNotReady: the plane shows the reason on the Pod.
func TestHolderReportsWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text, want string
	}{
		"no Pod":               {`["a"]`, "cannot unmarshal array"},
		"a host name too long": {`{"Hostname": "` + strings.Repeat("a", 65) + `"}`, "set the host name: invalid argument"},
		"a program not there":  {`{"Hostname": "a", "Program": "/nonexistent"}`, "mount /nonexistent read-only: no such file or directory"},
	} {
		p := launch(t)
		if err := unix.Sendmsg(p.control, []byte(tc.text), nil, nil, unix.MSG_NOSIGNAL); err != nil {
			t.Fatal(err)
		}
		e, files := p.receive()
		if e.Kind != Refused || !strings.Contains(e.Error, tc.want) || len(files) > 0 {
			t.Errorf("%s: got %+v, want %q", name, e, tc.want)
		}
		if code := p.exits(); code != containerproc.NotBegun {
			t.Errorf("%s: it exits with %d, want %d", name, code, containerproc.NotBegun)
		}
	}
}
