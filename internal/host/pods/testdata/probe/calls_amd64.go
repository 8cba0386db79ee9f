// SPDX-License-Identifier: Apache-2.0

package main

const (
	bpfOffset                                                                                       = 321 - 157
	sysPerf, sysUserfaultfd, sysKeyctl, sysAddKey, sysInitModule, sysOpenByHandle, sysSetns uintptr = 298, 323, 250, 248, 175, 304, 308
	sysProcessVMReadv, sysProcessVMWritev, sysKcmp, sysNameToHandle, sysFanotifyInit        uintptr = 310, 311, 312, 303, 300
	sysRequestKey, sysKexecLoad                                                             uintptr = 249, 246
)
