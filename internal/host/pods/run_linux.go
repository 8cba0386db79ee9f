// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/pods/holder"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Run starts a container. When it returns, its program runs; an error has the
// reason why it does not.
func (s *Sandbox) Run(ctx context.Context, c Container) (*Process, error) {
	p, err := s.run(ctx, c, false)
	if err != nil {
		return nil, fmt.Errorf("run container %s of sandbox %s: %w", c.Name, s.spec.Name, err)
	}
	return p, nil
}

func (s *Sandbox) run(ctx context.Context, c Container, trial bool) (_ *Process, err error) {
	if err := c.validate(s.host.rootless); err != nil {
		return nil, err
	}
	p := &Process{container: c, stdout: newOutput(s.host.options.Kept), stderr: newOutput(s.host.options.Kept), done: make(chan struct{})}
	if err := s.add(p); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.remove(p)
			_ = p.message.Close() // nil, or nothing was read
		}
	}()
	if err := s.limit(c); err != nil {
		return nil, err
	}
	plan := s.plan(c, c.Args, c.TTY)
	plan.Trial = trial
	root, trees, err := s.root(p)
	defer func() { closeAll(trees) }()
	if err != nil {
		return nil, err
	}
	plan.Root = root.Root()
	st, err := openStreams(c.TTY, c.Stdin, s.owner(c))
	if err != nil {
		return nil, err
	}
	ended := make(chan holder.Event, 1)
	request := holder.Request{Kind: holder.Run, UID: plan.Rights.UID, GID: plan.Rights.GID, Nested: s.host.rootless, Terminal: c.TTY}
	if p.pidfd, err = s.start(ctx, st, beginning{request, containerGroup(s, c.Name), plan, ended}, trees...); err != nil {
		st.close()
		return nil, err
	}
	st.pipes.Close() // everything was read
	if err := p.receiveMessage(); err != nil {
		s.host.options.Log.Warn("The last message of a container will not be known", "sandbox", s.spec.Name, "container", c.Name, "err", err)
	}
	s.follow(p, st, ended)
	return p, nil
}

// plan plans a process of a container, without its root.
func (s *Sandbox) plan(c Container, args []string, tty bool) containerproc.Plan {
	r := containerproc.Rights{UID: int(c.User), GID: int(c.Group), Nested: s.host.rootless, PIDs: uint64(s.spec.PIDs), Autogroup: s.autogroup}
	for _, g := range c.Groups {
		r.Groups = append(r.Groups, int(g))
	}
	return containerproc.Plan{Args: args, Env: c.Env, Dir: c.Dir, Terminal: tty, Rights: r}
}

// owner returns the owner of the terminal of a container; -1 leaves it unchanged.
func (s *Sandbox) owner(c Container) int {
	if s.host.rootless {
		return -1
	}
	return s.firstID() + int(c.User)
}

func (s *Sandbox) add(p *Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return errors.New("the sandbox stops")
	}
	if s.containers[p.container.Name] != nil {
		return errors.New("one of this name runs: wait for its end")
	}
	if err := s.host.descriptors.take(s, ofContainer); err != nil {
		return err
	}
	s.containers[p.container.Name] = p
	return nil
}

// remove removes a container and its limits.
func (s *Sandbox) remove(p *Process) {
	if !s.host.rootless {
		if err := s.host.groups.Remove(containerGroup(s, p.container.Name)); err != nil {
			s.host.options.Log.Warn("A control group stays until the sandbox is stopped", "sandbox", s.spec.Name, "container", p.container.Name, "err", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, p.container.Name)
	s.host.descriptors.give(s, ofContainer)
}

func (s *Sandbox) limit(c Container) error {
	if s.host.rootless {
		return nil
	}
	group := containerGroup(s, c.Name)
	if err := s.host.groups.Make("", group); err != nil {
		return err
	}
	return s.host.groups.Limit(group, cgroups.Limits{Memory: c.Memory, MilliCPU: c.MilliCPU})
}

// root plans the root of a container. As root it creates detached mounts: their
// sources need not be accessible for the ids of a Pod, and owners are mapped to
// those ids. A plain user cannot create mounts, but has the id of the Pod, so it
// passes the paths.
func (s *Sandbox) root(p *Process) (r rootfs.Pod, trees []int, err error) {
	c := p.container
	r = rootfs.Pod{
		Scratch: cmp.Or(c.Scratch, defaultScratch), ReadOnly: c.ReadOnlyRoot, ReadOnlyProc: s.autogroup > 0,
		Files: map[string][]byte{"/etc/hosts": s.spec.Hosts, "/etc/resolv.conf": s.spec.Resolv, "/etc/hostname": []byte(s.spec.Hostname + "\n")},
	}
	give := func(fd int) int {
		trees = append(trees, fd)
		return containerproc.TreesAt + len(trees) - 1
	}
	take := func(m rootfs.Step) (rootfs.Step, error) {
		if s.host.rootless {
			return m, nil
		}
		source := m.Source
		fd, err := rootfs.OpenTree(m.Source, m.SubPath, false)
		if err != nil {
			return m, err
		}
		m.Descriptor, m.Source, m.SubPath = give(fd), "", ""
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(s.users.Fd())})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			// Without it all files would have an unmapped owner: a Pod could write nothing,
			// nor read its own Secrets.
			err = &ownersError{source, err}
			return m, fmt.Errorf("%w%s", err, remedy(err))
		}
		return m, os.NewSyscallError("mount_setattr", err)
	}
	if r.Image, err = take(rootfs.Step{Source: c.Root}); err != nil {
		return r, trees, fmt.Errorf("take the image: %w", err)
	}
	for _, m := range inOrder(c.mounts()) {
		step := rootfs.Step{Op: rootfs.Bind, Target: path.Clean(m.Target), Flags: rootfs.NoSUID | rootfs.NoDev}
		if m.ReadOnly {
			step.Flags |= rootfs.RO
		}
		switch {
		case m.message:
			var fd int
			if fd, err = p.awaitMessage(); err == nil {
				step.Op, step.Descriptor = rootfs.Message, give(fd)
			}
		case m.Tmpfs:
			step.Op, step.Source, step.Type, step.Data = rootfs.Mount, "tmpfs", "tmpfs", rootfs.Limits(cmp.Or(m.Limit, defaultTmpfs))+",mode=1777"
		default:
			step.Source, step.SubPath = m.Source, m.SubPath
			step, err = take(step)
		}
		if err != nil {
			return r, trees, fmt.Errorf("mount %s: %w", m.Target, err)
		}
		r.Mounts = append(r.Mounts, step)
	}
	return r, trees, nil
}

// ownersError means that a file system cannot map the owners of its files to the
// ids of a Pod.
type ownersError struct {
	dir string
	err error
}

func (e *ownersError) Error() string {
	return fmt.Sprintf("give a Pod the files of %s: their file system cannot map owners: %v", e.dir, e.err)
}

// beginning is a process to be started.
type beginning struct {
	request holder.Request
	group   string // that it enters
	plan    containerproc.Plan
	ended   chan<- holder.Event
}

// start has the holder start a process, moves it into its group, and sends it its
// plan. It returns when the process executes its program.
func (s *Sandbox) start(ctx context.Context, st *streams, b beginning, more ...int) (*os.File, error) {
	fds := []int{int(st.theirs[0].Fd()), int(st.theirs[1].Fd()), int(st.theirs[2].Fd()), int(st.pipes.Given.Fd()), int(st.pipes.Answer.Fd())}
	a, err := s.call(ctx, b.request, func(e holder.Event) { b.ended <- e }, append(fds, more...)...)
	if err != nil {
		return nil, err
	}
	pidfd := os.NewFile(uintptr(a.fds[0]), "process")
	st.given()
	stop := endWith(ctx, pidfd)
	err = s.enter(b.group, a.fds[0])
	if err == nil {
		err = st.pipes.Run(b.plan)
	}
	stop()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return pidfd, nil
	}
	_ = send(pidfd, unix.SIGKILL) // it may have exited
	select {
	case <-s.ctx.Done():
	case <-s.after(a.ID):
	}
	return nil, errors.Join(err, pidfd.Close())
}

// after returns a channel that is closed when the process that a request started
// has exited.
func (s *Sandbox) after(id uint64) <-chan struct{} {
	done := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[id] == nil {
		close(done)
		return done
	}
	s.ends[id] = func(holder.Event) { close(done) }
	return done
}

func (s *Sandbox) enter(group string, pidfd int) error {
	if s.host.rootless {
		return nil
	}
	pid, err := pidOf(pidfd)
	if err != nil {
		return fmt.Errorf("find the process: %w", err)
	}
	return s.host.groups.Enter(group, pid)
}

// follow stores the output of a container and records its exit.
func (s *Sandbox) follow(p *Process, st *streams, ended <-chan holder.Event) {
	p.terminal = st.terminal
	if st.stdin != nil {
		p.stdin = st.stdin
	}
	if p.container.Stdin {
		p.input = make(chan []byte)
		s.startVital(p.listen)
	}
	keep := func(o *output, from *os.File) {
		if from == nil {
			o.end()
			return
		}
		p.drained.Go(recovery.Func(s.ctx, func() {
			defer o.end()
			drain(o, from)
		}))
	}
	keep(p.stdout, st.stdout)
	keep(p.stderr, st.stderr)
	s.startVital(func() {
		defer close(p.done)
		var e holder.Event
		select {
		case e = <-ended:
		case <-s.ctx.Done():
			e = holder.Event{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL), Error: s.Err().Error()}
		}
		// Only processes of the container had the other ends.
		p.drained.Wait()
		oom := 0
		if !s.host.rootless {
			var err error
			if oom, err = killed(s.host.groups, containerGroup(s, p.container.Name)); err != nil {
				s.host.options.Log.Warn("How a container ended is not known", "sandbox", s.spec.Name, "container", p.container.Name, "err", err)
			}
		}
		p.end(e, oom > 0)
		st.close()
		s.remove(p)
	})
}
