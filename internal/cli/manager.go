// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/install"
	"github.com/capstan-dev/capstan/internal/app/manager"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

type managerOptions struct {
	kubeconfig string
	install    bool
	inventory  bool
	service    string
	manager    manager.Options
}

// RunManager executes a command line of capstan-manager and returns the exit
// status as Run does.
func RunManager(ctx context.Context, env *Env, args []string) int {
	env.Out = &output{Writer: env.Out}
	cmd := newManager(env)
	showVersion(cmd)
	cmd.SetArgs(args)
	cmd.SetOut(env.Out)
	cmd.SetErr(env.Err)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return command.Misuse(err) })
	return exitStatus(env, cmd, cmd.ExecuteContext(ctx))
}

func newManager(env *Env) *cobra.Command {
	var o managerOptions
	var verbosity int
	var ignored func() []string
	cmd := &cobra.Command{
		Use:   env.Name,
		Short: "Run Capstan's controllers against a Kubernetes cluster",
		Long: `Run Capstan's controllers against any Kubernetes cluster: that of --kubeconfig,
or of $KUBECONFIG, or the one whose pod this is. The CRDs are installed and
kept up to date at start.`,
		Args:          command.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env.SetLog(env.Err, verbosity)
			if given := ignored(); len(given) > 0 {
				klog.Background().Info("Ignoring flags of upstream's managers that have no effect here", "flags", given)
			}
			return runManager(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: $KUBECONFIG, then the pod's service account)")
	f.BoolVar(&o.install, "install", true, "install the CRDs and roles, and keep them and the inventory up to date, at start")
	f.BoolVar(&o.inventory, "inventory", false, "note in the inventory of clusterctl what runs, as --install does too")
	o.manager.Providers, o.manager.ContainerNamespaces = controllers.Providers(), []string{metav1.NamespaceDefault}
	o.manager.AddFlags(f)
	f.StringVar(&o.manager.Namespace, "namespace", "", "namespace to watch (default: all)")
	f.StringVar(&o.manager.WatchFilter, "watch-filter", "", "only objects whose label cluster.x-k8s.io/watch-filter has this value")
	f.BoolVar(&o.manager.LeaderElection, "leader-elect", false, "let several replicas take turns")
	f.StringVar(&o.manager.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease (default: that of the pod)")
	f.StringVar(&o.manager.HealthAddress, "health-address", "", "host:port for /healthz and /readyz (default: none)")
	f.StringVar(&o.manager.Webhooks.Listen, "webhook-address", "", "host:port to serve webhooks on (default: none)")
	f.StringVar(&o.manager.Webhooks.Host, "webhook-host", "", "name or address by which the API server reaches the webhooks (default: the host of --webhook-address)")
	f.StringVar(&o.service, "webhook-service", "", "NAMESPACE/NAME of the Service by which the API server reaches the webhooks of all replicas at port 443, instead of --webhook-host; with --install=false")
	f.StringVar(&o.manager.Webhooks.CertDir, "webhook-cert-dir", "", "folder with tls.crt and tls.key for the webhooks, read again when they change; their owner also sets the authority that the API server trusts (default: the manager does both)")
	ignored = upstreamFlags(f, &o.manager.MetricsAddress)
	f.IntVarP(&verbosity, "v", "v", 0, "log level: 0 changes, 2 decisions to wait, 4 details")
	return cmd
}

// concurrent are what upstream's flags NAME-concurrency limit.
var concurrent = []string{
	"clustertopology", "clusterclass", "cluster", "clustercache", "extensionconfig", "machine", "machineset", "machinedeployment",
	"machinepool", "clusterresourceset", "machinehealthcheck", "kubeadmconfig", "kubeadmcontrolplane",
}

// upstreamFlags are flags that manifests of upstream's managers have: another name for
// --metrics-address, and some that have no effect. Those are read, hidden, and listed
// by the result if they were given.
func upstreamFlags(f *pflag.FlagSet, metrics *string) (given func() []string) {
	f.StringVar(metrics, "diagnostics-address", "", "the same as --metrics-address")
	none := pflag.NewFlagSet("", pflag.ContinueOnError)
	none.StringSlice("machineset-preflight-checks", nil, "")
	none.Duration("remote-connection-grace-period", time.Duration(0), "")
	none.Duration("remote-conditions-grace-period", time.Duration(0), "")
	for _, name := range concurrent {
		none.Int(name+"-concurrency", 0, "")
	}
	none.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = true
		f.AddFlag(flag)
	})
	return func() (names []string) {
		f.Visit(func(flag *pflag.Flag) {
			if none.Lookup(flag.Name) != nil {
				names = append(names, "--"+flag.Name)
			}
		})
		return names
	}
}

func runManager(ctx context.Context, env *Env, o managerOptions) error {
	if err := o.byService(); err != nil {
		return err
	}
	cfg, err := managerConfig(env, o.kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1 // the API server protects itself
	if o.manager.SimulatedDir == "" {
		dir, err := os.MkdirTemp("", "capstan-simulated-")
		if err != nil {
			return fmt.Errorf("make a directory for the state of simulated machines: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.manager.SimulatedDir = dir
	}
	o.manager.Log, o.manager.Conversion = klog.Background(), true
	recovery.Process()
	m, err := manager.New(ctx, cfg, o.manager)
	if err != nil {
		return err
	}
	return errors.Join(o.run(ctx, cfg, m), m.Close())
}

// byService reads the Service of the webhooks. The manifests contain it together
// with the definitions that name it.
func (o *managerOptions) byService() error {
	if o.service == "" {
		return nil
	}
	namespace, name, ok := strings.Cut(o.service, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1035Label(name)) > 0 {
		return command.Misuse(fmt.Errorf("--webhook-service %q: give it as NAMESPACE/NAME", o.service))
	}
	if o.install {
		return command.Misuse(errors.New("--webhook-service needs --install=false: the definitions that name the Service come with the manifests that have it; see capstan generate manager"))
	}
	o.manager.Webhooks.Service = types.NamespacedName{Namespace: namespace, Name: name}
	return nil
}

// run installs definitions when the webhooks answer that they may name, and
// runs the controllers of what they define.
func (o *managerOptions) run(ctx context.Context, cfg *rest.Config, m *manager.Manager) error {
	if o.install {
		if err := install.Install(ctx, cfg, m.Conversion()); err != nil {
			return err
		}
	}
	if o.install || o.inventory {
		if err := install.Inventory(ctx, cfg, o.manager.Providers); err != nil {
			return err
		}
	}
	if err := m.Setup(ctx); err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("run the controllers: %w", err)
	}
	return nil
}

func managerConfig(env *Env, kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		kubeconfig = env.Getenv("KUBECONFIG")
	}
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no management cluster: name one with --kubeconfig, or run in a pod with a service account")
		}
		return cfg, err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	return cfg, nil
}
