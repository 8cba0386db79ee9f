// SPDX-License-Identifier: Apache-2.0

package planeproc

import "syscall"

func exitWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
