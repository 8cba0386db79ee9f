// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containers/cgroups"
)

// The descriptors of a process that runs a command in a container, in addition to
// those of the command.
const (
	commandPlan   = 3 // where it reads a Command; end of file ends the command
	commandResult = 4 // where it writes a Result
	commandTarget = 5 // the first process of the container
)

// Command is what a process started under CommandName runs in a container.
type Command struct {
	// Groups are the folders of the control groups that it enters; it is started in
	// that of version 2.
	Groups    []string
	Args, Env []string
}

// Result is how a command ended.
type Result struct {
	Error string // why it did not start; "" if it did
	Code  int    // its exit code, or 128 and the number of its signal
}

// command enters a container and runs a command there. It runs in a separate
// process: the launcher could send only one of its threads, and killing the
// processes in the groups of the container would end the launcher.
func command() int {
	unix.CloseOnExec(commandPlan)
	unix.CloseOnExec(commandResult)
	unix.CloseOnExec(commandTarget)
	code, err := runCommand()
	r := Result{Code: code}
	if err != nil {
		r.Error = err.Error()
	}
	_ = json.NewEncoder(os.NewFile(commandResult, "result")).Encode(r) // or the launcher notices the exit
	return 0
}

func runCommand() (int, error) {
	var c Command
	plan := os.NewFile(commandPlan, "plan")
	if err := json.NewDecoder(plan).Decode(&c); err != nil {
		return 0, fmt.Errorf("read what to run: %w", err)
	}
	for _, dir := range c.Groups {
		if err := cgroups.EnterDir(dir, os.Getpid()); err != nil {
			return 0, err
		}
	}
	// The runtime must not create threads from this one: the kernel refuses threads of
	// a thread whose children get other namespaces.
	runtime.LockOSThread()
	// A thread that shares its root with others cannot change it.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return 0, fmt.Errorf("part from the other threads: %w", err)
	}
	const all = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP
	if err := unix.Setns(commandTarget, all); err != nil {
		return 0, fmt.Errorf("enter its namespaces: %w", err)
	}
	if err := unix.Close(commandTarget); err != nil {
		return 0, err
	}
	if err := dropRights(); err != nil {
		return 0, err
	}
	program, err := lookUp(c.Args[0])
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(program, c.Args, &os.ProcAttr{
		Dir: "/", Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(io.Discard, plan) // the launcher writes nothing more
		_ = p.Kill()                     // it may have exited
	}()
	state, err := p.Wait()
	if err != nil {
		return 0, err
	}
	how := state.Sys().(syscall.WaitStatus)
	if how.Signaled() {
		return 128 + int(how.Signal()), nil
	}
	return how.ExitStatus(), nil
}

// dropRights drops the capabilities that no process of a container has from this
// thread: the command is in the container, where it can be traced, before it
// executes its program.
func dropRights() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&head, &rights[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for _, c := range dropped {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
		of, bit := &rights[c/32], uint32(1)<<(c%32)
		of.Effective, of.Permitted, of.Inheritable = of.Effective&^bit, of.Permitted&^bit, of.Inheritable&^bit
	}
	if err := unix.Capset(&head, &rights[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// lookUp finds a program as seen from this thread.
func lookUp(program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for dir := range strings.SplitSeq(SearchPath, ":") {
		file := path.Join(dir, program)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("it is in none of %s", SearchPath)
}
