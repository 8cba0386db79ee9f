// SPDX-License-Identifier: Apache-2.0

// Package manager starts Capstan's controllers and webhooks against one API server:
// the plane in this process or any Kubernetes cluster. Options.Providers selects
// which of them run.
package manager

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/host/containerhost"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/simulated"
)

// Options define what runs and where it listens. The zero value runs every provider
// on all namespaces, without leader election and without listeners.
type Options struct {
	Config
	// Plane also permits the providers that only a management plane has;
	// APIServerCA is then the authority of its API server, in PEM.
	Plane       bool
	APIServerCA []byte
	// Namespace limits the controllers to one namespace; "" means all.
	Namespace string
	// WatchFilter limits the controllers to objects whose label
	// cluster.x-k8s.io/watch-filter has this value; "" means all objects.
	WatchFilter string
	// LeaderElection lets only one of several managers run its controllers. The
	// namespace of the lease is that of the pod, unless LeaderElectionNamespace
	// names another.
	LeaderElection          bool
	LeaderElectionNamespace string
	// Leads is closed when the controllers may act: the caller ensures that one
	// manager leads, and ends this one when it no longer does. Nil leaves that to
	// LeaderElection.
	Leads <-chan struct{}
	// HealthAddress is host:port to listen on; "" means not at all.
	HealthAddress string
	// Serving is called with the address at which Metrics or Profiles are served, once
	// they are: its port is not 0. Nil only logs it. Without authentication, the address
	// of profiles is in the log alone.
	Serving func(name string, address netip.AddrPort)
	// Webhooks defines how the API server reaches the webhooks.
	Webhooks Webhooks
	// Conversion answers ConversionReviews in addition to the webhooks, for an API
	// server that does not convert in its own process.
	Conversion bool
	// Guard receives the addresses of the endpoints of simulated clusters and of
	// container machines; nil if this process runs no Pods.
	Guard *dialguard.Guard
	// SimulatedLinks is a directory of this manager only, with a link to each
	// simulated cluster that it runs; "" means none.
	SimulatedLinks string
	// Name identifies this manager to others that wait for such a cluster; by
	// default it names the API server.
	Name string
	// ServicesByEndpoints finds Services of runtime extensions by their
	// EndpointSlices, where cluster DNS is not available.
	ServicesByEndpoints bool
	// Dial connects to clusters and runtime extensions; nil dials from this host.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ExtensionPages describe runtime extensions; nil serves them on
	// MetricsAddress only.
	ExtensionPages *ExtensionPages
	// Decisions records the decisions of the controllers; nil records them in memory.
	Decisions *decisions.Recorder
	// Pods sets up the runner of Pods; nil runs none.
	Pods func(context.Context, ctrl.Manager) error
	// Log receives the logs of the controllers; the zero value drops them.
	Log logr.Logger
}

// complete checks and defaults the options.
func (o Options) complete() (Options, error) {
	if o.Providers == nil {
		o.Providers = controllers.Providers()
	}
	known := controllers.Providers()
	if o.Plane {
		known = controllers.PlaneProviders()
	}
	if len(o.Providers) == 0 {
		return o, fmt.Errorf("no provider is chosen: choose among %v", known)
	}
	for _, p := range o.Providers {
		if !slices.Contains(known, p) {
			return o, fmt.Errorf("provider %q is not known: choose among %v", p, known)
		}
	}
	o.Providers = slices.DeleteFunc(slices.Clone(known), func(p string) bool { return !slices.Contains(o.Providers, p) }) // each once
	if slices.Contains(o.Providers, controllers.Local) && o.SimulatedDir == "" {
		return o, errors.New("the local provider needs a directory for the state of its simulated machines")
	}
	if o.ExtensionPages == nil {
		o.ExtensionPages = &ExtensionPages{}
	}
	if o.Decisions == nil {
		o.Decisions = decisions.New()
	}
	for _, address := range []*string{&o.MetricsAddress, &o.HealthAddress, &o.PprofAddress} {
		if *address == "" {
			*address = "0" // controller-runtime's word for "do not listen"
		}
	}
	return o, o.Webhooks.complete()
}

// lease returns the name of the lease of managers that run the same controllers on
// the same objects.
func (o Options) lease() string {
	parts := append([]string{"capstan"}, slices.Sorted(slices.Values(o.Providers))...)
	for _, limit := range []string{o.Namespace, o.WatchFilter} {
		if strings.Contains(limit, "_") { // which the value of a label can contain, and no name
			limit = fmt.Sprintf("%x", sha256.Sum224([]byte(limit)))
		}
		if limit != "" {
			parts = append(parts, strings.ToLower(limit))
		}
	}
	return strings.Join(parts, "-")
}

// Manager runs the chosen controllers. New, Setup and Start are called in this
// order, and the CRDs are installed between the first two: the API server may need
// the webhooks to serve the kinds of the CRDs.
type Manager struct {
	mgr      ctrl.Manager
	options  Options
	backends localinfra.Backends
	workload *workload.Cache
	webhooks *webhookServer // nil if none are served
	stack    lifecycle.Stack
	ready    chan struct{}
	serving  chan struct{} // closed while another manager may lead
}

// New connects to the API server and opens what the options choose. When it
// returns, the webhooks answer. Close closes what was opened.
func New(ctx context.Context, cfg *rest.Config, o Options) (*Manager, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	opts, err := managerOptions(o)
	if err != nil {
		return nil, err
	}
	if len(o.FeatureGates.Ignored) > 0 {
		o.Log.Info("Ignoring feature gates that have one value here", "gates", o.FeatureGates.Ignored)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NoWarnings{} // they are about upstream's finalizer names, once for each object
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("connect the controllers to the API server: %w", err)
	}
	m := &Manager{mgr: filtered{Manager: mgr, watchFilter: o.WatchFilter}, options: o, ready: make(chan struct{}), serving: make(chan struct{})}
	if err := m.open(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open opens the machines of the local provider and the webhooks, which use them,
// and builds the connections to workload clusters, which the webhooks use too.
func (m *Manager) open(ctx context.Context) error {
	if slices.Contains(m.options.Providers, controllers.Local) {
		backend, err := simulated.New(simulated.Options{
			Dir: m.options.SimulatedDir, Links: m.options.SimulatedLinks, Holder: cmp.Or(m.options.Name, "the manager of "+m.mgr.GetConfig().Host), Guard: m.options.Guard, Log: m.options.Log.WithName("simulated"),
		})
		if err != nil {
			return fmt.Errorf("open the state of simulated machines: %w", err)
		}
		m.backends.Simulated = backend
		m.stack.Push("simulated machines", func(context.Context) error { return backend.Close() })
	}
	m.openContainers(ctx)
	mgmt := controller.Client(m.mgr)
	m.workload = workload.New(workload.Options{Mgmt: mgmt, Secrets: mgmt, Clock: clock.RealClock{}, Dial: m.options.Dial})
	return m.openWebhooks(ctx, clock.RealClock{})
}

// openContainers opens the container machines of this host, if enabled. If that
// fails, the manager does everything else, and the status of such a machine reports
// the reason.
func (m *Manager) openContainers(ctx context.Context) {
	if !slices.Contains(m.options.Providers, controllers.Local) || m.options.ContainersDir == "" {
		return
	}
	backend, stop, err := containerhost.Open(ctx, containerhost.Options{
		Dir: m.options.ContainersDir, Namespaces: m.options.ContainerNamespaces, Guard: m.options.Guard, Log: m.options.Log,
	})
	if err != nil {
		m.backends.NoContainer = err.Error()
		m.options.Log.V(2).Info("Running no container machines", "reason", err.Error())
		return
	}
	m.backends.Container = backend
	m.stack.Push("container machines", func(context.Context) error { return stop() })
}

// Setup sets up everything that the options choose, and registers the webhooks with
// the API server. The CRDs must be installed.
func (m *Manager) Setup(ctx context.Context) error {
	if err := m.mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := m.mgr.AddReadyzCheck("caches", m.readyz); err != nil {
		return err
	}
	if err := m.options.addProfiles(m.mgr); err != nil {
		return err
	}
	if err := setupControllers(ctx, m.mgr, m.options, m.backends, m.workload, clock.RealClock{}); err != nil {
		return err
	}
	if err := m.openHostUpdates(); err != nil {
		return err
	}
	if m.options.Pods != nil {
		if err := m.options.Pods(ctx, filtered{Manager: m.mgr}); err != nil {
			return fmt.Errorf("set up the runner of Pods: %w", err)
		}
	}
	if m.webhooks != nil {
		if err := m.webhooks.announce(ctx); err != nil {
			return err
		}
		if err := m.mgr.Add(m.webhooks); err != nil {
			return err
		}
	}
	if err := m.mgr.Add(standby{m}); err != nil {
		return err
	}
	return m.mgr.Add(announcer{m})
}

// Start runs until ctx ends or a controller fails permanently.
func (m *Manager) Start(ctx context.Context) error { return m.mgr.Start(ctx) }

// Ready is closed when the caches are filled and all controllers run.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Close closes what New opened: the machines after the webhooks, which use them.
func (m *Manager) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), webhookStopTimeout)
	defer cancel()
	return m.stack.Unwind(ctx)
}

// announcer closes ready once the caches that the controllers requested are filled.
type announcer struct{ m *Manager }

// NeedLeaderElection implements manager.LeaderElectionRunnable. A manager that
// waits for Leads is ready before, because it serves webhooks.
func (a announcer) NeedLeaderElection() bool { return a.m.options.Leads == nil }

// Start implements manager.Runnable.
func (a announcer) Start(ctx context.Context) error {
	if a.m.mgr.GetCache().WaitForCacheSync(ctx) {
		close(a.m.ready)
	}
	<-ctx.Done()
	return nil
}

// standby closes serving once the webhooks of a manager that may not lead yet can
// answer: they read from the API server, or from filled caches.
type standby struct{ m *Manager }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }

func (s standby) Start(ctx context.Context) error {
	if s.m.options.LeaderElection && s.m.mgr.GetCache().WaitForCacheSync(ctx) {
		close(s.m.serving)
	}
	<-ctx.Done()
	return nil
}

// filtered defines for kit/controller which objects a controller reconciles.
type filtered struct {
	ctrl.Manager
	watchFilter string
	finishing   bool
}

// WatchFilter is the value of the watch label that objects must have; "" means any.
func (f filtered) WatchFilter() string { return f.watchFilter }

// Finishing reports whether only objects that are being deleted are reconciled.
func (f filtered) Finishing() bool { return f.finishing }

func managerOptions(o Options) (ctrlmanager.Options, error) {
	scheme, err := controllers.Scheme()
	if err != nil {
		return ctrlmanager.Options{}, err
	}
	ofClusters, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		return ctrlmanager.Options{}, err
	}
	metrics, err := o.diagnostics(Metrics, o.MetricsAddress)
	if err != nil {
		return ctrlmanager.Options{}, err
	}
	owned := cache.ByObject{Label: labels.NewSelector().Add(*ofClusters)}
	opts := ctrlmanager.Options{
		Scheme:                        scheme,
		BaseContext:                   func() context.Context { return decisions.Into(context.Background(), o.Decisions) },
		Logger:                        o.Log,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              o.lease(),
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // the next leader need not wait until the lease expires
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.HealthAddress,
		PprofBindAddress:              "0",
		GracefulShutdownTimeout:       new(lifecycle.StopTimeout / 2), // the rest is for the current reconciles
		// A leader candidate fills its caches before it leads.
		Controller: config.Controller{SkipNameValidation: new(true), EnableWarmup: new(o.LeaderElection)},
		Cache: cache.Options{
			DefaultTransform: withoutStatusFields,
			// Only objects with a label of a Cluster: a management cluster may have
			// any number of other Secrets and ConfigMaps.
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: owned, &corev1.ConfigMap{}: owned},
		},
		// Objects of providers, whose types are only unstructured, are read from
		// the cache like all others.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	}
	if o.InsecureDiagnostics {
		opts.PprofBindAddress = o.PprofAddress
	}
	if o.Leads != nil {
		o.waitFor(&opts)
	}
	if o.callsExtensions() {
		maps.Copy(opts.Metrics.ExtraHandlers, o.ExtensionPages.Handlers())
	}
	if o.Namespace != metav1.NamespaceAll {
		opts.Cache.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return opts, nil
}

func (m *Manager) readyz(_ *http.Request) error {
	select {
	case <-m.ready:
		return nil
	case <-m.serving:
		return nil
	default:
		return errors.New("the caches are being filled")
	}
}
