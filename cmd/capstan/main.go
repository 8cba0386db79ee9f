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
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/app/plane"
	"github.com/capstan-dev/capstan/internal/cli"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func main() {
	// Kubernetes' libraries register flags of their own programs, which cobra
	// would offer with every command.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	ctx, stop := command.Interruptible(context.Background())
	if os.Getenv("GOGC") == "" {
		plane.TuneHeap()
	}
	fatal := plane.CatchExits()
	status := cli.Run(ctx, &cli.Env{
		Env: command.Env{Name: filepath.Base(os.Args[0]), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
			Now: time.Now, Terminal: term.IsTerminal(int(os.Stdout.Fd()))},
		SetLog: cli.SetLog,
		StartPlane: func(ctx context.Context, o cli.PlaneOptions) (cli.Plane, error) {
			p, err := plane.Start(ctx, plane.Options{
				Dir: o.Dir, SimulatedDir: o.SimulatedDir, Listen: o.Listen, EtcdServers: o.EtcdServers, EtcdCAFile: o.EtcdCAFile, EtcdCertFile: o.EtcdCertFile,
				EtcdKeyFile: o.EtcdKeyFile, EtcdPrefix: o.EtcdPrefix, Providers: o.Providers, FeatureGates: o.FeatureGates, SkipMigration: o.SkipMigration, MetricsAddress: o.MetricsAddress,
				ExtensionClientCertFile: o.ExtensionClientCertFile, ExtensionClientKeyFile: o.ExtensionClientKeyFile, TracingEndpoint: o.TracingEndpoint,
				PprofAddress: o.PprofAddress, InsecureDiagnostics: o.InsecureDiagnostics, Version: o.Version, Flags: o.Flags, Fatal: fatal, Progress: o.Progress, Log: klog.Background(),
			})
			if err != nil {
				return nil, err // not p: a nil *Plane is not a nil cli.Plane
			}
			return p, nil
		},
	}, os.Args[1:])
	stop()
	os.Exit(status)
}
