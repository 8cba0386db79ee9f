// SPDX-License-Identifier: Apache-2.0

// Program foreign is an API server with its store and without Capstan, as any
// cluster has one: no definitions, no webhooks, no conversion. Tests of
// capstan-manager run next to it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/mgmtplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run keeps everything under dir, and prints when it is ready.
func run(ctx context.Context, dir string) error {
	s := &services{}
	p, err := mgmtplane.Start(ctx, mgmtplane.Options{Dir: dir, Listen: "127.0.0.1:0", Dial: s.dial})
	if err != nil {
		return err
	}
	s.config.Store(p.Config())
	fmt.Println("ready")
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.StopTimeout)
	defer cancel()
	return p.Stop(stopping)
}
