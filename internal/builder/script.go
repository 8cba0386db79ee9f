// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Home gives a script a home, and the program first on its PATH: under the name
// capstan, and under others.
func Home(env *testscript.Env, program string, others ...string) error {
	home, bin := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "bin")
	env.Setenv("HOME", home)
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
	err := errors.Join(os.Mkdir(home, 0o700), os.Mkdir(bin, 0o700))
	for _, name := range append(others, "capstan") {
		err = errors.Join(err, os.Symlink(program, filepath.Join(bin, name)))
	}
	return err
}

// Exits is the command of scripts "exits STATUS PROGRAM ARGS...", which runs a
// program that must end with the status.
func Exits(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

const (
	untilTimeout = 10 * time.Minute // only a fault waits that long
	untilPeriod  = 100 * time.Millisecond
)

// Until is the command of scripts "until PATTERN PROGRAM ARGS...", which runs a
// program again and again until what it prints has a line like that.
func Until(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM ARGS...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(untilTimeout); ; <-time.After(untilPeriod) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q in %s, error %v", args[0], untilTimeout, err)
		}
	}
}
