// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"fmt"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/replicaset"

	"github.com/capstan-dev/capstan/internal/kit/pki"
)

// What follows has the values of kube-controller-manager, but for the workers:
// there are tens of Deployments here, not thousands.
const (
	workloadWorkers  = 2
	replicasAtOnce   = 500
	endpointsInSlice = 100
)

// workloadKinds are those whose first object starts the workloads.
var workloadKinds = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Version: "v1", Resource: "pods"},
}

// workloads are the controllers that Deployments and Services for their Pods
// need. They and what they watch cost nothing while there are neither
// Deployments nor ReplicaSets nor Pods: the garbage collector watches those
// anyway, and tells of the first one.
type workloads struct {
	typed     kubernetes.Interface
	authority []byte // that Pods verify the API server by, in PEM

	needed chan struct{} // closed by the first object
	need   sync.Once
}

// addWorkloads has them started by the first object.
func (c *controllers) addWorkloads(_ context.Context, keys pki.Folder) error {
	authority, err := os.ReadFile(keys.Cert("ca"))
	if err != nil {
		return err
	}
	w := &workloads{typed: c.typed, authority: authority, needed: make(chan struct{})}
	for _, kind := range workloadKinds {
		if _, err := c.collected.SharedInformerFactory.ForResource(kind).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { w.need.Do(func() { close(w.needed) }) },
		}); err != nil {
			return err
		}
	}
	c.loops = append(c.loops, func(ctx context.Context) {
		select {
		case <-w.needed:
		case <-ctx.Done():
			return
		}
		if err := w.run(ctx); err != nil {
			c.fail(fmt.Errorf("controllers of Deployments: %w", err))
		}
	})
	return nil
}

// run runs them until ctx ends.
func (w *workloads) run(ctx context.Context) error {
	shared := informers.NewSharedInformerFactory(w.typed, 0)
	authorities := informers.NewSharedInformerFactoryWithOptions(w.typed, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "metadata.name=" + rootcacertpublisher.RootCACertConfigMapName // all others would only fill the memory
	}))
	pods, nodes, services, sets := shared.Core().V1().Pods(), shared.Core().V1().Nodes(), shared.Core().V1().Services(), shared.Apps().V1().ReplicaSets()
	deployments, err := deployment.NewDeploymentController(ctx, shared.Apps().V1().Deployments(), sets, pods, w.typed)
	if err != nil {
		return err
	}
	publisher, err := rootcacertpublisher.NewPublisher(authorities.Core().V1().ConfigMaps(), shared.Core().V1().Namespaces(), w.typed, w.authority)
	if err != nil {
		return err
	}
	replicas := replicaset.NewReplicaSetController(ctx, sets, pods, w.typed, replicasAtOnce)
	slices := endpointslice.NewController(ctx, pods, services, nodes, shared.Discovery().V1().EndpointSlices(), endpointsInSlice, w.typed, 0)
	// The API server's proxy to Services looks for Endpoints, and for nothing else.
	endpoints := endpoint.NewEndpointController(ctx, pods, services, shared.Core().V1().Endpoints(), w.typed, 0)
	shared.Start(ctx.Done())
	authorities.Start(ctx.Done())
	var running sync.WaitGroup
	for _, run := range []func(context.Context, int){deployments.Run, replicas.Run, slices.Run, endpoints.Run, publisher.Run} {
		running.Go(func() { run(ctx, workloadWorkers) })
	}
	running.Wait()
	shared.Shutdown()
	authorities.Shutdown()
	return nil
}
