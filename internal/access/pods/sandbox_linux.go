// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/pods/holder"
)

// Sandbox is that of a running Pod.
type Sandbox struct {
	host *Host
	spec Spec
	ids  uint32 // its range
	// autogroup is the nice value of its sessions; 0 where the kernel does not weigh them.
	autogroup int
	holder    *os.Process
	users     *os.File // its user namespace, to map the owners of files; nil without root
	ctl       *net.UnixConn
	tcp       net.Listener
	udp       net.PacketConn
	ctx       context.Context // ends with it
	cancel    context.CancelCauseFunc
	work      sync.WaitGroup // all that it started
	said      *output        // by the holder, when it breaks
	refusals  refusals

	descriptors int // of the plane; guarded by Host.descriptors

	mu         sync.Mutex // guards what follows
	stopping   bool
	number     uint64
	answers    map[uint64]chan answer // nil for one that nobody waits for
	ends       map[uint64]func(holder.Event)
	containers map[string]*Process
}

// answer is that of the holder, with descriptors that its receiver closes.
type answer struct {
	holder.Event
	fds []int
}

const (
	// readyWithin is how long a holder may take; milliseconds on an idle machine.
	readyWithin = 30 * time.Second
	// saidBytes is room for a stack.
	saidBytes = 4 << 10
	// rights is room for as many descriptors as come with an answer.
	rights = 64
)

// Start makes the sandbox of a Pod, with no container in it yet. Stop ends it,
// also one that has ended by itself.
func (h *Host) Start(ctx context.Context, spec Spec) (_ *Sandbox, err error) {
	if err := spec.validate(); err != nil {
		return nil, fmt.Errorf("start a sandbox: %w", err)
	}
	s := &Sandbox{host: h, spec: spec, said: newOutput(saidBytes), answers: map[uint64]chan answer{}, ends: map[uint64]func(holder.Event){}, containers: map[string]*Process{}}
	if err := h.take(s); err != nil {
		return nil, fmt.Errorf("start sandbox %s: %w", spec.Name, err)
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start sandbox %s: %w%s", spec.Name, err, remedy(err)), s.Stop(context.WithoutCancel(ctx), 0))
	}
	return s, nil
}

// Name is that of its Spec.
func (s *Sandbox) Name() string { return s.spec.Name }

// Done is closed when it has ended, by Stop or by itself.
func (s *Sandbox) Done() <-chan struct{} { return s.ctx.Done() }

// Err says why it ended; nil while it runs.
func (s *Sandbox) Err() error { return context.Cause(s.ctx) }

func (s *Sandbox) begin(ctx context.Context) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer func() { _ = errors.Join(ours.Close(), theirs.Close()) }() // each has its own
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
	pod := holder.Pod{Hostname: s.spec.Hostname, Address: s.spec.Address.As4(), Program: s.host.program, PIDs: uint64(s.spec.PIDs), Autogroup: s.autogroup}
	ready := make(chan answer, 1)
	s.mu.Lock()
	s.answers[0] = ready
	s.mu.Unlock()
	s.work.Go(s.listen)
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
		// The plane's own id is not in the map: it would have no rights.
		attr.Credential = &syscall.Credential{}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	s.holder, err = os.StartProcess("/proc/self/exe", []string{holder.Name}, &os.ProcAttr{
		Dir: "/", Env: holder.Environment, Sys: attr, Files: []*os.File{nil, nil, w, control},
	})
	_ = w.Close() // the holder has its own
	if err != nil {
		_ = r.Close() // nothing was written
		return fmt.Errorf("make namespaces: %w", err)
	}
	s.work.Go(func() {
		_, _ = io.Copy(s.said, r) // its end is all that matters
		_ = r.Close()             // likewise
		s.said.end()
	})
	s.work.Go(s.mourn)
	if s.host.rootless {
		return nil
	}
	s.users, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", s.holder.Pid))
	return err
}

func (s *Sandbox) firstID() int { return firstID + int(s.ids)*idsPerPod }

// mourn waits for the end of the holder, with which all of the Pod ends.
func (s *Sandbox) mourn() {
	state, err := s.holder.Wait()
	why := fmt.Sprint("the holder of the sandbox ended: ", state)
	if err != nil {
		why = err.Error()
	}
	said, _ := io.ReadAll(s.said) // never fails: nobody closes it
	if len(said) > 0 {
		why += ": " + string(said)
	}
	s.cancel(errors.New(why))
}

// send sends a message to the holder, with descriptors.
func (s *Sandbox) send(v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > holder.MaxMessage {
		return fmt.Errorf("a message of %d bytes is too long for the holder", len(b))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := s.ctl.SetWriteDeadline(time.Now().Add(readyWithin)); err != nil {
		return err
	}
	if _, _, err := s.ctl.WriteMsgUnix(b, oob, nil); err != nil {
		return fmt.Errorf("tell the holder: %w", errors.Join(err, s.Err()))
	}
	return nil
}

// listen hands out what the holder says.
func (s *Sandbox) listen() {
	b, oob := make([]byte, holder.MaxMessage), make([]byte, unix.CmsgSpace(rights*4))
	for {
		n, on, flags, _, err := s.ctl.ReadMsgUnix(b, oob)
		if err != nil {
			return // mourn tells
		}
		a := answer{}
		a.fds, err = holder.Descriptors(oob[:on])
		if err = errors.Join(err, json.Unmarshal(b[:n], &a.Event)); err != nil || flags&unix.MSG_CTRUNC != 0 {
			// Out of descriptors: whoever asked sees that none came.
			s.host.options.Log.Warn("A message of a holder is damaged", "sandbox", s.spec.Name, "err", err)
		}
		s.mu.Lock()
		if a.Kind == holder.Ended {
			end := s.ends[a.ID]
			delete(s.ends, a.ID)
			s.mu.Unlock()
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

// call asks the holder for something. end is told of the end of what it starts,
// if it starts something.
func (s *Sandbox) call(ctx context.Context, r holder.Request, end func(holder.Event), fds ...int) (answer, error) {
	ch := make(chan answer, 1)
	s.mu.Lock()
	if s.stopping {
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

// await waits for an answer. One that comes too late is closed by listen, or
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
			if a.Kind == holder.Refused { // it says more than that it ended
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

// Stop asks all containers to end by their signals, ends what is left after grace
// or with ctx, and undoes all that Start made. It may be called again.
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
		<-s.ctx.Done() // process 1 is gone when all others are
	}
	s.cancel(errors.New("the sandbox was stopped"))
	var errs []error
	for _, c := range []io.Closer{s.ctl, s.tcp, s.udp, s.users} {
		if !absent(c) {
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

func absent(c io.Closer) bool {
	switch c := c.(type) {
	case *net.UnixConn:
		return c == nil
	case *os.File:
		return c == nil
	}
	return c == nil
}

// wait asks processes to end and waits until they have, or may no longer.
func wait(ctx, gone context.Context, all []*Process, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, p := range all {
		_ = p.Signal(cmp.Or(p.container.StopSignal, unix.SIGTERM)) // it may have ended
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
