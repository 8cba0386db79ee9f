// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/access/services"
	"github.com/capstan-dev/capstan/internal/app/controllers"
)

// callsExtensions reports whether a chosen provider calls runtime extensions.
func (o Options) callsExtensions() bool {
	return slices.Contains(o.Providers, controllers.Core) || slices.Contains(o.Providers, controllers.Kubeadm)
}

// openExtensions builds the client of runtime extensions. Its registry is filled by
// the controller of ExtensionConfigs, or by its follower.
func (s *shared) openExtensions(ctx context.Context) (x controllers.Extensions, err error) {
	if !s.options.callsExtensions() {
		return x, nil
	}
	log := s.options.Log.WithName("extensions")
	tracer, err := openTracing(ctx, s.options.TracingEndpoint, log)
	if err != nil {
		return x, err
	}
	opts := transport.Options{
		ClientCertFile: s.options.ExtensionClientCertFile, ClientKeyFile: s.options.ExtensionClientKeyFile, Clock: clock.RealClock{}, Dial: s.options.Dial,
		OnCertificateError: func(err error) { log.Error(err, "Reading the client certificate for extensions again") },
	}
	if s.options.ServicesByEndpoints {
		opts.Services = &services.Resolver{Live: s.mgr.GetAPIReader(), Choose: rand.IntN}
	}
	pool, err := transport.New(opts)
	if err != nil {
		return x, fmt.Errorf("set up calls to runtime extensions: %w", err)
	}
	known := catalog.Default()
	registry := extensions.NewRegistry(known)
	if !s.options.FeatureGates.Enabled(controllers.GateRuntimeSDK) {
		registry.Expect() // none: no controller registers any
	}
	calls, err := extensions.New(extensions.Options{
		Catalog: known, Registry: registry, Transport: pool, Namespaces: namespaceLabels(s.mgr.GetClient()), Clock: s.clock, Tracer: tracer.provider(),
	})
	if err != nil {
		return x, err
	}
	if err := s.mgr.Add(everyReplica(func(ctx context.Context) error {
		<-ctx.Done()
		pool.Close()
		return tracer.close(context.WithoutCancel(ctx))
	})); err != nil {
		return x, err
	}
	x = controllers.Extensions{Catalog: known, Registry: registry, Client: calls}
	if s.options.FeatureGates.Enabled(controllers.GateInPlaceUpdates) {
		x.Updates.Hooks = calls
	}
	return x, s.mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		s.options.ExtensionPages.show(calls)
		<-ctx.Done()
		s.options.ExtensionPages.show(nil)
		return nil
	}))
}

// namespaceLabels reads labels from a cache of the metadata of namespaces,
// which the first extension with a namespaceSelector starts.
func namespaceLabels(mgmt client.Reader) func(context.Context, string) (map[string]string, error) {
	return func(ctx context.Context, name string) (map[string]string, error) {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := mgmt.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
			return nil, fmt.Errorf("read namespace %s: %w", name, err)
		}
		return namespace.Labels, nil
	}
}

// everyReplica is a Runnable of all replicas, leader or not.
type everyReplica func(context.Context) error

// Start implements manager.Runnable.
func (f everyReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everyReplica) NeedLeaderElection() bool { return false }
