// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/controller/crdmigrator"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

// PlaneOptions define the management plane to start.
type PlaneOptions struct {
	Dir, SimulatedDir, ContainersDir, Listen          string
	EtcdServers                                       []string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile, EtcdPrefix string
	// AwaitEtcd has the start wait for EtcdServers that do not answer.
	AwaitEtcd                                       bool
	Providers                                       []string
	FeatureGates                                    controllers.Gates
	Sync                                            nodesync.Additional
	SkipMigration                                   crdmigrator.Phases
	MetricsAddress, PprofAddress                    string
	InsecureDiagnostics, UpdateInPlace              bool
	PodsReachHost                                   bool
	ContainerNamespaces                             []string
	ExtensionClientCertFile, ExtensionClientKeyFile string
	TracingEndpoint                                 string
	Version                                         string
	Flags                                           map[string]string
	Progress                                        func(string)
}

// Plane is a management plane that runs in this process.
type Plane interface {
	Addr() string
	Kubeconfig() string
	Err() <-chan error
	Stop(context.Context) error
}

type upOptions struct {
	PlaneOptions
	join      string   // a file with the address and keys of the store
	given     []string // which of Flags the command line has
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
			if o.join != "" && len(o.EtcdServers) > 0 {
				return command.Misuse(errors.New("--join says where the store is: leave out --etcd-servers"))
			}
			if err := o.absolute(); err != nil {
				return err
			}
			o.Version = buildinfo.Read().Version
			o.Flags, o.given = flagsOf(cmd)
			return run(cmd.Context(), env, o)
		},
	}
	dataDirFlag(cmd, env, &o.Dir)
	f := cmd.Flags()
	f.StringVar(&o.SimulatedDir, "simulated-dir", env.DefaultSimulatedDir(), "folder that keeps simulated machines, for all planes of this host: a cluster can move between those that share it")
	f.StringVar(&o.ContainersDir, "containers-dir", env.DefaultContainersDir(), "folder that keeps container machines and node images; root alone can run such machines, and one plane at a time those of a folder")
	f.StringSliceVar(&o.ContainerNamespaces, "container-namespaces", []string{metav1.NamespaceDefault}, containerNamespacesHelp)
	f.BoolVar(&o.PodsReachHost, "pods-reach-host", false, "let Pods connect to the addresses of this host's interfaces, except loopback and link-local addresses")
	f.BoolVar(&o.UpdateInPlace, "update-in-place", false, "upgrade the Kubernetes of container machines where they are, as far as kubeadm can, and replace none for it")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:6443", "address of the API server; port 0 takes a free one")
	f.BoolVarP(&o.detach, "detach", "d", false, "run in the background; return when ready")
	f.StringSliceVar(&o.EtcdServers, "etcd-servers", nil, "URLs of an etcd to use instead of the embedded one; several planes may, see --join")
	f.StringVar(&o.join, "join", "", "share the store of other planes: the file \"join\" of the data directory of one of them, which has their keys")
	f.StringVar(&o.EtcdCAFile, "etcd-cafile", "", "certificate authority of --etcd-servers")
	f.StringVar(&o.EtcdCertFile, "etcd-certfile", "", "client certificate for --etcd-servers")
	f.StringVar(&o.EtcdKeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	f.StringVar(&o.EtcdPrefix, "etcd-prefix", "", "prefix of all keys in --etcd-servers (default /registry)")
	f.StringSliceVar(&o.Providers, "providers", nil, "controllers to run (default core,kubeadm,local,certificates)")
	f.Var(&o.FeatureGates, "feature-gates", controllers.GatesUsage)
	syncFlags(f, &o.Sync)
	f.Var(&o.SkipMigration, "skip-crd-migration-phases", crdmigrator.Usage)
	f.StringVar(&o.MetricsAddress, "metrics-address", "", "address to serve metrics of the controllers on; by TLS, with authentication by a token")
	f.StringVar(&o.PprofAddress, "pprof-address", "", "address to serve profiles on; by TLS, with authentication by a token")
	f.BoolVar(&o.InsecureDiagnostics, "insecure-diagnostics", false, "serve metrics and profiles in the clear and without authentication")
	f.StringVar(&o.ExtensionClientCertFile, "runtime-extension-client-cert-file", "", "client certificate for runtime extensions; read again when it changes")
	f.StringVar(&o.ExtensionClientKeyFile, "runtime-extension-client-key-file", "", "key of --runtime-extension-client-cert-file")
	f.StringVar(&o.TracingEndpoint, "tracing-endpoint", "", "host:port, or URL, to send traces to by OTLP over gRPC (default: none)")
	f.StringVar(&o.logFile, "log-file", "", "file for the log, \"-\" for stderr (default DATA-DIR/capstan.log)")
	f.IntVarP(&o.verbosity, "verbosity", "v", 0, "level of the log: 0 changes, 2 decisions, 4 details")
	f.IntVar(&o.reportFD, "report-fd", 0, "file descriptor that the background process reports its start to")
	_ = f.MarkHidden("report-fd")
	return cmd
}

const containerNamespacesHelp = "namespaces in which container machines can be created, \"*\" for all, or \"none\": users who can create them there can take over this host"

// absolute converts paths for a process that runs in another directory.
func (o *upOptions) absolute() (err error) {
	for what, path := range map[string]*string{"data directory": &o.Dir, "directory of simulated machines": &o.SimulatedDir, "directory of container machines": &o.ContainersDir, "file to join by": &o.join} {
		if *path == "" && path != &o.Dir {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find %s: %w", what, err)
		}
	}
	return nil
}

// flagsOf returns the flags of a plane, with the defaults, and which of them were
// given.
func flagsOf(cmd *cobra.Command) (all map[string]string, given []string) {
	all = map[string]string{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "data-dir", "detach", "report-fd", "help": // these do not configure the running plane
			return
		}
		all[f.Name] = f.Value.String()
		if f.Changed {
			given = append(given, f.Name)
		}
	})
	return all, given
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
		s, err := pki.UseJoinFile(o.join, datadir.Dir(o.Dir))
		if err != nil {
			return nil, err
		}
		o.EtcdServers, o.EtcdPrefix, o.EtcdCAFile, o.EtcdCertFile, o.EtcdKeyFile = s.Servers, s.Prefix, s.CAFile, s.CertFile, s.KeyFile
	}
	o.Progress = report.progress
	return env.StartPlane(ctx, o.PlaneOptions)
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

// args is the command line that starts the same plane in the foreground.
func (o upOptions) args() []string {
	args := []string{"up", "--data-dir=" + o.Dir, "--listen=" + o.Listen, "--verbosity=" + strconv.Itoa(o.verbosity)}
	for _, f := range []struct{ name, value string }{
		{"simulated-dir", o.SimulatedDir}, {"containers-dir", o.ContainersDir}, {"container-namespaces", strings.Join(o.ContainerNamespaces, ",")},
		{"etcd-servers", strings.Join(o.EtcdServers, ",")}, {"etcd-cafile", o.EtcdCAFile}, {"etcd-certfile", o.EtcdCertFile},
		{"etcd-keyfile", o.EtcdKeyFile}, {"etcd-prefix", o.EtcdPrefix}, {"join", o.join}, {"providers", strings.Join(o.Providers, ",")}, {"feature-gates", o.FeatureGates.String()},
		{"skip-crd-migration-phases", o.SkipMigration.String()},
		{"additional-sync-machine-labels", o.Sync.Labels.String()}, {"additional-sync-machine-annotations", o.Sync.Annotations.String()},
		{"metrics-address", o.MetricsAddress}, {"pprof-address", o.PprofAddress}, {"log-file", o.logFile},
		{"runtime-extension-client-cert-file", o.ExtensionClientCertFile}, {"runtime-extension-client-key-file", o.ExtensionClientKeyFile},
		{"tracing-endpoint", o.TracingEndpoint},
	} {
		if f.value != "" {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	if o.InsecureDiagnostics {
		args = append(args, "--insecure-diagnostics")
	}
	if o.PodsReachHost {
		args = append(args, "--pods-reach-host")
	}
	if o.UpdateInPlace {
		args = append(args, "--update-in-place")
	}
	return args
}
