// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// statusDebounce is how long a status write that no controller waits for may be
// delayed. While a cluster is provisioned its objects change every few
// milliseconds, and each change would cause a write of the Cluster. A cluster that
// is provisioned within seconds is written at the steps that a controller waits
// for, and a slow one every second, which is as often as a user reads it.
const statusDebounce = time.Second

// shared is what the controllers of one manager have in common.
type shared struct {
	mgr     ctrl.Manager
	options Options
	clock   clock.PassiveClock
}

// setupControllers sets up the controllers of the chosen providers.
func setupControllers(ctx context.Context, mgr ctrl.Manager, o Options, backends localinfra.Backends, connections *workload.Cache, c clock.PassiveClock) error {
	mgmt := controller.Client(mgr)
	s := &shared{mgr: mgr, options: o, clock: c}
	if controllers.ClusterAPI(o.Providers) { // otherwise the kinds may not exist
		if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		if err := connections.Setup(mgr); err != nil {
			return fmt.Errorf("set up connections to workload clusters: %w", err)
		}
	}
	secrets, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("watch Secrets: %w", err)
	}
	outside := controllers.Outside{
		Deps:              deps.Deps{Mgmt: mgmt, Live: mgr.GetAPIReader(), Providers: provider.New(mgmt, mgr.GetCache()), Workload: connections, Clock: c, Name: randomName, Debounce: patch.NewStatusDebounce(statusDebounce, c)},
		Classes:           classes.New(mgmt),
		Schemas:           apply.NewSchemas(mgmt, mgr.GetAPIReader()),
		Etcd:              &etcd.Dialer{Clock: c},
		CertificateExpiry: podforward.ServingCertExpiry,
		Backends:          backends,
		Secrets:           secretwatch.New(secrets),
		Recorders:         func(name string) events.EventRecorder { return controller.Recorder(mgr, name) },
		Features:          o.FeatureGates,
		Sync:              o.Sync,
		SkipMigration:     o.SkipMigration,
		Random:            rand.Float64,
		APIServerCA:       o.APIServerCA,
	}
	if err := mgr.Add(ctrlmanager.RunnableFunc(outside.Secrets.Wait)); err != nil {
		return err
	}
	if outside.Payloads, err = s.openPayloads(); err != nil {
		return err
	}
	if outside.Extensions, err = s.openExtensions(ctx); err != nil {
		return err
	}
	if err := s.readProviders(ctx); err != nil {
		return err
	}
	all := controllers.All()
	if !slices.Contains(o.Providers, controllers.Core) {
		all = append(all, controllers.ExtensionFollower())
	}
	for _, each := range all {
		on := o.FeatureGates.Enabled(each.Gate)
		if !slices.Contains(o.Providers, each.Provider) || !on && !each.Finishes {
			continue
		}
		if err := each.Setup(ctx, filtered{mgr, o.WatchFilter, !on}, outside); err != nil {
			return fmt.Errorf("set up controller %s: %w", each.Name, err)
		}
	}
	return nil
}

// providerKinds are the kinds of Capstan's own providers that core reads untyped,
// as it does those of other providers.
var providerKinds = map[string][]schema.GroupVersionKind{
	controllers.Kubeadm: {
		bootstrapv1.GroupVersion().WithKind("KubeadmConfig"), bootstrapv1.GroupVersion().WithKind("KubeadmConfigTemplate"),
		controlplanev1.GroupVersion().WithKind("KubeadmControlPlane"),
	},
	controllers.Local: {
		infrav1.GroupVersion().WithKind("LocalCluster"), infrav1.GroupVersion().WithKind("LocalMachine"), infrav1.GroupVersion().WithKind("LocalMachineTemplate"),
	},
}

// readProviders fills the caches of kinds of providers together with all others,
// instead of when the first cluster is created, which would wait for them.
func (s *shared) readProviders(ctx context.Context) error {
	if !slices.Contains(s.options.Providers, controllers.Core) {
		return nil
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(provider.Definitions)
	read := []client.Object{crd}
	for _, of := range s.options.Providers {
		for _, kind := range providerKinds[of] {
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(kind)
			read = append(read, obj)
		}
	}
	for _, obj := range read {
		if _, err := s.mgr.GetCache().GetInformer(ctx, obj); err != nil {
			return fmt.Errorf("read %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, err)
		}
	}
	return nil
}

// openPayloads watches the content of ClusterResourceSets, if their controller
// runs.
func (s *shared) openPayloads() (*resourcesets.Store, error) {
	if !slices.Contains(s.options.Providers, controllers.Core) {
		return nil, nil
	}
	watched, err := resourcesets.Watch(s.mgr, s.options.Namespace)
	if err == nil {
		err = s.mgr.Add(watched)
	}
	if err != nil {
		return nil, fmt.Errorf("watch what ClusterResourceSets apply: %w", err)
	}
	return resourcesets.New(s.mgr.GetAPIReader(), watched), nil
}
