// SPDX-License-Identifier: Apache-2.0

package holder

// Name is the name under which this program is started again. Tools such as ps show
// it.
const Name = "capstan-pod"

// Pod is the first message to a holder, with the configuration of its new
// namespaces.
type Pod struct {
	Hostname string
	Address  [4]byte
	// Endpoints, a network of the loopback with its mask, and EndpointsPort are where
	// simulated clusters of the host can listen: TCP to them goes to the plane's relay.
	Endpoints, EndpointsMask [4]byte
	EndpointsPort            uint16
	// Program is the path of this program, which is mounted again read-only; if "", it
	// is started as it is.
	Program string
	// PIDs is how many processes a user of the Pod may have.
	PIDs uint64
	// Autogroup is the nice value of the sessions of the Pod among all sessions of the
	// host; 0 leaves them unchanged.
	Autogroup int
}

// The kinds of a Request.
const (
	// MakeSocket requests a new TCP socket of the Pod.
	MakeSocket = "socket"
	// Run starts a container. It has the descriptors Stdin, stdout, stderr, the pipe
	// of its Plan, that of its error, and its mounts. It has two answers: a pidfd, and
	// the end.
	Run = "run"
	// Exec starts a command in a container. It has the same descriptors, with the
	// pidfd of the container instead of mounts.
	Exec = "exec"
)

// Request is a request of the plane to a holder.
type Request struct {
	ID       uint64
	Kind     string
	UID, GID int
	// Nested gives it a user namespace in which it has UID and GID: a plain user has
	// no other ids.
	Nested bool
	// Terminal is that of its Plan.
	Terminal bool
}

// The kinds of an Event.
const (
	Ready   = "ready" // with the sockets of TCP and DNS
	Done    = "done"  // a request: with its result
	Ended   = "ended" // a process: with Code and Signal
	Refused = "refused"
)

// Event is a message of a holder.
type Event struct {
	ID           uint64
	Kind         string
	Error        string `json:",omitempty"`
	Code, Signal int    `json:",omitempty"`
}
