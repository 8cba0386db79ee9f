// SPDX-License-Identifier: Apache-2.0

package nodeimages

import "syscall"

// apart makes a process the first one of separate namespaces.
func apart() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Unshareflags: syscall.CLONE_NEWNS, // this way keeps its mounts from the host, unlike Cloneflags
		Setpgid:      true,                // Ctrl-C is handled by this process, which stops it in order
		Pdeathsig:    syscall.SIGKILL,     // it is killed when this process exits
	}, nil
}
