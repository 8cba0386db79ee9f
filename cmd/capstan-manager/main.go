// SPDX-License-Identifier: Apache-2.0

// Command capstan-manager runs Capstan's controllers in an existing cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/cli"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := cli.RunManager(ctx, &cli.Env{
		Env: command.Env{Name: filepath.Base(os.Args[0]), In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
			LookupEnv: os.LookupEnv, Now: time.Now},
		SetLog: cli.SetLog,
	}, os.Args[1:])
	stop()
	os.Exit(status)
}
