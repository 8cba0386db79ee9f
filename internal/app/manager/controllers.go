// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/cluster"
	"github.com/capstan-dev/capstan/internal/controller/extensionconfig"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/controller/localcluster"
	"github.com/capstan-dev/capstan/internal/controller/localmachine"
	"github.com/capstan-dev/capstan/internal/controller/localmachinetemplate"
	"github.com/capstan-dev/capstan/internal/controller/machine"
	"github.com/capstan-dev/capstan/internal/controller/machinedeployment"
	"github.com/capstan-dev/capstan/internal/controller/machineset"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/names"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/simulated"
)

// statusDebounce is how long a status write that nobody waits for may be put
// off. While a cluster comes up its objects change every few milliseconds, and
// each change would be written up to the Cluster.
const statusDebounce = 500 * time.Millisecond

// shared is what the controllers of one manager have in common.
type shared struct {
	mgr       ctrl.Manager
	options   Options
	clock     clock.PassiveClock
	mgmt      client.Client
	providers *provider.Objects
	workload  *workload.Cache
	debounce  *patch.StatusDebounce
	backend   *simulated.Backend // nil without the local provider

	extensions runtimeExtensions // empty without the core provider
}

// recorder gives a controller its voice in events.
func (s *shared) recorder(name string) events.EventRecorder {
	return s.mgr.GetEventRecorder("capstan-" + name)
}

// setups is the one list of controllers: who runs with which provider, named
// after its kind; admission warns of kinds that are not here. All of them find
// workload clusters by the same cache.
var setups = []struct {
	provider, name string
	setup          func(context.Context, *shared) error
}{
	{Core, "cluster", func(ctx context.Context, s *shared) error {
		return (&cluster.Reconciler{Mgmt: s.mgmt, Live: s.mgr.GetAPIReader(), Providers: s.providers, Workload: s.workload, Clock: s.clock, Recorder: s.recorder("cluster"), Debounce: s.debounce}).Setup(ctx, s.mgr)
	}},
	{Core, "machine", func(ctx context.Context, s *shared) error {
		return (&machine.Reconciler{Mgmt: s.mgmt, Providers: s.providers, Workload: s.workload, Clock: s.clock, Recorder: s.recorder("machine"), Debounce: s.debounce}).Setup(ctx, s.mgr)
	}},
	{Core, "machineset", func(ctx context.Context, s *shared) error {
		return (&machineset.Reconciler{
			Mgmt: s.mgmt, Live: s.mgr.GetAPIReader(), Providers: s.providers, Clock: s.clock, Recorder: s.recorder("machineset"), Name: names.Random, Debounce: s.debounce,
		}).Setup(ctx, s.mgr)
	}},
	{Core, "machinedeployment", func(ctx context.Context, s *shared) error {
		return (&machinedeployment.Reconciler{
			Mgmt: s.mgmt, Providers: s.providers, Clock: s.clock, Recorder: s.recorder("machinedeployment"), Name: names.Random, Debounce: s.debounce,
		}).Setup(ctx, s.mgr)
	}},
	{Core, "extensionconfig", func(_ context.Context, s *shared) error {
		return (&extensionconfig.Reconciler{
			Mgmt: s.mgmt, Live: s.mgr.GetAPIReader(), Extensions: s.extensions.client, Registry: s.extensions.registry, Catalog: s.extensions.catalog,
			Clock: s.clock, Recorder: s.recorder("extensionconfig"), Random: rand.Float64,
		}).Setup(s.mgr)
	}},
	{Kubeadm, "kubeadmconfig", func(_ context.Context, s *shared) error {
		return (&kubeadmconfig.Reconciler{
			Mgmt: s.mgmt, Live: s.mgr.GetAPIReader(), Providers: s.providers, Workload: s.workload, Clock: s.clock,
		}).Setup(s.mgr)
	}},
	{Kubeadm, "kubeadmcontrolplane", func(ctx context.Context, s *shared) error {
		return (&kubeadmcontrolplane.Reconciler{
			Mgmt: s.mgmt, Live: s.mgr.GetAPIReader(), Providers: s.providers, Workload: s.workload, Etcd: &etcd.Dialer{Clock: s.clock},
			Clock: s.clock, Recorder: s.recorder("kubeadmcontrolplane"), Name: names.Random, Debounce: s.debounce,
		}).Setup(ctx, s.mgr)
	}},
	{Local, "localcluster", func(_ context.Context, s *shared) error {
		return (&localcluster.Reconciler{Mgmt: s.mgmt, Backend: s.backend, Clock: s.clock, Recorder: s.recorder("localcluster")}).Setup(s.mgr)
	}},
	{Local, "localmachine", func(_ context.Context, s *shared) error {
		return (&localmachine.Reconciler{Mgmt: s.mgmt, Live: s.mgr.GetAPIReader(), Backend: s.backend, Clock: s.clock, Recorder: s.recorder("localmachine"), Debounce: s.debounce}).Setup(s.mgr)
	}},
	{Local, "localmachinetemplate", func(_ context.Context, s *shared) error {
		return (&localmachinetemplate.Reconciler{Mgmt: s.mgmt}).Setup(s.mgr)
	}},
}

// setupControllers sets up the controllers of the chosen providers.
func setupControllers(ctx context.Context, mgr ctrl.Manager, o Options, c clock.PassiveClock) error {
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	s := &shared{mgr: mgr, options: o, clock: c, mgmt: controller.Client(mgr), debounce: patch.NewStatusDebounce(statusDebounce, c)}
	s.providers = provider.New(s.mgmt, mgr.GetCache())
	s.workload = workload.New(workload.Options{Mgmt: s.mgmt, Secrets: s.mgmt, Clock: c})
	if err := s.workload.Setup(mgr); err != nil {
		return fmt.Errorf("set up connections to workload clusters: %w", err)
	}
	if err := s.openBackend(); err != nil {
		return err
	}
	if err := s.openExtensions(ctx); err != nil {
		return err
	}
	for _, entry := range setups {
		if !slices.Contains(o.Providers, entry.provider) {
			continue
		}
		if err := entry.setup(ctx, s); err != nil {
			return fmt.Errorf("set up controller %s: %w", entry.name, err)
		}
	}
	return nil
}

// openBackend opens the state of the simulated machines, and closes it with the
// manager.
func (s *shared) openBackend() error {
	if !slices.Contains(s.options.Providers, Local) {
		return nil
	}
	backend, err := simulated.New(simulated.Options{Dir: s.options.SimulatedDir, Log: s.options.Log.WithName("simulated")})
	if err != nil {
		return fmt.Errorf("open the state of simulated machines: %w", err)
	}
	s.backend = backend
	return s.mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		return backend.Close()
	}))
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		admissionregistrationv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme),
		bootstrapv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme),
		infrav1.AddToScheme(scheme),
		addonsv1.AddToScheme(scheme),
		ipamv1.AddToScheme(scheme), // a webhook reads claims
		runtimev1.AddToScheme(scheme),
		discoveryv1.AddToScheme(scheme),
	)
}
