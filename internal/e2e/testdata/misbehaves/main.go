// SPDX-License-Identifier: Apache-2.0

// Command misbehaves does in a container what its first argument names, and without
// one serves HTTP on port 8080 as a good one would. It ends at the time in the
// variable UNTIL, in seconds since 1970, and so do all processes that it starts.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var deeds = map[string]func(args []string) error{
	"serve": func(args []string) error {
		return http.ListenAndServe(args[0], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	},
	"hog": func([]string) error { // all memory
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
		}
	},
	"fork": func([]string) error { // as many processes as there may be, each of which does the same
		for full := false; ; {
			if exec.Command("/proc/self/exe", "fork").Start() == nil {
				continue
			}
			if !full {
				full = true
				fmt.Println(noMore)
			}
			time.Sleep(time.Millisecond)
		}
	},
	"write": func([]string) error { // lines without end
		line := strings.Repeat("x", 1023) + "\n"
		for {
			if _, err := io.WriteString(os.Stdout, line); err != nil {
				return err
			}
		}
	},
	"connect": func(args []string) error { // connections without end, all of them kept
		var all []net.Conn
		for {
			if c, err := net.Dial("tcp", args[0]); err == nil {
				all = append(all, c)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
	},
	"fill": func(args []string) error { // a folder, until nothing more fits
		f, err := os.Create(filepath.Join(args[0], "filled"))
		if err != nil {
			return err
		}
		b := make([]byte, 1<<20)
		for {
			if _, err := f.Write(b); err != nil {
				return err
			}
		}
	},
}

// noMore is what is printed when the limit of processes is reached.
const noMore = "the limit of processes is reached"

func main() {
	if until := os.Getenv("UNTIL"); until != "" {
		seconds, err := strconv.ParseInt(until, 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, "UNTIL:", err)
			os.Exit(1)
		}
		time.AfterFunc(time.Until(time.Unix(seconds, 0)), func() { os.Exit(0) })
	}
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"serve", ":8080"}
	}
	if err := deeds[args[0]](args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, args[0]+":", err)
		os.Exit(1)
	}
}
