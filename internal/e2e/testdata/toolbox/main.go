// SPDX-License-Identifier: Apache-2.0

// Command toolbox is what the tests of kubectl find in a container: the first of its
// arguments is what to do. Called tar, it is as much of tar as kubectl cp needs.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var deeds = map[string]func(args []string) error{
	"echo": func(args []string) error { _, err := fmt.Println(strings.Join(args, " ")); return err },
	"cat": func(args []string) error {
		if len(args) == 0 {
			_, err := io.Copy(os.Stdout, os.Stdin)
			return err
		}
		for _, name := range args {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			_, _ = os.Stdout.Write(b)
		}
		return nil
	},
	"exit": func(args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "I return", n)
		os.Exit(n)
		return nil
	},
	"write": func(args []string) error { // a file, with the other arguments
		return os.WriteFile(args[0], []byte(strings.Join(args[1:], " ")), 0o666)
	},
	"remove": func(args []string) error { return os.Remove(args[0]) },
	"exists": func(args []string) error { _, err := os.Stat(args[0]); return err },
	"terminal": func([]string) error { // whether its input is one
		_, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		fmt.Println("a terminal:", err == nil)
		return nil
	},
	"listen": func([]string) error { // to its input, until that ends
		fmt.Println("listening")
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Println("heard", lines.Text())
			fmt.Fprintln(os.Stderr, "noted", lines.Text())
		}
		fmt.Println("all heard")
		return lines.Err()
	},
	"count": func(args []string) error { // so many lines, and then one for each file that appears
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		for i := range n {
			fmt.Println("line", i+1)
		}
		fmt.Fprintln(os.Stderr, "counted")
		for i := n + 1; ; i++ {
			name := fmt.Sprint("/state/", i)
			for os.Remove(name) != nil {
				time.Sleep(20 * time.Millisecond)
			}
			fmt.Println("line", i)
		}
	},
	"last":      func(args []string) error { return last(args[0]) },
	"processes": processes,
	"serve":     serve,
	"lookup":    lookup,
	"dial": func(args []string) error { // what an address answers, or why it does not
		c, err := net.DialTimeout("tcp", args[0], time.Minute)
		if err == nil {
			_, err = io.WriteString(c, "hello\n\n")
		}
		if err == nil { // a reset is reported once, by whichever call comes first
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = io.Copy(os.Stdout, c)
		}
		fmt.Println(err)
		return nil
	},
}

// last leaves a message, and fails.
func last(file string) error {
	if err := os.WriteFile(file, []byte("the message"), 0o666); err != nil {
		return err
	}
	return fmt.Errorf("the line")
}

// farewell writes the signal by which it is ended to the file.
func farewell(args []string) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGUSR1)
	return os.WriteFile(args[0], []byte("ended by "+(<-asked).String()), 0o666)
}

// processes are those of the container, by their arguments.
func processes([]string) error {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		b, _ := os.ReadFile(name)
		fmt.Println(strings.ReplaceAll(string(b), "\x00", " "))
	}
	return err
}

func main() {
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "tar" {
		args = append([]string{"tar"}, args...)
	}
	if len(args) == 0 {
		args = []string{"serve"}
	}
	deed := deeds[args[0]]
	if args[0] == "tar" {
		deed = archive
	}
	if deed == nil {
		fmt.Fprintln(os.Stderr, "no such deed:", args[0])
		os.Exit(2)
	}
	if err := deed(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
