// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// inotifyShare is the part of the host's limits for one user, such as root, that the
// users of a Pod get: a sixteenth is 8 of the 128 instances that kernels have.
const inotifyShare = 16

// limitObjects limits the kernel objects of the Pod that the host counts for the
// plane's user. The kernel counts them for each user of the Pod, so the limit of
// inotify decreases with each user that runs containers; existing objects of a user
// are kept.
func limitObjects(processes uint64, users int) error {
	limits := map[string]uint64{
		"fanotify_groups": 0, "fanotify_marks": 0,
		// The Pod has its own.
		"ipc_namespaces": 0, "net_namespaces": 0, "time_namespaces": 0, "uts_namespaces": 0,
		// The holder creates these, for processes.
		"cgroup_namespaces": processes, "mnt_namespaces": processes, "pid_namespaces": processes, "user_namespaces": processes,
	}
	for _, name := range []string{"instances", "watches"} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
		if err != nil {
			return fmt.Errorf("read the host's limit of inotify: %w", err)
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil {
			return fmt.Errorf("read the host's limit of inotify: %w", err)
		}
		limits["inotify_"+name] = max(n/inotifyShare/uint64(users), 1)
	}
	for name, n := range limits {
		// Kernels without such objects have no such file.
		err := os.WriteFile("/proc/sys/user/max_"+name, strconv.AppendUint(nil, n, 10), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("limit kernel objects of the Pod: %w", err)
		}
	}
	return nil
}
