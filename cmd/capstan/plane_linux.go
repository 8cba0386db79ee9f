// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"

	"filippo.io/age"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/app/plane"
	"github.com/capstan-dev/capstan/internal/app/planeoptions"
	"github.com/capstan-dev/capstan/internal/cli"
)

// keep has the commands save and restore what planes keep.
func keep(env *cli.Env) {
	env.Backup = func(ctx context.Context, dir, file string, recipients ...age.Recipient) (cli.Backup, error) {
		b, err := plane.Backup(ctx, dir, file, recipients...)
		return cli.Backup(b), err
	}
	env.Restore = func(file, dir string, dryRun bool, identities ...age.Identity) (cli.Backup, error) {
		b, err := plane.Restore(file, dir, dryRun, identities...)
		return cli.Backup(b), err
	}
}

// planes returns what prepares the process to be a management plane and starts it.
// Other commands collect their garbage as Go does by default: a plane's floor would
// let each of them grow to 300 MiB.
func planes() func(context.Context, planeoptions.Options) (cli.Plane, error) {
	return func(ctx context.Context, o planeoptions.Options) (cli.Plane, error) {
		if os.Getenv("GOGC") == "" {
			plane.TuneHeap()
		}
		fatal := plane.CatchExits()
		o.Fatal, o.Log = fatal, klog.Background()
		p, err := plane.Start(ctx, o)
		if err != nil {
			return nil, err // not p: a nil *Plane is not a nil cli.Plane
		}
		return p, nil
	}
}
