// SPDX-License-Identifier: Apache-2.0

// Command probe is what runs in the sandboxes of tests: each argument is a thing
// to do.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var deeds = map[string]func(args []string) error{
	"echo":   func(args []string) error { _, err := fmt.Println(strings.Join(args, " ")); return err },
	"stderr": func(args []string) error { _, err := fmt.Fprintln(os.Stderr, strings.Join(args, " ")); return err },
	"exit":   func([]string) error { os.Exit(7); return nil },
	"sleep":  func([]string) error { time.Sleep(time.Hour); return nil },
	"env":    func([]string) error { _, err := fmt.Println(strings.Join(os.Environ(), "\n")); return err },
	"cat": func(args []string) error {
		if len(args) == 0 {
			_, err := io.Copy(os.Stdout, os.Stdin)
			return err
		}
		for _, a := range args {
			b, err := os.ReadFile(a)
			if err != nil {
				return err
			}
			if _, err := os.Stdout.Write(b); err != nil {
				return err
			}
		}
		return nil
	},
	"write": func(args []string) error { return os.WriteFile(args[0], []byte("written"), 0o600) },
	"status": func([]string) error {
		b, err := os.ReadFile("/proc/self/status")
		fmt.Printf("Pid:\t%d\n%s", os.Getpid(), b)
		return err
	},
	"ids": func([]string) error {
		groups, err := os.Getgroups()
		fmt.Println(os.Getpid(), os.Getuid(), os.Getgid(), groups)
		return err
	},
	"owner": func(args []string) error {
		var st syscall.Stat_t
		err := syscall.Stat(args[0], &st)
		fmt.Println(st.Uid, st.Gid)
		return err
	},
	"size": func([]string) error { // of its terminal, until its input ends
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, os.Stdin)
			ended <- err
		}()
		var last [4]uint16
		for {
			var now [4]uint16
			if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&now))); e != 0 {
				return e
			}
			if now != last {
				last = now
				fmt.Println(now[0], now[1])
			}
			select {
			case err := <-ended:
				return err
			case <-time.After(time.Millisecond):
			}
		}
	},
	"processes": func([]string) error {
		all, err := os.ReadDir("/proc")
		n := 0
		for _, p := range all {
			if strings.Trim(p.Name(), "0123456789") == "" {
				n++
			}
		}
		fmt.Println(n)
		return err
	},
	"fill": func(args []string) error {
		f, err := os.Create(args[0])
		if err != nil {
			return err
		}
		for range 64 {
			if _, err := f.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
		return nil
	},
	"files": func(args []string) error { // without content
		for n := range 1 << 20 {
			f, err := os.Create(args[0] + "/" + strconv.Itoa(n))
			if err != nil {
				return err
			}
			f.Close()
		}
		return nil
	},
	"lookuptcp": func(args []string) error {
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, a string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", a)
		}}
		ips, err := r.LookupHost(context.Background(), args[0])
		fmt.Println(ips)
		return err
	},
	"datagram": func(args []string) error {
		c, err := net.Dial("udp", args[0])
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("hello"))
		return err
	},
	"baddns": func([]string) error {
		for _, network := range []string{"udp", "tcp"} {
			c, err := net.Dial(network, "10.96.0.10:53")
			if err != nil {
				return err
			}
			for _, b := range []string{"\x00\x01x", "\xff\xff", "\x00\x00", strings.Repeat("x", 4000)} {
				_, _ = c.Write([]byte(b))
			}
			c.Close()
		}
		return nil
	},
	"term": func([]string) error {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGUSR1)
		fmt.Println("ready")
		if <-c == syscall.SIGUSR1 {
			fmt.Println("asked by another signal")
			return nil
		}
		fmt.Println("asked to end")
		return nil
	},
	"stubborn": func([]string) error {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour)
		return nil
	},
	"flood": func([]string) error {
		line := strings.Repeat("x", 1023) + "\n"
		for range 8 << 10 {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return err
			}
		}
		_, err := fmt.Println("last")
		return err
	},
	"memory": func([]string) error {
		var all [][]byte
		for range 1 << 10 {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
		}
		fmt.Println("kept", len(all))
		return nil
	},
	"forks": func([]string) error {
		for n := 0; ; n++ {
			c := exec.Command("/proc/self/exe", "sleep")
			if err := c.Start(); err != nil {
				fmt.Println("stopped after", n, err)
				return nil
			}
			if n > 5000 {
				return fmt.Errorf("nothing stops it")
			}
		}
	},
	"inotify": func([]string) error { // takes all instances that it gets, until its input ends
		n := 0
		for ; n < 1<<16; n++ {
			if _, err := syscall.InotifyInit(); err != nil {
				break
			}
		}
		fmt.Println("took", n)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	},
	"inflight": func([]string) error { // sends all descriptors that it may, until its input ends
		n, many, err := 0, make([]int, 250), error(nil)
		for err != syscall.ETOOMANYREFS {
			var pair [2]int
			if pair, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0); err != nil {
				return err
			}
			for err == nil { // until the socket is full
				if err = syscall.Sendmsg(pair[0], []byte("x"), syscall.UnixRights(many...), nil, 0); err == nil {
					n += len(many)
				}
			}
		}
		fmt.Println("sent", n)
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	},
	"threads": func(args []string) error { // so many, for an hour
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		var started sync.WaitGroup
		for range n {
			started.Add(1)
			go func() {
				runtime.LockOSThread()
				started.Done()
				time.Sleep(time.Hour)
			}()
		}
		started.Wait()
		fmt.Println("has all")
		time.Sleep(time.Hour)
		return nil
	},
	"serve": func(args []string) error {
		if len(args) > 1 {
			signal.Ignore(syscall.SIGTERM)
		}
		l, err := net.Listen("tcp", args[0])
		if err != nil {
			return err
		}
		fmt.Println("listening")
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	},
	"dial": func(args []string) error {
		c, err := net.DialTimeout("tcp", args[0], 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		line, err := bufio.NewReader(c).ReadString('\n')
		fmt.Print(line)
		return err
	},
	"dialmany": func(args []string) error {
		reset, open := 0, 0
		var all []net.Conn
		for range 300 {
			c, err := net.DialTimeout("tcp", args[0], 5*time.Second)
			if err != nil {
				reset++
				continue
			}
			all = append(all, c)
		}
		answers := make(chan bool)
		for _, c := range all {
			go func() {
				_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
				_, err := c.Read(make([]byte, 1))
				e, ok := err.(net.Error)
				answers <- ok && e.Timeout()
			}()
		}
		for range all {
			if <-answers {
				open++
			} else {
				reset++
			}
		}
		fmt.Println("open", open, "reset", reset)
		return nil
	},
	"lookup": func(args []string) error {
		ips, err := net.LookupHost(args[0])
		fmt.Println(ips)
		return err
	},
	"follow": func(args []string) error { // prints a file each time that it changes
		last := ""
		for {
			b, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			if string(b) != last {
				last = string(b)
				fmt.Println(last)
			}
			time.Sleep(time.Millisecond)
		}
	},
	"escape": escape,
	"race":   race,
	"weight": weight,
	"raise":  raise,
}

func main() {
	deed := deeds[os.Args[1]]
	if deed == nil {
		fmt.Fprintln(os.Stderr, "no such deed:", os.Args[1])
		os.Exit(2)
	}
	if err := deed(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
		os.Exit(1)
	}
}
