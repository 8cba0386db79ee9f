// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"time"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
)

// The names under which this program is started again. Tools such as ps show them.
const (
	Name        = "capstan-container"
	NetworkName = "capstan-container-network"
)

// The files that a supervisor writes to a container's folder.
const (
	StateFile   = "state.json"
	SocketFile  = "control.sock"
	LockFile    = "lock" // locked while the supervisor is alive
	ConsoleFile = "console.log"
	OlderFile   = "console.old"
)

// Run is what a supervisor runs.
type Run struct {
	// Groups are the folders of the control groups into which the first process is
	// moved.
	Groups []string
	Born   string // the one of version 2 in which the process is started; "" if there is none
	// First is the first process, without its console.
	First containerproc.Plan
	// Network is passed to this program under NetworkName, on its standard input, with
	// the network namespace of the first process as descriptor 3; if nil, no network
	// is set up.
	Network json.RawMessage `json:",omitempty"`
	// StopSignal asks the first process to exit.
	StopSignal int
	// ConsoleBytes is how much of its output is stored.
	ConsoleBytes int64
}

// State is the state of a container as its supervisor reports it.
type State struct {
	// Running is true while the first process runs, Ended when it will not start
	// again. If neither is true, it is about to start.
	Running, Ended bool
	PID            int       `json:",omitempty"`
	Boots          int       `json:",omitempty"`
	Started        time.Time `json:",omitzero"`
	EndedAt        time.Time `json:",omitzero"`
	ExitCode       int       `json:",omitempty"`
	Message        string    `json:",omitempty"`
	HostBoot       string
}

// Request is a request to a supervisor through its socket, one line of JSON each.
type Request struct {
	// Stop asks the first process to exit, and kills it after Grace.
	Stop  bool
	Grace time.Duration
}

const (
	// steady is how long a container must have run so that its reboot is treated as an
	// ordinary one. Containers that reboot sooner tend to do so repeatedly.
	steady = 10 * time.Second
	// longestPause is the longest time between two such reboots: a loop of them costs
	// little, and a container that is fixed restarts within that time.
	longestPause = 30 * time.Second
)

// pauseBefore returns how long to wait before a rebooted container is restarted:
// not at all, or twice as long as the last time if it rebooted too soon.
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
