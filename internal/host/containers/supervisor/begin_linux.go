// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/host/containers/cgroups"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

// self is this program, even if its file has been replaced since.
const self = "/proc/self/exe"

const (
	// networkTimeout ends the program that sets up a network: it needs some
	// milliseconds, and nothing that it waits for takes seconds.
	networkTimeout = 30 * time.Second
	// longestError is how much of a child's error message is forwarded.
	longestError = 4 << 10
)

// begin starts the first process and returns when it executes the container's own
// program.
func (s *supervisor) begin() (_ *os.Process, err error) {
	plan, told, err := pipes()
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(plan.close(), told.close()) }() // only the child uses these ends, and it has its own
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	if s.run.Born != "" {
		group, err := os.Open(s.run.Born)
		if err != nil {
			return nil, fmt.Errorf("open control group: %w", err)
		}
		defer func() { _ = group.Close() }() // nothing was written
		attr.UseCgroupFD, attr.CgroupFD = true, int(group.Fd())
	}
	p, err := os.StartProcess(self, []string{FirstName}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Sys: attr, Files: []*os.File{s.slave, s.slave, s.slave, plan.r, told.w},
	})
	if err != nil {
		return nil, fmt.Errorf("start the first process: make its namespaces: %w", err)
	}
	defer func() {
		if err != nil {
			_ = p.Kill() // it may have exited
			_, _ = p.Wait()
		}
	}()
	_ = errors.Join(plan.r.Close(), told.w.Close())
	for _, dir := range s.run.Groups {
		if dir == s.run.Born {
			continue
		}
		if err := cgroups.EnterDir(dir, p.Pid); err != nil {
			return nil, err
		}
	}
	if err := s.network(p.Pid); err != nil {
		return nil, err
	}
	f := s.run.First
	f.Root.Steps = append(f.Root.Steps, rootfs.Step{Op: rootfs.Bind, Target: "/dev/console", Source: s.terminal})
	err = errors.Join(json.NewEncoder(plan.w).Encode(f), plan.w.Close())
	// Its end of the pipe is closed when it executes another program. Its message is
	// better than the error that it did not read.
	text, rerr := io.ReadAll(io.LimitReader(told.r, longestError))
	if len(text) > 0 {
		return p, errors.New(string(text))
	}
	if err = errors.Join(err, rerr); err != nil {
		return p, fmt.Errorf("send instructions to the first process: %w", err)
	}
	return p, nil
}

// network sets up the network of the first process, in a separate program.
func (s *supervisor) network(pid int) error {
	if len(s.run.Network) == 0 {
		return nil
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("open the network namespace of the first process: %w", err)
	}
	defer func() { _ = ns.Close() }() // nothing was written
	in, out, err := pipes()
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(in.close(), out.close()) }() // the child has its own
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }() // nothing was written
	p, err := os.StartProcess(self, []string{NetworkName}, &os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{in.r, null, out.w, ns}})
	if err != nil {
		return fmt.Errorf("start what sets up the network: %w", err)
	}
	timer := time.AfterFunc(networkTimeout, func() { _ = p.Kill() })
	defer timer.Stop()
	_ = errors.Join(in.r.Close(), out.w.Close())
	_, werr := in.w.Write(s.run.Network)
	werr = errors.Join(werr, in.w.Close())
	text, rerr := io.ReadAll(io.LimitReader(out.r, longestError))
	state, err := p.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("wait for what sets up the network: %w", err)
	case !state.Success():
		return fmt.Errorf("set up the network: %s", strings.TrimSpace(string(bytes.ToValidUTF8(text, []byte("?")))+" ("+state.String()+")"))
	}
	return errors.Join(werr, rerr)
}

// pipe is both ends of one.
type pipe struct{ r, w *os.File }

func (p pipe) close() error { return errors.Join(p.r.Close(), p.w.Close()) }

func pipes() (a, b pipe, err error) {
	a.r, a.w, err = os.Pipe()
	if err != nil {
		return a, b, fmt.Errorf("make a pipe: %w", err)
	}
	b.r, b.w, err = os.Pipe()
	if err != nil {
		return a, b, errors.Join(fmt.Errorf("make a pipe: %w", err), a.close())
	}
	return a, b, nil
}
