// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
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

// raising are the limits that would let a program raise its weight.
var raising = [...]int{unix.RLIMIT_NICE, unix.RLIMIT_RTPRIO}

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
