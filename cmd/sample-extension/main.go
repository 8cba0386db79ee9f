// SPDX-License-Identifier: Apache-2.0

// Command sample-extension is a runtime extension that answers every hook: to try,
// and to start from.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/extension/server"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample-extension:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	var o server.Options
	flags := flag.NewFlagSet("sample-extension", flag.ExitOnError)
	flags.StringVar(&o.Address, "address", server.DefaultAddress, "`host:port` to serve on; port 0 takes a free one")
	flags.StringVar(&o.CertFile, "cert-file", "", "certificate to serve with; without one, it is generated")
	flags.StringVar(&o.KeyFile, "key-file", "", "key of the certificate")
	flags.StringVar(&o.ClientCAFile, "client-ca-file", "", "authorities whose certificates clients must have")
	flags.StringVar(&o.OperationsAddress, "operations-address", "", "`host:port` for /healthz, /readyz and /metrics")
	authority := flags.String("ca-out", "", "`file` to write the generated authority to, for the registration")
	verbosity := flags.Int("v", 0, "verbosity of the log")
	showVersion := flags.Bool("version", false, "print the version of this program")
	_ = flags.Parse(args) // exits on an error
	if *showVersion {
		_, err := fmt.Println(buildinfo.Read().Line(flags.Name()))
		return err
	}
	o.Log = logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-*verbosity)}))
	s, err := newServer(o)
	if err == nil && *authority != "" {
		err = os.WriteFile(*authority, s.CABundle(), 0o644)
	}
	if err != nil {
		return err
	}
	return s.Start(ctx)
}
