// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package planeproc

import "syscall"

// exitWithParent is not available here: a killed test leaves its plane behind.
func exitWithParent() *syscall.SysProcAttr { return nil }
