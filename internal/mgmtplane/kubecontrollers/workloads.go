// SPDX-License-Identifier: Apache-2.0

// Package kubecontrollers runs controllers of kube-controller-manager in this process:
// those of Deployments, of Services for their Pods, and of ResourceQuotas. It is also
// the source from which the garbage collector reads objects.
package kubecontrollers

import (
	"context"
	"fmt"
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

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Values of kube-controller-manager, except the workers: there are tens of
// Deployments here, not thousands.
const (
	workers          = 2
	replicasAtOnce   = 500
	endpointsInSlice = 100
)

// kinds are the kinds whose first object starts the controllers.
var kinds = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Version: "v1", Resource: "pods"},
}

// Workloads are the controllers. They and their watches cost nothing while there
// are neither Deployments nor ReplicaSets nor Pods: the garbage collector watches
// those anyway, and its informers report the first one.
type Workloads struct {
	client    kubernetes.Interface
	authority []byte

	needed chan struct{} // closed by the first object
	need   sync.Once
}

// NewWorkloads returns controllers that wait for the first object that informer reports.
// Pods get authority, in PEM, to verify the API server.
func NewWorkloads(client kubernetes.Interface, authority []byte, informer func(schema.GroupVersionResource) cache.SharedInformer) (*Workloads, error) {
	w := &Workloads{client: client, authority: authority, needed: make(chan struct{})}
	for _, kind := range kinds {
		if _, err := informer(kind).AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { w.need.Do(func() { close(w.needed) }) },
		}); err != nil {
			return nil, fmt.Errorf("wait for %s: %w", kind.Resource, err)
		}
	}
	return w, nil
}

// Run waits until they are needed, and runs them until ctx ends.
func (w *Workloads) Run(ctx context.Context) error {
	select {
	case <-w.needed:
	case <-ctx.Done():
		return nil
	}
	shared := informers.NewSharedInformerFactory(w.client, 0)
	authorities := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "metadata.name=" + rootcacertpublisher.RootCACertConfigMapName // all others would only use memory
	}))
	core, apps := shared.Core().V1(), shared.Apps().V1()
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), w.client)
	if err != nil {
		return fmt.Errorf("deployments: %w", err)
	}
	publisher, err := rootcacertpublisher.NewPublisher(authorities.Core().V1().ConfigMaps(), core.Namespaces(), w.client, w.authority)
	if err != nil {
		return fmt.Errorf("authority of Pods: %w", err)
	}
	replicas := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), w.client, replicasAtOnce)
	slices := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), shared.Discovery().V1().EndpointSlices(), endpointsInSlice, w.client, 0)
	// The API server's proxy to Services reads only Endpoints.
	endpoints := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), w.client, 0)
	shared.Start(ctx.Done())
	authorities.Start(ctx.Done())
	var running sync.WaitGroup
	for _, run := range []func(context.Context, int){deployments.Run, replicas.Run, slices.Run, endpoints.Run, publisher.Run} {
		running.Go(recovery.Func(ctx, func() { run(ctx, workers) }))
	}
	running.Wait()
	shared.Shutdown()
	authorities.Shutdown()
	return nil
}
