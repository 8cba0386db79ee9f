// SPDX-License-Identifier: Apache-2.0

// Package command is what all commands of the program share: what they may
// touch, what misuse is, and which management cluster they work on.
//
// A Plugin is a program on PATH that runs as a command, as with kubectl: the program
// capstan-foo-bar is the command "capstan foo bar". Built-in commands take precedence.
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Env is what a command may access in addition to its flags.
type Env struct {
	// Name is what the program was called as: capstan or clusterctl.
	Name     string
	In       io.Reader
	Out, Err io.Writer
	// LookupEnv reads the environment.
	LookupEnv func(string) (string, bool)
	// Now returns the time.
	Now func() time.Time
	// Terminal means that Out is one, so that colors can be used.
	Terminal bool
	// Interactive means that In is a terminal with a user who can be asked.
	Interactive bool
	// Size is how many columns and lines it has; nil, or 0, where that is not known.
	Size func() (columns, lines int)

	global global
}

// Getenv reads the environment; what is not there is empty.
func (e *Env) Getenv(name string) string {
	value, _ := e.LookupEnv(name)
	return value
}

// Say writes a line for people, to stderr. What others wrote in it, such as
// the message of a condition, cannot command the terminal.
func (e *Env) Say(format string, args ...any) { e.say(e.Err, format, args) }

// Print is Say to stdout.
func (e *Env) Print(format string, args ...any) { e.say(e.Out, format, args) }

func (e *Env) say(w io.Writer, format string, args []any) {
	_, _ = fmt.Fprintln(w, sanitize.Escape(e.inName(fmt.Sprintf(format, args...))))
}

// PrintObject writes v to stdout in the format json or yaml.
func (e *Env) PrintObject(v any, format string) error {
	text, err := marshal(v, format)
	if err != nil {
		return err
	}
	_, err = e.Out.Write(text)
	return err
}

func marshal(v any, format string) ([]byte, error) {
	if format == "yaml" {
		return yaml.Marshal(v)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

// DefaultDataDir is where the plane keeps everything unless --data-dir is set;
// empty when the environment names no home.
func (e *Env) DefaultDataDir() string { return e.userData("capstan") }

// DefaultSimulatedDir is where the simulated machines of all planes of a user are
// kept, unless --simulated-dir is set; empty when the environment names no home.
func (e *Env) DefaultSimulatedDir() string { return e.userData("capstan-simulated") }

// DefaultContainersDir is where container machines and node images are kept, unless
// --containers-dir is set; empty when the environment names no home.
func (e *Env) DefaultContainersDir() string { return e.userData("capstan-containers") }

func (e *Env) userData(name string) string {
	if dir := e.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, name)
	}
	home := e.Getenv("HOME")
	if home == "" {
		return "" // up reports that --data-dir is needed
	}
	return filepath.Join(home, ".local", "share", name)
}

// UsageError causes the program to print a hint and exit with status 2.
type UsageError struct{ cause error }

func (e UsageError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.cause }

// StatusError causes the program to exit with its Status.
type StatusError struct {
	Status int
	Cause  error
}

func (e StatusError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e StatusError) Unwrap() error { return e.Cause }

// Interrupted is the cause of a context that a signal has ended.
type Interrupted struct{ Signal syscall.Signal }

func (i Interrupted) Error() string { return "interrupted by signal: " + i.Signal.String() }

// Interruptible returns a context that the first SIGINT or SIGTERM ends. A second SIGINT
// ends the program.
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go recovery.Func(context.Background(), func() {
		select {
		case s := <-signals:
			signal.Reset(syscall.SIGINT)
			cancel(Interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	})()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// Misuse returns the error for a wrong command line, and nil without a cause.
func Misuse(cause error) error {
	if cause == nil {
		return nil
	}
	return UsageError{cause}
}

// NoArgs refuses arguments as misuse.
func NoArgs(cmd *cobra.Command, args []string) error { return Misuse(cobra.NoArgs(cmd, args)) }

// RefuseEmpty refuses flags that are given without a value, as an unset variable of
// a shell gives them: they would mean the default, which the user did not request.
// With names, it checks only those.
func RefuseEmpty(flags *pflag.FlagSet, names ...string) error {
	var empty []string
	flags.Visit(func(f *pflag.Flag) {
		list, many := f.Value.(pflag.SliceValue)
		if len(names) > 0 && !slices.Contains(names, f.Name) {
			return
		}
		if f.Value.String() == "" || many && (len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")) {
			empty = append(empty, "--"+f.Name)
		}
	})
	if len(empty) > 0 {
		return Misuse(fmt.Errorf("%s without a value: give one, or leave the flag out for its default", strings.Join(empty, ", ")))
	}
	return nil
}
