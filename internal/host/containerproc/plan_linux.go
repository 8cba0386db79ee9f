// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

// The names under which this program is started again. Tools such as ps show them.
const (
	StartName = "capstan-container-first"
	EnterName = "capstan-container-command"
)

// Environment is the environment of this program when it is started under another
// name, not that of the program that it executes. It has almost no heap, which must
// not grow to twice the size at its start; and the runtime must not open files of the
// host's control groups, which a fork in a container would have.
var Environment = []string{"GOGC=20", "GODEBUG=containermaxprocs=0"}

// Self is this program, even if its file has been replaced since.
const Self = "/proc/self/exe"

// The descriptors of a process that becomes a container or a command, in addition
// to its own.
const (
	planAt   = 3 // the value there is complete when the control groups are entered
	toldAt   = 4 // an answer; closed without one when the program runs
	TreesAt  = 5 // of a container: its mounts
	TargetAt = 5 // of a command: the container
)

// NotBegun is the exit code of a process that did not execute its program: its
// answer has the reason.
const NotBegun = 125

// Plan is what a container or a command executes.
type Plan struct {
	Args, Env []string
	Dir       string
	Terminal  bool // its standard input
	Rights    Rights
	// Root is that of a container. Hostname and the loopback of a container in the
	// profile machine are its own.
	Root     rootfs.Root
	Hostname string
	// Groups are folders of control groups of version 1 that a command enters.
	Groups []string
	Trial  bool // exits without error when everything has been created
}

// longestPlan is far above all arguments and variables that a kernel accepts.
const longestPlan = 8 << 20

// ReadPlan reads one value from a pipe. The pipe may stay open.
func ReadPlan(from *os.File, v any) error {
	in := &io.LimitedReader{R: from, N: longestPlan}
	err := json.NewDecoder(in).Decode(v)
	if in.N == 0 {
		err = fmt.Errorf("arguments, variables and files are over %d bytes", longestPlan)
	}
	if err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	return nil
}

// Answer is what a process writes to its pipe, at most once.
type Answer struct {
	// Error is why it did not start; "" if it did.
	Error string
	// Errno is the kernel's error, for example that a disk is full; 0 is none.
	Errno syscall.Errno `json:",omitempty"`
}

// longestError is how much of an error is forwarded: JSON may write a byte as six.
const longestError = 2 << 10

// WriteAnswer writes the answer for an error, which may be nil.
func WriteAnswer(to *os.File, err error) error {
	var a Answer
	if err != nil {
		a.Error = Bounded(err)
		a.Errno, _ = errors.AsType[syscall.Errno](err)
	}
	return json.NewEncoder(to).Encode(a)
}

// Bounded returns the start of the text of an error.
func Bounded(err error) string {
	s := err.Error()
	return s[:min(len(s), longestError)]
}

// Err returns the error in an answer, which errors.Is matches by Errno; nil if
// there is none.
func (a Answer) Err() error {
	if a.Error == "" {
		return nil
	}
	return &answered{a}
}

// answered is an error of another process.
type answered struct{ Answer }

func (a *answered) Error() string { return a.Answer.Error }

func (a *answered) Unwrap() error {
	if a.Errno == 0 {
		return nil
	}
	return a.Errno
}

// Pipes connect a process to the one that starts it.
type Pipes struct {
	Plan, Told    *os.File // of the one that starts it
	Given, Answer *os.File // of the other one
}

// NewPipes creates pipes.
func NewPipes() (p *Pipes, err error) {
	p = &Pipes{}
	if p.Given, p.Plan, err = os.Pipe(); err == nil {
		p.Told, p.Answer, err = os.Pipe()
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("create a pipe: %w", err)
	}
	return p, nil
}

// Passed closes the ends of the other process, which has its own.
func (p *Pipes) Passed() { _ = errors.Join(p.Given.Close(), p.Answer.Close()) }

// Close closes all ends. It may be called again.
func (p *Pipes) Close() {
	for _, f := range []*os.File{p.Plan, p.Told, p.Given, p.Answer} {
		_ = f.Close() // nil, twice, or everything was read
	}
}

// Send sends a plan.
func (p *Pipes) Send(plan any) error {
	if err := json.NewEncoder(p.Plan).Encode(plan); err != nil {
		return fmt.Errorf("send what to run: %w", err)
	}
	return nil
}

// Await waits for the answer. It returns io.EOF if there is none: the process
// executes its program, or was killed.
func (p *Pipes) Await() error {
	var a Answer
	if err := json.NewDecoder(io.LimitReader(p.Told, 2*MaxMessage)).Decode(&a); err != nil {
		return err
	}
	return a.Err()
}

// Run sends a plan and waits until the process executes its program, or was killed.
// Its answer is better than the error that it did not read.
func (p *Pipes) Run(plan any) error {
	err := p.Send(plan)
	if answer := p.Await(); !errors.Is(answer, io.EOF) {
		return answer
	}
	return err
}

// ExitCode returns the exit code of a process, or 128 and its signal.
func ExitCode(state *os.ProcessState) (code, signal int) {
	if how := state.Sys().(syscall.WaitStatus); how.Signaled() {
		return 128 + int(how.Signal()), int(how.Signal())
	}
	return state.ExitCode(), 0
}

// closeOnExec closes the descriptors that this process was given when it executes a
// program.
func closeOnExec() {
	for fd := planAt; fd < planAt+MaxDescriptors; fd++ {
		unix.CloseOnExec(fd)
	}
}
