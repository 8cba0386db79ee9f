// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"syscall"
	"time"
)

// The names under which this program is started again. Tools such as ps show
// them.
const (
	Name        = "capstan-container"
	FirstName   = "capstan-container-first"
	NetworkName = "capstan-container-network"
	CommandName = "capstan-container-command"
)

// SearchPath is where programs are looked for.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The files of a container's folder that a supervisor writes.
const (
	StateFile   = "state.json"
	SocketFile  = "control.sock"
	LockFile    = "lock" // locked while the supervisor lives
	ConsoleFile = "console.log"
	OlderFile   = "console.old"
)

// Run is what a supervisor runs.
type Run struct {
	// Groups are the folders of the control groups that the first process is
	// moved into; Born is that of version 2, which it is born into, "" if there
	// is none.
	Groups []string
	Born   string
	First  First
	// Network is given to this program under NetworkName, on its standard
	// input, with the network namespace of the first process as descriptor 3;
	// nil is not.
	Network json.RawMessage `json:",omitempty"`
	// StopSignal asks the first process to end.
	StopSignal int
	// ConsoleBytes is how much is kept of what it writes.
	ConsoleBytes int64
}

// First is what the first process does before it becomes the container's own.
type First struct {
	Hostname string
	// Top is a folder of the host where the root is put together; the other
	// processes of the host see nothing there.
	Top   string
	Steps []Step
	// Terminal is the path of the console's terminal on the host. The supervisor
	// sets it.
	Terminal  string
	Args, Env []string
}

// State is how far a container is, as its supervisor knows it.
type State struct {
	// Running says that the first process runs; Ended that it will not begin
	// again. Neither: it is about to begin.
	Running, Ended bool
	PID            int       `json:",omitempty"`
	Boots          int       `json:",omitempty"`
	Started        time.Time `json:",omitzero"`
	EndedAt        time.Time `json:",omitzero"`
	ExitCode       int       `json:",omitempty"`
	Message        string    `json:",omitempty"`
	HostBoot       string
}

// Request is what is asked of a supervisor by its socket, a line of JSON each.
type Request struct {
	// Stop asks the first process to end, and ends it after Grace.
	Stop  bool
	Grace time.Duration
}

// Answer is what a supervisor says on its pipe, once.
type Answer struct {
	// Error is why the first process did not begin; "" if it did.
	Error string
	// Errno is the kernel's part of it, such as that a disk is full; 0 is none.
	Errno syscall.Errno `json:",omitempty"`
}

// answerOf is what is said of an error; nil is none.
func answerOf(err error) (a Answer) {
	if err != nil {
		a.Error = err.Error()
		a.Errno, _ = errors.AsType[syscall.Errno](err)
	}
	return a
}

// Err is the error that an answer tells of, which errors.Is knows by Errno; nil if
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

const (
	// steady is how long a container must have run for its reboot to be
	// nothing but that. Ones that reboot sooner do so again and again.
	steady = 10 * time.Second
	// longestPause is the longest time between two such reboots: a loop of them
	// costs little, and one that is mended is back within that time.
	longestPause = 30 * time.Second
)

// pauseBefore is how long to wait until a container that rebooted is begun
// again: not at all, or twice as long as the last time if it did so too soon.
func pauseBefore(ran, last time.Duration) time.Duration {
	switch {
	case ran >= steady:
		return 0
	case last == 0:
		return time.Second
	default:
		return min(2*last, longestPause)
	}
}
