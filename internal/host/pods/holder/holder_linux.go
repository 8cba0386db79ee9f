// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

// init must run as early as that of package containerproc.
func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		os.Exit(hold())
	}
}

// control is the descriptor with which the plane and a holder communicate.
const control = 3

// hold is process 1 of a Pod.
func hold() int {
	runtime.GOMAXPROCS(1)
	unix.CloseOnExec(control)
	h := &holder{self: containerproc.Self}
	if err := h.serve(); err != nil {
		_ = containerproc.Send(control, Event{Kind: Refused, Error: containerproc.Bounded(err)}) // the plane may have exited
		return containerproc.NotBegun
	}
	return 0
}

type holder struct {
	self string // what is started
	file *os.File
	// containers receives functions that start containers, in a thread that still has
	// the files of the host.
	containers chan<- func()
	// autogroup and processes are those of the Pod.
	autogroup int
	processes uint64
	users     map[int]bool // that ran containers
	mu        sync.Mutex   // guards sending
}

func (h *holder) say(e Event, fds ...int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return containerproc.Send(control, e, fds...)
}

func (h *holder) serve() error {
	var p Pod
	// It arrives when the plane has put this process into its control group.
	if _, err := containerproc.Receive(control, &p); err != nil {
		return err
	}
	if err := h.prepare(p); err != nil {
		return err
	}
	tcp, udp, err := network(p)
	if err != nil {
		return err
	}
	err = h.say(Event{Kind: Ready}, tcp, udp)
	// From here on the plane has them.
	if err = errors.Join(err, unix.Close(tcp), unix.Close(udp)); err != nil {
		return err
	}
	for {
		var r Request
		fds, err := containerproc.Receive(control, &r)
		if errors.Is(err, io.EOF) { // the plane has exited, and the Pod exits with process 1
			return nil
		}
		if err == nil {
			err = h.answer(r, fds)
		}
		if err != nil {
			return err
		}
	}
}

// prepare separates the namespaces of the Pod from the host's, except for the
// network.
func (h *holder) prepare(p Pod) error {
	h.autogroup, h.processes, h.users = p.Autogroup, p.PIDs, map[int]bool{}
	if err := containerproc.LowerSession("self", p.Autogroup); err != nil {
		return fmt.Errorf("lower the priority of the Pod: %w", err)
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	// Later mounts of the host are not visible here, nor mounts of the Pod there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := h.readOnly(p.Program); err != nil {
		return err
	}
	// Starting a process reads /proc/self, with the process ids of the Pod.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc (is the host's own /proc covered in part, as in a container of Docker?): %w", err)
	}
	if err := limitObjects(h.processes, 1); err != nil {
		return err
	}
	if err := h.stay(); err != nil {
		return err
	}
	if err := rootfs.Empty().Enter(); err != nil {
		return fmt.Errorf("enter an empty root: %w", err)
	}
	// Other processes of this uid must not access it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide from debuggers: %w", err)
	}
	if p.PIDs > 0 {
		// User namespaces that are created from here on have this as their limit, the
		// only one without control groups.
		l := unix.Rlimit{Cur: p.PIDs, Max: p.PIDs}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &l); err != nil {
			return fmt.Errorf("limit processes: %w", err)
		}
	}
	return nil
}

// stay creates a thread that stays in a copy of the mounts. This one, which init
// reserves, and the others leave them.
func (h *holder) stay() error {
	work, made := make(chan func()), make(chan error)
	go func() {
		runtime.LockOSThread() // as long as the holder is alive
		made <- unix.Unshare(unix.CLONE_NEWNS)
		for f := range work {
			f()
		}
	}()
	h.containers = work
	return os.NewSyscallError("unshare", <-made)
}

// readOnly mounts this program for itself, so that no container can write to it: a
// container whose program is /proc/self/exe would become this program, and have
// access to its file. A plain user owns both.
func (h *holder) readOnly(program string) error {
	if program == "" {
		return nil
	}
	low, err := unix.OpenTree(unix.AT_FDCWD, program, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("mount %s read-only: %w", program, err)
	}
	// A new process has its own descriptors in place before it executes the program of
	// this descriptor.
	fd, err := unix.FcntlInt(uintptr(low), unix.F_DUPFD_CLOEXEC, containerproc.MaxDescriptors)
	if err = errors.Join(err, unix.Close(low)); err != nil {
		return fmt.Errorf("keep %s at hand (is the limit of open files below %d?): %w", program, containerproc.MaxDescriptors+1, err)
	}
	h.file = os.NewFile(uintptr(fd), program)
	var there, running unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &there), unix.Stat(containerproc.Self, &running)); err != nil {
		return fmt.Errorf("compare %s with the running program: %w", program, err)
	}
	if there.Dev != running.Dev || there.Ino != running.Ino {
		return fmt.Errorf("the program %s was replaced since this one was started: restart it", program)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}); err != nil {
		return fmt.Errorf("mount %s read-only: %w", program, err)
	}
	h.self = fmt.Sprintf("/proc/self/fd/%d", fd)
	return nil
}

// answer executes a request of the plane. It reports what cannot be done to the
// plane; an error means that nothing more can be reported.
func (h *holder) answer(r Request, fds []int) error {
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "received")
	}
	defer func() {
		for _, f := range files {
			_ = f.Close() // the child has its own
		}
	}()
	refuse := func(err error) error { return h.say(Event{ID: r.ID, Kind: Refused, Error: containerproc.Bounded(err)}) }
	switch r.Kind {
	case MakeSocket:
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return refuse(os.NewSyscallError("socket", err))
		}
		return errors.Join(h.say(Event{ID: r.ID, Kind: Done}, fd), unix.Close(fd))
	case Run, Exec:
		if len(files) < containerproc.TreesAt || r.Kind == Exec && len(files) <= containerproc.TargetAt {
			return refuse(fmt.Errorf("only %d descriptors came: is the limit of open files reached (ulimit -n)?", len(files)))
		}
		p, pidfd, err := h.start(r, files)
		if err != nil {
			return refuse(err)
		}
		err = h.say(Event{ID: r.ID, Kind: Done}, pidfd)
		go h.wait(r.ID, p)
		return errors.Join(err, unix.Close(pidfd))
	}
	return refuse(fmt.Errorf("a request of kind %q is unknown", r.Kind))
}

// mounting are the capabilities that a nested process keeps until it has a root:
// execve drops those of all users except 0, even inside. They are for mounting, for
// emptying the bounding set, and for what an overlay does as the user that mounted
// it, since its work folder has mode 0.
var mounting = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_CHOWN}

func (h *holder) start(r Request, files []*os.File) (*os.Process, int, error) {
	pidfd := -1
	name, attr := containerproc.StartName, &syscall.SysProcAttr{PidFD: &pidfd}
	// A command gets its session later, from the process that enters the container.
	attr.Setsid = containerproc.OwnSession(h.autogroup, r.Terminal && r.Kind == Run)
	attr.Setpgid = !attr.Setsid
	if r.Kind == Run {
		attr.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
		if r.Nested {
			attr.Cloneflags |= unix.CLONE_NEWUSER
			attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: r.UID, HostID: 0, Size: 1}}
			attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: r.GID, HostID: 0, Size: 1}}
			attr.AmbientCaps = mounting
		} else { // the nested ones are one user of the Pod
			h.users[r.UID] = true
			if err := limitObjects(h.processes, len(h.users)); err != nil {
				return nil, 0, err
			}
		}
	} else {
		name, files = containerproc.EnterName, files[:containerproc.TargetAt+1]
	}
	var p *os.Process
	var err error
	begin := func() {
		p, err = os.StartProcess(h.self, []string{name}, &os.ProcAttr{Dir: "/", Env: containerproc.Environment, Files: files, Sys: attr})
	}
	if r.Kind == Run {
		done := make(chan struct{})
		h.containers <- func() { defer close(done); begin() }
		<-done
	} else {
		begin()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("start a process: %w", err)
	}
	return p, pidfd, nil
}

func (h *holder) wait(id uint64, p *os.Process) {
	e := Event{ID: id, Kind: Ended}
	state, err := p.Wait()
	if err != nil {
		e.Error = err.Error()
	} else {
		e.Code, e.Signal = containerproc.ExitCode(state)
	}
	_ = h.say(e) // or the plane has exited
}
