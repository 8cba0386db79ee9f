// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// limitOfInstances is the kernel's limit of inotify instances of all processes of a
// user.
const limitOfInstances = "/proc/sys/fs/inotify/max_user_instances"

// room returns an error if this user cannot create so many more inotify instances.
// The kernel does not report the current number, so it tries.
func room(instances int) (err error) {
	for have := range instances {
		fd, failed := unix.InotifyInit1(unix.IN_CLOEXEC)
		if errors.Is(failed, unix.EMFILE) {
			limit, _ := os.ReadFile(limitOfInstances) // only for a better message
			return fmt.Errorf("the host has %d instances of inotify left, and it needs %d: set the sysctl fs.inotify.max_user_instances to 1024 or more (it is %s), or delete other machines", have, instances, strings.TrimSpace(string(limit)))
		}
		if failed != nil {
			return fmt.Errorf("make an inotify instance: %w", failed)
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }() // after all were created
	}
	return nil
}
