// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/planeoptions"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pki"
)

// Plane is a management plane that runs in this process.
type Plane interface {
	Addr() string
	Kubeconfig() string
	Err() <-chan error
	Stop(context.Context) error
}

type upOptions struct {
	planeoptions.Options
	join      string   // a file with the address and keys of the store
	given     []string // which of Flags the command line has
	arguments []string // that start the same plane in the foreground
	detach    bool
	logFile   string
	verbosity int
	reportFD  int
}

func newUp(env *Env, run func(context.Context, *Env, upOptions) error) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the management plane",
		Long: `Start the management plane: an API server with its store, the definitions of
Cluster API, and all controllers, in one process. It runs until it is
interrupted, or in the background with --detach. Its state is in the data
directory: a later "up" on the same directory continues from it.

If a plane runs already, --detach succeeds if that plane has the same flags, and
fails otherwise.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd); err != nil {
				return err
			}
			if o.join != "" && len(o.Etcd.Servers) > 0 {
				return command.Misuse(errors.New("--join says where the store is: leave out --etcd-servers"))
			}
			if err := o.absolute(); err != nil {
				return err
			}
			o.Version = buildinfo.Read().Version
			o.Flags, o.given, o.arguments = flagsOf(cmd)
			return run(cmd.Context(), env, o)
		},
	}
	o.Providers, o.ContainerNamespaces, o.Listen = controllers.PlaneProviders(), []string{metav1.NamespaceDefault}, "127.0.0.1:6443"
	o.SimulatedDir, o.ContainersDir = env.DefaultSimulatedDir(), env.DefaultContainersDir()
	dataDirFlag(cmd, env, &o.Dir)
	f := cmd.Flags()
	o.AddFlags(f)
	f.BoolVarP(&o.detach, "detach", "d", false, "run in the background; return when ready")
	f.StringVar(&o.join, "join", "", "share the store of other planes: the file \"join\" of the data directory of one of them, which has their keys")
	f.StringVar(&o.logFile, "log-file", "", "file for the log, \"-\" for stderr (default DATA-DIR/capstan.log)")
	f.IntVarP(&o.verbosity, "verbosity", "v", 0, "level of the log: 0 changes, 2 decisions, 4 details")
	f.IntVar(&o.reportFD, "report-fd", 0, "file descriptor that the background process reports its start to")
	_ = f.MarkHidden("report-fd")
	return cmd
}

// absolute converts paths for processes that run in another directory, such as a later
// "logs".
func (o *upOptions) absolute() (err error) {
	for what, path := range map[string]*string{"data directory": &o.Dir, "directory of simulated machines": &o.SimulatedDir, "directory of container machines": &o.ContainersDir, "file to join by": &o.join, "log file": &o.logFile} {
		if (*path == "" || *path == "-") && path != &o.Dir {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find %s: %w", what, err)
		}
	}
	return nil
}

// flagsOf returns the flags of a plane, with the defaults, which of them were given, and
// the command line that starts the same plane in the foreground.
func flagsOf(cmd *cobra.Command) (all map[string]string, given, arguments []string) {
	all, arguments = map[string]string{}, []string{cmd.Name()}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, is := f.Value.(pflag.SliceValue); is {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch f.Name {
		case "detach", "report-fd", "help":
			return
		}
		if f.Name == "data-dir" { // first, so that a list of processes shows which plane it is
			arguments = slices.Insert(arguments, 1, "--data-dir="+value)
			return
		}
		if value != "" {
			arguments = append(arguments, "--"+f.Name+"="+value)
		}
		all[f.Name] = f.Value.String()
		if f.Changed {
			given = append(given, f.Name)
		}
	})
	return all, given, arguments
}

func runUp(ctx context.Context, env *Env, o upOptions) error {
	if env.StartPlane == nil {
		return fmt.Errorf("this program is for %s/%s and has no management plane in it, only its client: run `capstan up` on Linux, and name that plane here with --kubeconfig", runtime.GOOS, runtime.GOARCH)
	}
	if o.detach {
		return detach(ctx, env, o)
	}
	report := env.reporter(o.reportFD)
	for {
		again, err := o.runOnce(ctx, env, report)
		if !again {
			return err
		}
		env.Say("Starting the management plane again, to wait for its turn: %v", err)
	}
}

// runOnce runs a plane until it ends. One that was the leader and was deposed must
// start again, at the same address.
func (o *upOptions) runOnce(ctx context.Context, env *Env, report reporter) (again bool, err error) {
	begin := time.Now()
	p, err := startPlane(ctx, env, *o, report)
	if err != nil && ctx.Err() != nil { // other errors follow from that
		err = fmt.Errorf("stopped before the management plane was ready: %w", context.Cause(ctx))
	}
	if err != nil {
		report.failed(err)
		return false, err
	}
	report.ready(fmt.Sprintf("Management plane ready after %s at https://%s, kubeconfig %s", time.Since(begin).Round(100*time.Millisecond), p.Addr(), p.Kubeconfig()))
	timeout := lifecycle.StopTimeout
	select {
	case err = <-p.Err():
		if again = errors.Is(err, lifecycle.ErrDeposed); again {
			timeout = lifecycle.DeposedTimeout
		}
	case <-ctx.Done():
		env.Say("Stopping the management plane")
	}
	// Who led and was deposed was cut off from etcd, and may be for long.
	o.Listen, o.AwaitEtcd = p.Addr(), true
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	stopped := p.Stop(stopping)
	// Controllers of one that was cut off hang in their calls, and end by an error. What
	// matters is that all has ended.
	return again && stopping.Err() == nil, errors.Join(err, stopped)
}

func startPlane(ctx context.Context, env *Env, o upOptions, report reporter) (Plane, error) {
	if err := datadir.Make(datadir.Dir(o.Dir)); err != nil {
		return nil, err
	}
	if err := env.openLog(o); err != nil {
		return nil, err
	}
	if o.join != "" {
		var err error
		if o.Etcd, err = pki.UseJoinFile(o.join, datadir.Dir(o.Dir)); err != nil {
			return nil, err
		}
	}
	o.Progress = report.progress
	return env.StartPlane(ctx, o.Options)
}

// openLog opens the destination of the log.
func (e *Env) openLog(o upOptions) error {
	if o.logFile == "-" {
		e.SetLog(e.Err, o.verbosity)
		return nil
	}
	// Never closed: what still runs when the program ends may log.
	f, err := os.OpenFile(o.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	e.SetLog(f, o.verbosity)
	return nil
}

func (o upOptions) log() string {
	if o.logFile != "" {
		return o.logFile
	}
	return datadir.Dir(o.Dir).Log()
}
