// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// rlimitNice is the limit of priorities.
const rlimitNice = 13

// weight prints the nice value and the policy of this process and of a child, and
// the nice value of its session, which not all kernels have.
func weight([]string) error {
	if len(os.Args) == 2 {
		child := exec.Command("/proc/self/exe", "weight", "child")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Run(); err != nil {
			return err
		}
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)       // from the third on
	const niceAt, policyAt = 16, 38 // the 19th and the 41st
	fmt.Printf("nice %s policy %s", f[niceAt], f[policyAt])
	if session, err := os.ReadFile("/proc/self/autogroup"); err == nil {
		_, nice, _ := strings.Cut(strings.TrimSpace(string(session)), " ")
		fmt.Printf(" session %s", nice)
	}
	fmt.Println()
	return nil
}

// raise attempts to get a higher weight, and prints which attempts succeed.
func raise([]string) error {
	for _, attempt := range []struct {
		name string
		do   func() error
	}{
		{"nice", func() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, -5) }},
		{"a little nice", func() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, 18) }},
		{"nice of the user", func() error { return syscall.Setpriority(syscall.PRIO_USER, 0, 18) }},
		{"limit", func() error { return syscall.Setrlimit(rlimitNice, &syscall.Rlimit{Cur: 20, Max: 20}) }},
		{"real time", func() error { return call(syscall.SYS_SCHED_SETSCHEDULER, 0, 1, pointer("\x01\x00\x00\x00")) }},
		{"session of its own", func() error {
			cmd := exec.Command("/proc/self/exe", "weight", "child")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := cmd.CombinedOutput()
			if err == nil {
				fmt.Printf("a session of its own: %s", out)
			}
			return err
		}},
		{"the session's", func() error { return rewrite("/proc/self/autogroup", "0") }},
		{"a thread's session", func() error { return rewrite(fmt.Sprintf("/proc/%d/task/%d/autogroup", os.Getpid(), os.Getpid()), "0") }},
	} {
		if err := attempt.do(); err == nil {
			fmt.Println("raised:", attempt.name)
		} else if errors.Is(err, syscall.ENOSYS) {
			return err
		}
	}
	return nil
}
