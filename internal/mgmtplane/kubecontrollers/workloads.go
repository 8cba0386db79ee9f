// SPDX-License-Identifier: Apache-2.0

// Package kubecontrollers runs controllers of kube-controller-manager in this process:
// those of Deployments, of Services for their Pods, and of ResourceQuotas. It is also
// the source from which the garbage collector reads objects.
package kubecontrollers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
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

// unrun are the kinds for which no controller creates Pods here, by their plural.
var unrun = map[schema.GroupResource]string{
	{Group: "apps", Resource: "daemonsets"}:                      "DaemonSets",
	{Group: "apps", Resource: "statefulsets"}:                    "StatefulSets",
	{Group: "batch", Resource: "jobs"}:                           "Jobs",
	{Group: "batch", Resource: "cronjobs"}:                       "CronJobs",
	{Resource: "replicationcontrollers"}:                         "ReplicationControllers",
	{Resource: "persistentvolumeclaims"}:                         "PersistentVolumeClaims",
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: "HorizontalPodAutoscalers",
}

// networkPolicies are not enforced: all Pods of a plane reach each other.
var networkPolicies = schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"}

// Asked refuses, or warns of, requests for features that a plane that runs Pods
// itself does not have. If it is false, Pods run outside the plane, and nothing is
// checked.
//
// Containers that are added to a running Pod, as kubectl debug does, are refused:
// they would not be started, and kubectl would wait. For an object without any
// effect the client gets a warning: components of a provider may have some, and be
// useful without them.
type Asked bool

// Handles implements admission.Interface.
func (n Asked) Handles(o admission.Operation) bool {
	return bool(n) && (o == admission.Create || o == admission.Update)
}

// Validate implements admission.ValidationInterface.
func (Asked) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	kind := a.GetResource().GroupResource()
	switch {
	case kind == schema.GroupResource{Resource: "pods"} && a.GetSubresource() == "ephemeralcontainers":
		return admission.NewForbidden(a, errors.New("spec.ephemeralContainers: a plane has no ephemeral containers: use kubectl exec, or kubectl debug with --copy-to, --share-processes=false and --profile=baseline"))
	case unrun[kind] != "" && a.GetSubresource() == "" && a.GetOperation() == admission.Create:
		warning.AddWarning(ctx, "", fmt.Sprintf("a plane has no controller of %s: nothing will come of %s/%s; Deployments are run, others belong in a cluster", unrun[kind], a.GetNamespace(), a.GetName()))
	case kind == networkPolicies && a.GetSubresource() == "":
		warning.AddWarning(ctx, "", fmt.Sprintf("a plane does not enforce NetworkPolicies: Pods of all namespaces reach the Pods that %s/%s selects; run Pods that must be kept apart in another plane or cluster", a.GetNamespace(), a.GetName()))
	}
	return nil
}
