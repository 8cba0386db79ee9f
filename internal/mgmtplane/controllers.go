// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	tokens "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/mgmtplane/kubecontrollers"
)

const (
	issuer = "https://kubernetes.default.svc.cluster.local"
	// gcSyncPeriod is how often the garbage collector checks for new kinds. It
	// reads a cached answer (see collected.Discovery), so that a short period costs
	// nothing. It is also how long the collector waits for the caches of kinds that
	// it has found before it reports an error: the first request for a custom kind
	// after a start is refused for a second, until the API server has its objects.
	gcSyncPeriod = 3 * time.Second
	// collectorStart is how long the garbage collector reads owners from memory: it
	// starts to work when it has all objects, and no later than after half a
	// minute.
	collectorStart = time.Minute
	// collectorPeriod is the polling period of AwaitCollector.
	collectorPeriod = 20 * time.Millisecond
)

// controllers is a set of informers and the loops that use them.
type controllers struct {
	typed  kubernetes.Interface
	meta   metadata.Interface
	shared informers.SharedInformerFactory
	// secrets watches only service account tokens: all others would only use
	// memory.
	secrets   informers.SharedInformerFactory
	collected *kubecontrollers.Objects
	informing chan struct{} // closed when informers run
	loops     []func(context.Context)
	fail      func(error) // ends the plane
	graph     *garbagecollector.GraphBuilder
}

// startControllers runs kube-controller-manager's controllers on p until it stops.
// The controller manager itself cannot be used: it runs once per process, and its
// garbage collector takes half a minute to detect a new kind.
func (c *completed) startControllers(p *Plane, keys pki.Folder) error {
	cfg := rest.AddUserAgent(p.Config(), "capstan-plane")
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background()))
	all, err := newControllers(cfg)
	if err != nil {
		cancel()
		return err
	}
	all.fail = p.fail
	parts := map[string]func(context.Context, pki.Folder) error{
		"namespaces": all.addNamespaces, "garbage collector": all.addGarbageCollector,
		"cluster role aggregation": all.addRoleAggregation, "service accounts": all.addServiceAccounts,
		"resource quotas": all.addQuotas,
	}
	if c.Workloads {
		parts["workloads"] = all.addWorkloads
	}
	for name, add := range parts {
		if err := add(ctx, keys); err != nil {
			cancel()
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	var running sync.WaitGroup
	p.stack.Push("controllers of the API server", func(stop context.Context) error {
		cancel()
		done := make(chan struct{})
		go recovery.Func(stop, func() {
			defer close(done)
			running.Wait()
			all.shared.Shutdown()
			all.secrets.Shutdown()
			all.collected.Shutdown()
		})()
		select {
		case <-done:
			return nil
		case <-stop.Done():
			return stop.Err()
		}
	})
	all.shared.Start(ctx.Done())
	all.secrets.Start(ctx.Done())
	all.collected.Start(ctx.Done())
	close(all.informing)
	for _, loop := range all.loops {
		running.Go(recovery.Func(ctx, func() {
			select {
			case <-p.Leads():
				loop(ctx)
			case <-ctx.Done():
			}
		}))
	}
	p.graph = all.graph
	return nil
}

// AwaitCollector waits until the garbage collector has the objects of these kinds,
// or ctx ends. Until then it requests every owner of a new object from the API
// server.
func (p *Plane) AwaitCollector(ctx context.Context, kinds ...schema.GroupVersionResource) error {
	return wait.PollUntilContextCancel(ctx, collectorPeriod, true, func(context.Context) (bool, error) {
		for _, kind := range kinds {
			if !p.graph.IsResourceSynced(kind) {
				return false, nil
			}
		}
		return true, nil
	})
}

func newControllers(cfg *rest.Config) (*controllers, error) {
	proto := rest.CopyConfig(cfg)
	proto.ContentType = runtime.ContentTypeProtobuf
	typed, err := kubernetes.NewForConfig(proto)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &controllers{
		typed: typed, meta: meta,
		shared: informers.NewSharedInformerFactory(typed, 0),
		secrets: informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "type=" + string(corev1.SecretTypeServiceAccountToken)
		})),
		collected: kubecontrollers.NewObjects(meta, restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(typed.Discovery()))),
		informing: make(chan struct{}),
	}, nil
}

func (c *controllers) addNamespaces(ctx context.Context, _ pki.Folder) error {
	n := namespace.NewNamespaceController(ctx, c.typed, c.meta, c.typed.Discovery().ServerPreferredNamespacedResources,
		c.shared.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	c.loops = append(c.loops, func(ctx context.Context) { n.Run(ctx, 10) })
	return nil
}

func (c *controllers) addGarbageCollector(ctx context.Context, _ pki.Folder) error {
	gc, err := garbagecollector.NewGarbageCollector(ctx, c.typed, c.collected, c.collected.Mapper(),
		garbagecollector.DefaultIgnoredResources(), c.collected, c.informing)
	if err != nil {
		return err
	}
	c.graph = gc.GetDependencyGraphBuilder()
	changed := kubecontrollers.NewDiscovery(c.typed.Discovery(), time.Now)
	for _, kind := range []schema.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	} {
		if _, err := c.collected.Shared(kind).AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed.Mark() },
			UpdateFunc: func(any, any) { changed.Mark() },
			DeleteFunc: func(any) { changed.Mark() },
		}); err != nil {
			return err
		}
	}
	c.loops = append(c.loops,
		func(ctx context.Context) { gc.Run(ctx, 20, 30*time.Second) },
		func(ctx context.Context) { gc.Sync(ctx, changed, gcSyncPeriod) },
		func(ctx context.Context) {
			if lifecycle.Sleep(ctx, collectorStart) == nil {
				c.collected.Started()
			}
		},
	)
	return nil
}

func (c *controllers) addRoleAggregation(context.Context, pki.Folder) error {
	a := clusterroleaggregation.NewClusterRoleAggregation(c.shared.Rbac().V1().ClusterRoles(), c.typed.RbacV1())
	c.loops = append(c.loops, func(ctx context.Context) { a.Run(ctx, 5) })
	return nil
}

func (c *controllers) addServiceAccounts(ctx context.Context, keys pki.Folder) error {
	accounts := c.shared.Core().V1().ServiceAccounts()
	defaults, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), accounts, c.shared.Core().V1().Namespaces(),
		c.typed, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	key, err := keyutil.PrivateKeyFromFile(keys.Key("sa"))
	if err != nil {
		return fmt.Errorf("read service account key: %w", err)
	}
	generator, err := tokens.JWTTokenGenerator(tokens.LegacyIssuer, key)
	if err != nil {
		return err
	}
	root, err := os.ReadFile(keys.Cert("ca"))
	if err != nil {
		return err
	}
	secrets, err := serviceaccount.NewTokensController(klog.FromContext(ctx), accounts, c.secrets.Core().V1().Secrets(), c.typed,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: root})
	if err != nil {
		return err
	}
	c.loops = append(c.loops,
		func(ctx context.Context) { defaults.Run(ctx, 1) },
		func(ctx context.Context) { secrets.Run(ctx, 2) },
	)
	return nil
}

func (c *controllers) addQuotas(context.Context, pki.Folder) error {
	q, err := kubecontrollers.NewQuotas(c.typed, c.collected, c.informing)
	if err != nil {
		return err
	}
	c.loops = append(c.loops, func(ctx context.Context) {
		if err := q.Run(ctx); err != nil {
			c.fail(fmt.Errorf("controller of ResourceQuotas: %w", err))
		}
	})
	return nil
}

func (c *controllers) addWorkloads(_ context.Context, keys pki.Folder) error {
	authority, err := os.ReadFile(keys.Cert("ca"))
	if err != nil {
		return err
	}
	w, err := kubecontrollers.NewWorkloads(c.typed, authority, c.collected.Shared)
	if err != nil {
		return err
	}
	c.loops = append(c.loops, func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			c.fail(fmt.Errorf("controllers of Deployments: %w", err))
		}
	})
	return nil
}
