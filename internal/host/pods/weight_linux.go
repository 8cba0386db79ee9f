// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
)

// Processes of images get less of the processors than the plane, if both need them:
//
//	root                        groupWeight, of all Pods together
//	plain user, control groups  nice 19 and SCHED_BATCH, of each process
//	plain user, autogroups      sessionNice, of each Pod
//
// Every process has nice 19 and SCHED_BATCH; alone they have an effect only between
// processes of one group or session. A holder has the plane's nice value: it does only
// what the plane requests, and a command of a probe must start soon.
const (
	// groupWeight of all Pods is a third of the weight of any other group, such as that of
	// all system services: probes must be answered while the plane uses all processors. A
	// tenth and a third were measured: requests to the plane were equally fast.
	groupWeight = 33
	// sessionNice gives the session of each Pod about a tenth of the weight of the plane's:
	// 110 and 1024. Several Pods have several sessions.
	sessionNice = 10
)

// autogrouped reports whether the kernel weighs sessions: it does so for processes in
// the root of the control groups of the processors.
func autogrouped() bool {
	on, err := os.ReadFile("/proc/sys/kernel/sched_autogroup_enabled")
	if err != nil || strings.TrimSpace(string(on)) != "1" {
		return false
	}
	groups, err := cgroups.Detect()
	if err != nil {
		return true // there are none
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	return err == nil && !groups.Weighed(string(own))
}

// processBudget is how many processes all Pods may have together: half of those that
// the plane's user may have, so that the plane always gets the others.
func processBudget(rootless bool) (int64, error) {
	var lowest int64 = math.MaxInt64
	for _, file := range []string{"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, fmt.Errorf("read the limit of processes: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the limit of processes of %s: %w", file, err)
		}
		lowest = min(lowest, n)
	}
	if !rootless { // root has no limit
		return lowest / 2, nil
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		return 0, fmt.Errorf("read the limit of processes: %w", os.NewSyscallError("getrlimit", err))
	}
	if l.Cur < uint64(lowest) {
		lowest = int64(l.Cur)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, fmt.Errorf("read the limit of processes: %w", err)
	}
	if groups, err := cgroups.Detect(); err == nil {
		lowest = min(lowest, groups.MaxPIDs(string(own)))
	}
	return lowest / 2, nil
}
