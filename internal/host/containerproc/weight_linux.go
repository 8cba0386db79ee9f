// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// niceness is the nice value of every process of an image: the lowest weight
	// that the kernel gives to a process, 15 where the plane has 1024.
	niceness = 19
	// autogroupRetry is a fraction of the 100 ms for which the kernel refuses a second
	// unprivileged write of the nice value of a session, of any process of the host.
	autogroupRetry = 20 * time.Millisecond
)

// lowest is the nice value and the policy of every process of an image. With
// SCHED_BATCH its processes do not preempt others when they become runnable.
var lowest = unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH, Nice: niceness}

// limit is a limit of a program, which cannot raise it.
type limit struct {
	which uintptr
	unix.Rlimit
}

// limitsOf returns the limits of a program of a Pod: it can neither raise its weight nor
// use up what its user has, which in a plain user's plane is the user of the plane, too.
func limitsOf(r Rights) ([]limit, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	// A process cannot send a descriptor while more than this are sent and not received by
	// all processes of its user. The limit of the plane and its shims is twice as high.
	files.Max /= 2
	files.Cur = min(files.Cur, files.Max)
	all := []limit{{which: unix.RLIMIT_NICE}, {which: unix.RLIMIT_RTPRIO}, {unix.RLIMIT_NOFILE, files}}
	if r.PIDs > 0 {
		all = append(all, limit{unix.RLIMIT_NPROC, unix.Rlimit{Cur: r.PIDs, Max: r.PIDs}})
	}
	return all, nil
}

// LowerSession sets the nice value of the session of a process (an id, or self) among
// all sessions of the host, which the kernel uses where processes have no control group
// with the controller cpu.
func LowerSession(process string, nice int) error {
	if nice == 0 {
		return nil
	}
	for {
		err := os.WriteFile("/proc/"+process+"/autogroup", []byte(strconv.Itoa(nice)), 0)
		if !errors.Is(err, unix.EAGAIN) {
			return err
		}
		time.Sleep(autogroupRetry)
	}
}

// OwnSession reports whether a process gets its own session. A session that the kernel
// weighs is shared by all processes of a Pod, except for one with a terminal.
func OwnSession(autogroup int, terminal bool) bool { return autogroup == 0 || terminal }
