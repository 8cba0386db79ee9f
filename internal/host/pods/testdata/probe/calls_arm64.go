// SPDX-License-Identifier: Apache-2.0

package main

const (
	bpfOffset                                                                                       = 280 - 167
	sysPerf, sysUserfaultfd, sysKeyctl, sysAddKey, sysInitModule, sysOpenByHandle, sysSetns uintptr = 241, 282, 219, 217, 105, 265, 268
	sysProcessVMReadv, sysProcessVMWritev, sysKcmp, sysNameToHandle, sysFanotifyInit        uintptr = 270, 271, 272, 264, 262
	sysRequestKey, sysKexecLoad                                                             uintptr = 218, 104
)
