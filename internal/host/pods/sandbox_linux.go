// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/pods/holder"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Sandbox is the sandbox of a running Pod.
type Sandbox struct {
	host *Host
	spec Spec
	ids  uint32 // its range
	// autogroup is the nice value of its sessions; 0 where the kernel does not weigh
	// them.
	autogroup int
	holder    *os.Process
	users     *os.File // its user namespace, to map the owners of files; nil without root
	ctl       *net.UnixConn
	tcp       net.Listener
	udp       net.PacketConn
	ctx       context.Context // ends with it
	cancel    context.CancelCauseFunc
	work      sync.WaitGroup // all its goroutines
	said      *output        // the output of a broken holder
	refusals  refusals

	descriptors int // of the plane; guarded by Host.descriptors

	mu         sync.Mutex // guards the fields below
	stopping   bool
	number     uint64
	answers    map[uint64]chan answer // nil if the call no longer waits
	ends       map[uint64]func(holder.Event)
	containers map[string]*Process
}

// answer is an answer of the holder, with descriptors that its receiver closes.
type answer struct {
	holder.Event
	fds []int
}

const (
	// readyWithin is the time limit for a holder to be ready; it takes milliseconds on
	// an idle machine.
	readyWithin = 30 * time.Second
	// saidBytes is enough for a stack trace.
	saidBytes = 4 << 10
)

// Start creates the sandbox of a Pod, without containers. Stop ends it, including
// one that has exited already.
func (h *Host) Start(ctx context.Context, spec Spec) (_ *Sandbox, err error) {
	if err := spec.validate(); err != nil {
		return nil, fmt.Errorf("start a sandbox: %w", err)
	}
	s := &Sandbox{host: h, spec: spec, said: newOutput(saidBytes), answers: map[uint64]chan answer{}, ends: map[uint64]func(holder.Event){}, containers: map[string]*Process{}}
	if err := h.take(s); err != nil {
		return nil, fmt.Errorf("start sandbox %s: %w", spec.Name, err)
	}
	s.ctx, s.cancel = context.WithCancelCause(logr.NewContextWithSlogLogger(context.Background(), h.options.Log.With("sandbox", spec.Name)))
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start sandbox %s: %w%s", spec.Name, err, remedy(err)), s.Stop(context.WithoutCancel(ctx), 0))
	}
	return s, nil
}

// Name returns the name in its Spec.
func (s *Sandbox) Name() string { return s.spec.Name }

// Done is closed when it has ended, through Stop or otherwise.
func (s *Sandbox) Done() <-chan struct{} { return s.ctx.Done() }

// Err returns why it ended; nil while it runs.
func (s *Sandbox) Err() error { return context.Cause(s.ctx) }

func (s *Sandbox) begin(ctx context.Context) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = errors.Join(ours.Close(), theirs.Close()) }() // each side has its own
	conn, err := net.FileConn(ours)
	if err != nil {
		return err
	}
	s.ctl = conn.(*net.UnixConn)
	if err := s.launch(theirs); err != nil {
		return err
	}
	if err := s.makeGroups(s.holder.Pid); err != nil {
		return err
	}
	pod := holder.Pod{Hostname: s.spec.Hostname, Address: s.spec.Address.As4(), Program: s.host.program, PIDs: uint64(s.spec.PIDs), Autogroup: s.autogroup,
		Endpoints: loopback.Range.Addr().As4(), EndpointsMask: [4]byte(net.CIDRMask(loopback.Range.Bits(), 32)), EndpointsPort: loopback.Port}
	ready := make(chan answer, 1)
	s.mu.Lock()
	s.answers[0] = ready
	s.mu.Unlock()
	s.startVital(s.listen)
	if err := s.send(pod); err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the holder was not ready after %s: %w", readyWithin, os.ErrDeadlineExceeded))
	defer stop()
	a, err := s.await(ctx, 0, ready)
	if err != nil {
		return err
	}
	return s.serve(a.fds)
}

// launch starts the holder, which waits for its first message.
func (s *Sandbox) launch(control *os.File) error {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Setsid:     true,
	}
	if s.host.rootless {
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	} else {
		ids := []syscall.SysProcIDMap{{HostID: s.firstID(), Size: idsPerPod}}
		attr.UidMappings, attr.GidMappings, attr.GidMappingsEnableSetgroups = ids, ids, true
		// The plane's own id is not in the map: it would have no capabilities.
		attr.Credential = &syscall.Credential{}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	s.holder, err = os.StartProcess(containerproc.Self, []string{holder.Name}, &os.ProcAttr{
		Dir: "/", Env: containerproc.Environment, Sys: attr, Files: []*os.File{nil, nil, w, control},
	})
	_ = w.Close() // the holder has its own
	if err != nil {
		_ = r.Close() // nothing was written
		return fmt.Errorf("make namespaces: %w", err)
	}
	s.work.Go(recovery.Func(s.ctx, func() {
		_, _ = io.Copy(s.said, r) // only its end matters
		_ = r.Close()             // likewise
		s.said.end()
	}))
	s.startVital(s.waitExit)
	if s.host.rootless {
		return nil
	}
	s.users, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", s.holder.Pid))
	return err
}

// startVital runs f in a goroutine without which the sandbox is useless: a panic ends it.
func (s *Sandbox) startVital(f func()) {
	s.work.Go(func() {
		if err := recovery.Call(s.ctx, func() error { f(); return nil }); err != nil {
			s.cancel(err)
		}
	})
}

func (s *Sandbox) firstID() int { return firstID + int(s.ids)*idsPerPod }

// waitExit waits until the holder exits; the whole Pod exits with it.
func (s *Sandbox) waitExit() {
	state, err := s.holder.Wait()
	why := fmt.Sprint("the holder of the sandbox ended: ", state)
	if err != nil {
		why = err.Error()
	}
	said, _ := io.ReadAll(s.said) // never fails: it is not closed
	if len(said) > 0 {
		why += ": " + string(said)
	}
	s.cancel(errors.New(why))
}

// send sends a message to the holder, with descriptors.
func (s *Sandbox) send(v any, fds ...int) error {
	b, oob, err := containerproc.Encode(v, fds...)
	if err != nil {
		return fmt.Errorf("instruct the holder: %w", err)
	}
	if err := s.ctl.SetWriteDeadline(time.Now().Add(readyWithin)); err != nil {
		return err
	}
	if _, _, err := s.ctl.WriteMsgUnix(b, oob, nil); err != nil {
		return fmt.Errorf("instruct the holder: %w", errors.Join(err, s.Err()))
	}
	return nil
}

// listen dispatches the messages of the holder.
func (s *Sandbox) listen() {
	b, oob := containerproc.Buffers()
	for {
		n, on, flags, _, err := s.ctl.ReadMsgUnix(b, oob)
		if err != nil {
			return // waitExit reports it
		}
		a := answer{}
		if a.fds, err = containerproc.Decode(b[:n], oob[:on], flags, &a.Event); err != nil || flags&unix.MSG_CTRUNC != 0 {
			// Out of descriptors: the caller sees that none arrived.
			s.host.options.Log.Warn("A message of a holder is damaged", "sandbox", s.spec.Name, "err", err)
		}
		s.mu.Lock()
		if a.Kind == holder.Ended {
			end := s.ends[a.ID]
			delete(s.ends, a.ID)
			s.mu.Unlock()
			closeAll(a.fds) // none are expected
			if end != nil {
				end(a.Event)
			}
			continue
		}
		ch := s.answers[a.ID]
		delete(s.answers, a.ID)
		s.mu.Unlock()
		if ch == nil {
			closeAll(a.fds)
			continue
		}
		ch <- a // it has room for one
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // nothing was written to it
	}
}

// call sends a request to the holder. If the request starts a process, end is
// called with its exit.
func (s *Sandbox) call(ctx context.Context, r holder.Request, end func(holder.Event), fds ...int) (answer, error) {
	ch := make(chan answer, 1)
	s.mu.Lock()
	if s.stopping && end != nil { // what runs can still be connected to
		s.mu.Unlock()
		return answer{}, fmt.Errorf("sandbox %s stops", s.spec.Name)
	}
	s.number++
	r.ID = s.number
	s.answers[r.ID] = ch
	if end != nil {
		s.ends[r.ID] = end
	}
	s.mu.Unlock()
	if err := s.send(r, fds...); err != nil {
		s.forget(r.ID)
		return answer{}, err
	}
	a, err := s.await(ctx, r.ID, ch)
	if err != nil {
		s.forget(r.ID)
		return answer{}, err
	}
	if len(a.fds) != 1 {
		closeAll(a.fds)
		s.forget(r.ID)
		return answer{}, fmt.Errorf("the holder sent %d descriptors, want 1: is the limit of open files reached (ulimit -n)?", len(a.fds))
	}
	return a, nil
}

func (s *Sandbox) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, id)
	delete(s.ends, id)
}

// await waits for an answer. The descriptors of a late one are closed by listen, or
// here.
func (s *Sandbox) await(ctx context.Context, id uint64, ch chan answer) (a answer, err error) {
	select {
	case a = <-ch:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.ctx.Done():
		err = s.Err()
	}
	if err != nil {
		s.forget(id)
		select {
		case a := <-ch:
			closeAll(a.fds)
			if a.Kind == holder.Refused { // it has the better reason
				err = errors.New(a.Error)
			}
		default:
		}
		return answer{}, err
	}
	if a.Kind == holder.Refused {
		closeAll(a.fds)
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}

// Stop asks all containers to exit with their signals, kills the rest after grace
// or with ctx, and reverts everything that Start did. It may be called again.
func (s *Sandbox) Stop(ctx context.Context, grace time.Duration) error {
	s.mu.Lock()
	var all []*Process
	for _, p := range s.containers {
		all = append(all, p)
	}
	again := s.stopping
	s.stopping = true
	s.mu.Unlock()
	if again {
		select {
		case <-s.ctx.Done():
		case <-ctx.Done():
		}
		return nil
	}
	if grace > 0 {
		wait(ctx, s.ctx, all, grace)
	}
	if s.holder != nil {
		if err := s.holder.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop sandbox %s: %w", s.spec.Name, err)
		}
		<-s.ctx.Done() // process 1 exits after all others
	}
	s.cancel(errors.New("the sandbox was stopped"))
	var errs []error
	for _, c := range []io.Closer{s.ctl, s.tcp, s.udp, s.users} {
		if c != nil && !reflect.ValueOf(c).IsNil() { // its creation failed before
			errs = append(errs, c.Close())
		}
	}
	s.work.Wait()
	if !s.host.rootless {
		errs = append(errs, s.host.groups.Remove(s.groupOf()))
	}
	s.host.release(s)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", s.spec.Name, err)
	}
	return nil
}

// wait asks processes to exit and waits until they have, or the time is over.
func wait(ctx, gone context.Context, all []*Process, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, p := range all {
		_ = p.Signal(cmp.Or(p.container.StopSignal, unix.SIGTERM)) // it may have exited
	}
	for _, p := range all {
		select {
		case <-p.done:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-gone.Done():
			return
		}
	}
}
