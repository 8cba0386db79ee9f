// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containerproc"
)

// answerPipe is the descriptor on which a supervisor answers.
const answerPipe = 3

// shutdownGrace is the grace period of a container when the host shuts down: less
// than the 90 s that hosts give their services.
const shutdownGrace = 30 * time.Second

func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		os.Exit(supervise())
	}
}

// supervisor supervises one container. It starts processes in the main thread,
// which exists as long as the process: the kernel ends a first process with the
// thread that started it.
type supervisor struct {
	run     Run
	lock    *os.File      // stays open
	slave   *os.File      // the container's end of the console
	drained chan struct{} // closed when all output has been stored
	stop    chan time.Duration

	mu      sync.Mutex // guards the fields below
	state   State
	changed chan struct{} // closed when state changes
}

func supervise() int {
	// One supervisor runs for each container, so it must be small.
	runtime.GOMAXPROCS(1)
	answer := os.NewFile(answerPipe, "answer")
	unix.CloseOnExec(answerPipe)
	s := &supervisor{stop: make(chan time.Duration, 1), changed: make(chan struct{})}
	if err := s.prepare(); err != nil {
		_ = containerproc.WriteAnswer(answer, err) // the launcher may have exited
		return 1
	}
	return s.boots(answer)
}

// prepare creates everything that stays the same between boots.
func (s *supervisor) prepare() error {
	// Before the lock: a supervisor whose launcher was killed exits here, and must not
	// hold the lock even for a moment when the next launcher starts another one.
	err := containerproc.ReadPlan(os.Stdin, &s.run)
	if err != nil {
		return err // the launcher exited before it sent the plan
	}
	if s.lock, err = lock(LockFile); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	boot, err := HostBoot()
	if err != nil {
		return err
	}
	// The state of an earlier run is obsolete. From here on there is a file that can
	// be written without more space.
	if err := s.set(func(st *State) { st.HostBoot = boot }); err != nil {
		return fmt.Errorf("write how far it is: %w", err)
	}
	master, slave, err := openConsoleTerminal()
	if err != nil {
		return err
	}
	s.slave = slave
	log := openConsole(s.run.ConsoleBytes)
	s.drained = make(chan struct{})
	go func() {
		defer close(s.drained)
		_, _ = io.Copy(log, master) // it ends when no process has the terminal open
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-ended
		s.askToStop(shutdownGrace)
	}()
	return nil
}

// HostBoot returns the identifier of this boot of the host.
func HostBoot() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot of the host: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// lock takes a lock that the kernel releases when this process exits.
func lock(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the container: %w", err)
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the container: another supervisor has it: %w", err), f.Close())
	}
	return f, nil
}

// Alive reports whether a supervisor holds the lock of a container's folder.
func Alive(file string) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only opened for the check
	l := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("ask who has %s: %w", file, err)
	}
	return l.Type != unix.F_UNLCK, nil
}

// boots runs the container until it ends.
func (s *supervisor) boots(answer *os.File) int {
	var pause time.Duration
	for boot := 1; ; boot++ {
		p, err := s.begin()
		if err == nil {
			s.note(func(st *State) {
				st.Running, st.PID, st.Started = true, p.Pid, time.Now()
				st.Boots++
			})
		}
		if boot == 1 {
			_ = errors.Join(containerproc.WriteAnswer(answer, err), answer.Close()) // the launcher may have exited
		}
		if err != nil {
			return s.end(State{Message: err.Error(), ExitCode: 1})
		}
		began := time.Now()
		how, asked, err := s.await(p)
		ran := time.Since(began)
		if err != nil {
			return s.end(State{Message: err.Error(), ExitCode: 1})
		}
		// Processes left in its groups would block the next boot.
		err = s.emptyGroups()
		if err == nil && !asked && how.Signaled() && how.Signal() == syscall.SIGHUP { // the kernel's sign of a reboot
			pause = pauseBefore(ran, pause)
			s.note(func(st *State) { st.Running, st.PID = false, 0 })
			if !s.stoppedWithin(pause) {
				continue
			}
			asked = true
		}
		return s.end(ending(how, asked, err))
	}
}

// ending returns the state after a first process that ended permanently.
func ending(how syscall.WaitStatus, asked bool, err error) State {
	var end State
	switch {
	case how.Exited():
		end.ExitCode = how.ExitStatus()
	case how.Signal() == syscall.SIGINT: // the kernel's sign that it powered off
	default:
		end.ExitCode = 128 + int(how.Signal())
	}
	switch {
	case err != nil:
		end.Message = err.Error()
	case asked:
	case how.Exited():
		end.Message = fmt.Sprintf("its first process returned %d", how.ExitStatus())
	case how.Signal() == syscall.SIGINT:
		end.Message = "it powered off"
	default:
		end.Message = fmt.Sprintf("its first process was ended by signal %d (%s)", int(how.Signal()), how.Signal())
	}
	return end
}

// lastOutput is how long the end waits for the console output to be stored: it is
// available unless the disk hangs.
const lastOutput = 2 * time.Second

// end records how the container ended.
func (s *supervisor) end(how State) int {
	_ = s.slave.Close() // no other process has the terminal open now
	select {
	case <-s.drained:
	case <-time.After(lastOutput):
	}
	s.note(func(st *State) {
		st.Running, st.Ended, st.PID, st.EndedAt = false, true, 0, time.Now()
		st.ExitCode, st.Message = how.ExitCode, how.Message
	})
	return how.ExitCode & 0x7f
}

func (s *supervisor) emptyGroups() error {
	var errs []error
	for _, dir := range s.run.Groups {
		errs = append(errs, cgroups.Empty(dir))
	}
	return errors.Join(errs...)
}

// await waits until a first process exits, and stops it on request.
func (s *supervisor) await(p *os.Process) (how syscall.WaitStatus, asked bool, err error) {
	type result struct {
		state *os.ProcessState
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		state, err := p.Wait()
		ended <- result{state, err}
	}()
	var over <-chan time.Time
	for {
		select {
		case r := <-ended:
			if r.err != nil {
				return 0, asked, fmt.Errorf("wait for the first process: %w", r.err)
			}
			return r.state.Sys().(syscall.WaitStatus), asked, nil
		case grace := <-s.stop:
			asked = true
			if grace <= 0 {
				_ = p.Kill() // it may have exited
				continue
			}
			over = time.After(grace)
			_ = p.Signal(syscall.Signal(s.run.StopSignal)) // it may have exited
		case <-over:
			_ = p.Kill() // it may have exited
		}
	}
}

// stoppedWithin waits, and reports whether a stop was requested meanwhile.
func (s *supervisor) stoppedWithin(d time.Duration) bool {
	select {
	case <-s.stop:
		return true
	default:
	}
	if d == 0 {
		return false
	}
	select {
	case <-s.stop:
		return true
	case <-time.After(d):
		return false
	}
}

// askToStop sends a stop request to the main thread. The newest request counts: a
// shorter grace period replaces a longer one.
func (s *supervisor) askToStop(grace time.Duration) {
	for {
		select {
		case s.stop <- grace:
			return
		default:
		}
		select {
		case <-s.stop:
		default:
		}
	}
}
