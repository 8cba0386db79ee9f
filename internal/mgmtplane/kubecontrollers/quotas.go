// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Values of kube-controller-manager, except the workers.
const (
	quotaWorkers = 2
	resync       = 5 * time.Minute
	// syncPeriod is how often the controller reads the list of kinds.
	syncPeriod = 30 * time.Second
)

// measuredKinds are the kinds of which a quota measures more than the number.
var measuredKinds = sets.New(
	schema.GroupVersionResource{Version: "v1", Resource: "pods"},
	schema.GroupVersionResource{Version: "v1", Resource: "services"},
	schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"},
	schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
)

// countedInformers counts objects in the informers of the garbage collector, and
// measures others in its own.
type countedInformers struct {
	informers.SharedInformerFactory
	collected *Objects
}

// ForResource implements informerfactory.InformerFactory.
func (q countedInformers) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	if measuredKinds.Has(r) {
		return q.SharedInformerFactory.ForResource(r)
	}
	return q.collected.ForResource(r)
}

// Start implements informerfactory.InformerFactory.
func (q countedInformers) Start(stop <-chan struct{}) {
	q.SharedInformerFactory.Start(stop)
	q.collected.Start(stop)
}

// Quotas measures what ResourceQuotas limit, once there is one: the API server
// enforces no limit before the quota's status names it.
type Quotas struct {
	client    kubernetes.Interface
	collected *Objects
	informing <-chan struct{}

	needed chan struct{} // closed by the first quota
	need   sync.Once
}

// NewQuotas returns a controller that waits for the first ResourceQuota. informing is
// closed when informers run.
func NewQuotas(client kubernetes.Interface, objects *Objects, informing <-chan struct{}) (*Quotas, error) {
	q := &Quotas{client: client, collected: objects, informing: informing, needed: make(chan struct{})}
	_, err := objects.Shared(schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}).AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { q.need.Do(func() { close(q.needed) }) },
	})
	return q, err
}

// Run waits until it is needed, and runs the controller until ctx ends.
func (q *Quotas) Run(ctx context.Context) error {
	select {
	case <-q.needed:
	case <-ctx.Done():
		return nil
	}
	all := countedInformers{informers.NewSharedInformerFactory(q.client, 0), q.collected}
	defer all.Shutdown()
	config, err := install.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(all.ForResource), all.SharedInformerFactory)
	if err != nil {
		return err
	}
	kinds := q.client.Discovery().ServerPreferredNamespacedResources
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               q.client.CoreV1(),
		ResourceQuotaInformer:     all.Core().V1().ResourceQuotas(),
		ResyncPeriod:              func() time.Duration { return resync },
		InformerFactory:           all,
		ReplenishmentResyncPeriod: func() time.Duration { return 0 },
		DiscoveryFunc:             kinds,
		IgnoredResourcesFunc:      config.IgnoredResources,
		InformersStarted:          q.informing,
		Registry:                  generic.NewRegistry(config.Evaluators()),
		UpdateFilter:              install.DefaultUpdateFilter(),
	})
	if err != nil {
		return err
	}
	all.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(recovery.Func(ctx, func() { c.Run(ctx, quotaWorkers) }))
	running.Go(recovery.Func(ctx, func() { c.Sync(ctx, kinds, syncPeriod) }))
	running.Wait()
	return nil
}
