// SPDX-License-Identifier: Apache-2.0

// Package cli turns command lines into calls of the library and the plane. Data
// goes to stdout, messages to stderr.
package cli

import (
	"context"
	"flag"
	"io"
	"strconv"

	"filippo.io/age"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/app/planeoptions"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// Env is what a command may access in addition to its flags.
type Env struct {
	command.Env
	// StartPlane starts a management plane in this process. It is a field so
	// that tests of the commands do not link an API server; nil where none can be
	// started.
	StartPlane func(context.Context, planeoptions.Options) (Plane, error)
	// Backup and Restore save the data of a plane, and create a data directory from
	// it; nil where no plane can be started.
	Backup  func(ctx context.Context, dir, file string, recipients ...age.Recipient) (Backup, error)
	Restore func(file, dir string, dryRun bool, identities ...age.Identity) (Backup, error)
	// SetLog sends the logs of all libraries to w, up to the given level.
	SetLog func(w io.Writer, level int)
}

// SetLog sends the log of everything in the process to w.
func SetLog(w io.Writer, level int) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true", "v": strconv.Itoa(level)} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog has these flags
		}
	}
	klog.SetOutput(w)
	ctrl.SetLogger(klog.Background())
}
