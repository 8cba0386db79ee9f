// SPDX-License-Identifier: Apache-2.0

// Command capstan runs management planes and manages clusters with them.
package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/capstan-dev/capstan/internal/cli"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func main() {
	// Kubernetes' libraries register flags of their own programs, which cobra
	// would offer with every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	ctx, stop := command.Interruptible(context.Background())
	env := &cli.Env{
		Env: command.Env{Name: filepath.Base(os.Args[0]), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv,
			Now: time.Now, Terminal: term.IsTerminal(int(os.Stdout.Fd())), Size: terminalSize, Interactive: term.IsTerminal(int(os.Stdin.Fd()))},
		SetLog:     cli.SetLog,
		StartPlane: planes(),
	}
	keep(env)
	status := cli.Run(ctx, env, os.Args[1:])
	stop()
	os.Exit(status)
}

// terminalSize is that of stdout; 0 where it is no terminal.
func terminalSize() (columns, lines int) {
	columns, lines, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}
