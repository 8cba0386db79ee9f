// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "syscall"

// dieWithParent is not available here: a killed test leaves its plane behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
