// SPDX-License-Identifier: Apache-2.0

package bake

import "syscall"

// apart has a process be the first of namespaces of its own.
func apart() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Unshareflags: syscall.CLONE_NEWNS, // of both ways, the one that keeps its mounts from the host
		Setpgid:      true,                // Ctrl-C is for us, who end it in order
		Pdeathsig:    syscall.SIGKILL,     // it does not outlive us
	}, nil
}
