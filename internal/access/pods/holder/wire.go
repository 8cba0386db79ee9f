// SPDX-License-Identifier: Apache-2.0

package holder

// The names under which this program is started again. Tools such as ps show
// them.
const (
	Name          = "capstan-pod"
	ContainerName = "capstan-pod-container"
	EnterName     = "capstan-pod-enter"
)

// Environment is that of this program when it is started under these names, and not
// of what it becomes. It has next to no heap, which is not to grow to twice that of a
// start.
var Environment = []string{"GOGC=20"}

// MaxMessage is the size of the longest message: the longest that is sent is an
// error, and all that has no bound goes through a pipe.
const MaxMessage = 16 << 10

// Pod is the first message to a holder, which says what to make of its fresh
// namespaces.
type Pod struct {
	Hostname string
	Address  [4]byte
	// Program is the path of this program, which is mounted again read-only;
	// "" starts it as it is.
	Program string
	// PIDs is how many processes a user of the Pod may have.
	PIDs uint64
	// Autogroup is the nice value of the sessions of the Pod among all sessions of
	// the host; 0 leaves them.
	Autogroup int
}

// What a Request asks for.
const (
	// MakeSocket is answered with a fresh TCP socket of the Pod.
	MakeSocket = "socket"
	// Run starts a container. It comes with Stdin, stdout, stderr, the pipe of
	// its Plan, that of what it says if it fails, and its mounts. It is answered
	// twice: with a pidfd, and with its end.
	Run = "run"
	// Exec starts a command in a container. It comes with the same, and the
	// pidfd of the container in place of mounts.
	Exec = "exec"
)

// Request is what the plane asks of a holder.
type Request struct {
	ID       uint64
	Kind     string
	UID, GID int
	// Nested gives it a user namespace in which it has UID and GID: a plain
	// user has no other ids.
	Nested bool
	// Terminal is that of its Plan.
	Terminal bool
}

// What an Event tells.
const (
	Ready   = "ready" // with the sockets of TCP and DNS
	Done    = "done"  // a request: with what it asked for
	Ended   = "ended" // what it started: with Code and Signal
	Refused = "refused"
)

// Event is what a holder says.
type Event struct {
	ID           uint64
	Kind         string
	Error        string `json:",omitempty"`
	Code, Signal int    `json:",omitempty"`
}

// Plan is what a container or a command becomes. It begins when its pipe ends.
type Plan struct {
	Args, Env []string
	Dir       string
	UID, GID  int
	Groups    []int
	Nested    bool
	Terminal  bool
	PIDs      uint64
	Autogroup int // of its Pod
	ReadOnly  bool
	Scratch   int64
	Files     map[string][]byte // of /etc
	Root      Mount
	Mounts    []Mount
	Trial     bool // ends when all is made, with no error
}

// Mount is a folder or file of a container.
type Mount struct {
	// Descriptor is that of a detached mount, counted from 0 among those given;
	// -1 mounts Source, or else a Tmpfs of so many bytes.
	Descriptor      int
	Source, SubPath string
	Tmpfs           int64
	// Message makes it the file of the container's last message, whose descriptor is sent
	// by the socket that Descriptor is.
	Message  bool
	Target   string
	ReadOnly bool
}
