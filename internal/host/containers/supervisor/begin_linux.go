// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

const (
	// networkTimeout ends the program that sets up a network: it needs some
	// milliseconds, and nothing that it waits for takes seconds.
	networkTimeout = 30 * time.Second
	// longestError is how much of its error message is forwarded.
	longestError = 4 << 10
)

// begin starts the first process and returns when it executes the container's own
// program.
func (s *supervisor) begin() (_ *os.Process, err error) {
	pipes, err := containerproc.NewPipes()
	if err != nil {
		return nil, err
	}
	defer pipes.Close()
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
	p, err := os.StartProcess(containerproc.Self, []string{containerproc.StartName}, &os.ProcAttr{
		Dir: "/", Env: containerproc.Environment, Sys: attr, Files: []*os.File{s.slave, s.slave, s.slave, pipes.Given, pipes.Answer},
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
	pipes.Passed()
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
	first := s.run.First
	first.Root.Steps = append(slices.Clip(first.Root.Steps), rootfs.Step{Op: rootfs.Bind, Target: "/dev/console", Source: s.slave.Name()})
	return p, pipes.Run(first)
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
	cmd := &exec.Cmd{Path: containerproc.Self, Args: []string{NetworkName}, Env: []string{}, Dir: "/", Stdin: bytes.NewReader(s.run.Network), ExtraFiles: []*os.File{ns}}
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start what sets up the network: %w", err)
	}
	timer := time.AfterFunc(networkTimeout, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		said := bytes.ToValidUTF8(bytes.TrimSpace(text.Next(longestError)), []byte("?"))
		return fmt.Errorf("set up the network: %s (%w)", said, err)
	}
	return nil
}
