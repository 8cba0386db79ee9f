// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The descriptors of the first process in addition to its terminal.
const (
	firstPlan  = 3 // where it reads what to do
	firstError = 4 // where it writes its error
)

// dropped are capabilities that no process of a container has: they affect the
// whole host, and no program expects them in a container.
var dropped = []uintptr{unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_TIME}

// first creates the root of a container and becomes its first process. It returns
// only on failure.
func first() int {
	unix.CloseOnExec(firstError)
	if err := become(); err != nil {
		_, _ = io.WriteString(os.NewFile(firstError, "error"), err.Error()) // or the supervisor notices the exit
	}
	return 1
}

func become() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tie the first process to its supervisor: %w", err)
	}
	// If the supervisor has exited already, nothing can be read.
	plan := os.NewFile(firstPlan, "plan")
	var f First
	if err := json.NewDecoder(plan).Decode(&f); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	if err := plan.Close(); err != nil {
		return err
	}
	// Not earlier: the root of the groups that a container sees is the current group
	// of the process, and on version 1 the process was moved.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	if err := unix.Sethostname([]byte(f.Hostname)); err != nil {
		return fmt.Errorf("set the hostname: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	if err := f.Root.Enter(); err != nil {
		return err
	}
	for _, c := range dropped {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	err := unix.Exec(f.Args[0], f.Args, f.Env)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("run %s: it, or the interpreter or loader that it names, is not in Root", f.Args[0])
	}
	return fmt.Errorf("run %s: %w", f.Args[0], err)
}

// loopbackUp sets the link lo up, which every program expects.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }() // nothing was sent
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}
