// SPDX-License-Identifier: Apache-2.0

// Package plane is the whole of Capstan in one process: the management plane, the
// definitions of its API server, and the controllers.
package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/install"
	"github.com/capstan-dev/capstan/internal/app/manager"
	"github.com/capstan-dev/capstan/internal/app/planeoptions"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/host/podrunner"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/kit/gctune"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/mgmtplane"
)

// collectorTimeout bounds how long a start waits for the garbage collector to watch
// all kinds. It needs 0.2 seconds, unless the first watch of a kind started too
// early.
const collectorTimeout = 700 * time.Millisecond

// The memory that a plane has in use without clusters, and for each key in etcd: a
// key is an object, which the API server and the controllers cache as well, a share
// of a connection, or of a simulated cluster.
const (
	bytesInUse  = 110 << 20
	bytesPerKey = 64 << 10
	// settledAfter is when a start has read all objects and has connected to all
	// clusters, also on a busy machine.
	settledAfter = time.Minute
)

// webhooksHost and webhooksPort are the address by which planes of a shared store
// register their webhooks. No name server resolves the name: only dialWebhooks
// does.
const (
	webhooksHost = "webhooks.capstan.internal"
	webhooksPort = 443
)

// Options are those of package planeoptions. Fatal is the result of CatchExits.
type Options = planeoptions.Options

// Plane is a running management plane with its controllers.
type Plane struct {
	mgmt    *mgmtplane.Plane
	manager *manager.Manager
	pods    *podrunner.Plane
	guard   *dialguard.Guard // of the connections of Pods
	pages   manager.ExtensionPages
	// decisions has the decisions of the controllers, also those of earlier processes.
	decisions *decisions.Recorder
	// definitions is read when an object is converted to an old version.
	definitions *install.CRDVersions
	// leads is closed when the controllers may act; nil unless planes share a
	// store.
	leads    chan struct{}
	webhooks atomic.Pointer[net.Addr] // where this process serves them
	stack    lifecycle.Stack
	errs     chan error

	stop    sync.Once
	stopErr error
}

// TuneHeap sets the garbage collector of this process for a plane.
func TuneHeap() {
	gctune.Tune(gctune.Growth{
		// A plane without clusters has 110 MiB in use. Collecting at 300 instead of
		// at twice that saves a fifth of the CPU time of a start.
		Floor: 300 << 20,
		// With tens of clusters, or a few hundred in steady state, it has 150 to
		// 400 MiB in use.
		Small: 120, Large: 1000 << 20,
		// 100 clusters applied together have a peak of 700 MiB in use, and their
		// promised limit is 1.2 GiB: this collects at 1.1. A thousand have 2.2 GiB
		// and a promised limit of 5, and are collected at 4.1.
		Kept: 315 << 20,
		// This avoids half of the collections in a burst of a thousand, at 6.3 GiB;
		// the promised limit then is 8. The burst of a hundred is unchanged.
		Soon: 10 * time.Second,
		// Stacks of an API server are deep: to record them as often as Go does by
		// default takes 2 % of the CPU time of a start. This rate also finds what
		// has a hundredth of a plane's heap.
		Sample: 4 << 20,
	})
}

// CatchExits prevents libraries from ending the process; see mgmtplane.CatchExits.
func CatchExits() <-chan error { return mgmtplane.CatchExits() }

// Start returns when the API server answers, its definitions are up to date and all
// controllers run. ctx bounds only the start.
func Start(ctx context.Context, o Options) (*Plane, error) {
	recovery.Process()
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Providers == nil {
		o.Providers = controllers.PlaneProviders()
	}
	p := &Plane{errs: make(chan error, 1), definitions: install.NewCRDVersions(), decisions: decisions.New()}
	if err := p.start(ctx, o); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.StopTimeout)
		defer cancel()
		return nil, errors.Join(err, p.Stop(stopping))
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context, o Options) error {
	for _, name := range o.Providers {
		if !slices.Contains(controllers.PlaneProviders(), name) {
			return fmt.Errorf("provider %q is not known: choose among %v", name, controllers.PlaneProviders())
		}
	}
	handlers := manager.DecisionPages(p.decisions)
	if slices.Contains(o.Providers, controllers.Core) {
		maps.Copy(handlers, p.pages.Handlers())
		program, err := os.Executable()
		if err != nil {
			return err
		}
		handlers[changeplan.EndpointPath] = changeplan.NewEndpoint(datadir.Dir(o.Dir).Kubeconfig(), func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, program, args...)
		})
	}
	converter, err := webhooks.NewConverter(p.definitions.Version)
	if err != nil {
		return err
	}
	p.guard = &dialguard.Guard{AllowHost: o.PodsReachHost}
	if p.pods, err = podrunner.Open(o.Dir, p.guard, o.Log); err != nil {
		return err
	}
	p.stack.Push("sandboxes of Pods", func(context.Context) error { return p.pods.Close() })
	var dial mgmtplane.Dial
	if len(o.Etcd.Servers) > 0 {
		p.leads, dial = make(chan struct{}), p.dialWebhooks
	}
	mgmt, err := mgmtplane.Start(ctx, mgmtplane.Options{
		DialURL: dial,
		Dir:     o.Dir, Listen: o.Listen, Version: o.Version, Providers: o.Providers, Flags: o.Flags, Fatal: o.Fatal, Progress: o.Progress,
		Handlers: handlers, Lasting: []string{changeplan.EndpointPath},
		Definitions: install.Definitions(o.Providers), Conversion: converter, Stored: p.expect,
		Workloads: true, Dial: p.pods.Dial, Kubelets: []string{p.pods.Name()},
		Install: func(ctx context.Context, cfg *rest.Config) error { return p.install(ctx, cfg, o) },
		Etcd:    mgmtplane.ExternalEtcd{Store: o.Etcd, Await: o.AwaitEtcd},
	})
	if err != nil {
		return err
	}
	p.mgmt = mgmt
	p.stack.Push("management plane", mgmt.Stop)
	p.serveToPods(o.Listen)
	lifecycle.When(&p.stack, "relay of errors", mgmt.Err(), p.fail)
	if p.leads != nil {
		lifecycle.When(&p.stack, "turn", mgmt.Leads(), func(struct{}) { close(p.leads) })
	}
	o.Progress("starting controllers")
	if err := p.startControllers(ctx); err != nil {
		return err
	}
	if p.leads == nil {
		p.awaitCollector(ctx)
	}
	return mgmt.Describe(func(h *datadir.Holder) { h.Ready = time.Now() })
}

// serveToPods lets Pods reach the API server where it listens, unless that is loopback:
// they have a Service for it, and kubeconfigs that name its address.
func (p *Plane) serveToPods(listen string) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return // the default is loopback
	}
	_, port, _ := net.SplitHostPort(p.mgmt.Addr()) // it is an address by construction
	at, err := netip.ParseAddrPort(net.JoinHostPort(cmp.Or(host, "0.0.0.0"), port))
	if err == nil {
		p.guard.Serve(at)
	}
}

// expect avoids garbage collections until the data of etcd is in memory.
func (p *Plane) expect(keys int64) {
	gctune.Expect(bytesInUse + bytesPerKey*uint64(keys))
	over := time.AfterFunc(settledAfter, recovery.Func(context.Background(), func() { gctune.Expect(0) }))
	p.stack.Push("expectation of the heap", func(context.Context) error { over.Stop(); return nil })
}

// awaitCollector waits, for a limited time, until the garbage collector watches the
// kinds that own others: objects created before only cost more requests.
func (p *Plane) awaitCollector(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, collectorTimeout)
	defer cancel()
	var kinds []schema.GroupVersionResource
	for _, name := range []string{"clusters", "machines", "machinesets", "machinedeployments"} {
		kinds = append(kinds, clusterv1.GroupVersion().WithResource(name))
	}
	kinds = append(kinds, controlplanev1.GroupVersion().WithResource("kubeadmcontrolplanes"), bootstrapv1.GroupVersion().WithResource("kubeadmconfigs"))
	_ = p.mgmt.AwaitCollector(ctx, kinds...) // it only waits longer
}

// dialWebhooks resolves the name by which all planes of a store register their
// webhooks to those of this process. Each API server calls the webhooks of its own
// process: all give the same results, and those of a lost plane could not be
// reached.
func (p *Plane) dialWebhooks(ctx context.Context, network, address string) (net.Conn, error) {
	if address == net.JoinHostPort(webhooksHost, strconv.Itoa(webhooksPort)) {
		to := p.webhooks.Load()
		if to == nil {
			return nil, errors.New("the webhooks of this plane are starting")
		}
		address = (*to).String()
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// webhooksOf returns where webhooks listen and how they are reached.
func (p *Plane) webhooksOf() manager.Webhooks {
	w := manager.Webhooks{Listen: "127.0.0.1:0"}
	if p.leads != nil {
		w.Host, w.Port = webhooksHost, webhooksPort
	}
	return w
}

// install creates the definitions and roles in the API server after the webhooks
// answer: the API server may call them while it reads stored objects.
func (p *Plane) install(ctx context.Context, cfg *rest.Config, o Options) error {
	stop, err := p.definitions.Connect(cfg)
	if err != nil {
		return err
	}
	p.stack.Push("watch of definitions", func(context.Context) error { stop(); return nil })
	authority, err := os.ReadFile(pki.Folder{Dir: datadir.Dir(o.Dir).PKI()}.Cert("ca"))
	if err != nil {
		return fmt.Errorf("read the authority of the API server: %w", err)
	}
	p.decisions.Keep(datadir.Dir(o.Dir).Decisions(), o.Log) // the data directory is locked now
	o.SimulatedDir = cmp.Or(o.SimulatedDir, datadir.Dir(o.Dir).Simulated())
	m, err := manager.New(ctx, cfg, manager.Options{
		Config: o.Config, Plane: true, APIServerCA: authority, SimulatedLinks: datadir.Dir(o.Dir).Simulated(), Guard: p.guard, Name: "the plane on " + o.Dir, Webhooks: p.webhooksOf(), Log: o.Log, Leads: p.leads,
		Decisions: p.decisions, ExtensionPages: &p.pages, ServicesByEndpoints: true, Dial: p.pods.Dial, Pods: p.setupPods,
		Serving: func(name string, address netip.AddrPort) {
			if err := p.mgmt.Describe(func(h *datadir.Holder) {
				if h.Diagnostics == nil {
					h.Diagnostics = map[string]string{}
				}
				h.Diagnostics[name] = address.String()
			}); err != nil {
				o.Log.Error(err, "Recording an address of the management plane", "serves", name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("set up controllers: %w", err)
	}
	p.manager = m
	p.webhooks.Store(new(m.WebhooksAddr()))
	p.stack.Push("webhooks and machines", func(context.Context) error { return m.Close() })
	return install.Plane(ctx, cfg, o.Providers)
}

// setupPods lets this host run Pods.
func (p *Plane) setupPods(ctx context.Context, mgr ctrl.Manager) error {
	cert, key, authority, client := p.mgmt.KubeletFiles()
	return p.pods.Setup(ctx, mgr, podrunner.APIServer{Serve: p.mgmt.Serve, Cert: cert, Key: key, Authority: authority, Client: client})
}

// startControllers runs the manager and waits until its caches are filled.
func (p *Plane) startControllers(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := p.manager.Setup(run); err != nil {
		cancel()
		return fmt.Errorf("set up controllers: %w", err)
	}
	p.stack.Push("recorded decisions", func(context.Context) error { p.decisions.Close(); return nil })
	ended := make(chan error, 1)
	go recovery.Func(run, func() {
		var err error
		defer func() { ended <- err }()
		err = recovery.Call(run, func() error { return p.manager.Start(run) }) // a panic stops the plane in order
		if err == nil && run.Err() == nil {
			err = errors.New("stopped by themselves")
		}
		if err != nil {
			// The writes of a former leader are refused, which may be its first sign.
			p.fail(fmt.Errorf("controllers: %w", errors.Join(p.mgmt.MayAct(), err)))
		}
	})()
	p.stack.Push("controllers", func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	select {
	case <-p.manager.Ready():
		return nil
	case err := <-p.errs:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for controllers: %w", ctx.Err())
	}
}

// Addr is the host and port at which the API server answers.
func (p *Plane) Addr() string { return p.mgmt.Addr() }

// Kubeconfig is the path of the administrator's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.mgmt.Kubeconfig() }

// Err receives what ended the plane from within. The owner then calls Stop.
func (p *Plane) Err() <-chan error { return p.errs }

// Stop stops the controllers, then the management plane. A second call returns the
// result of the first.
func (p *Plane) Stop(ctx context.Context) error {
	p.stop.Do(func() { p.stopErr = p.stack.Unwind(ctx) })
	return p.stopErr
}

func (p *Plane) fail(err error) {
	select {
	case p.errs <- err:
	default: // the first reason is the one that matters
	}
}
