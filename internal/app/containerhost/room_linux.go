// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// limitOfInstances is where the kernel says how many instances of inotify all
// processes of a user may have.
const limitOfInstances = "/proc/sys/fs/inotify/max_user_instances"

// room says why this user cannot have so many instances of inotify more. Nobody
// tells how many there are, so it tries.
func room(instances int) (err error) {
	for have := range instances {
		fd, failed := unix.InotifyInit1(unix.IN_CLOEXEC)
		if errors.Is(failed, unix.EMFILE) {
			limit, _ := os.ReadFile(limitOfInstances) // it only makes the message better
			return fmt.Errorf("the host has %d instances of inotify left, and it needs %d: set the sysctl fs.inotify.max_user_instances to 1024 or more (it is %s), or delete other machines", have, instances, strings.TrimSpace(string(limit)))
		}
		if failed != nil {
			return fmt.Errorf("make an inotify instance: %w", failed)
		}
		defer func() { err = errors.Join(err, unix.Close(fd)) }() // not before all were made
	}
	return nil
}
