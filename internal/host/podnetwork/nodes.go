// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// resync is how often the kernel is compared with the plan, in case another program
// deleted a route, for example by setting a link down and up.
const resync = time.Minute

// retry is the time after which a failed operation is repeated.
const retry = time.Second

// Nodes calls sync with all Nodes of a cluster when they have been listed, and
// after each change, until the context ends. Changes during a sync are combined. If
// sync fails, Nodes calls report and repeats it.
func Nodes(ctx context.Context, config *rest.Config, sync func([]*corev1.Node) error, report func(error)) error {
	c, err := client(config)
	if err != nil {
		return err
	}
	// Labels and what kubelet reports every few minutes are not used: they are dropped
	// before objects are stored.
	source := cache.NewListWatchFromClient(c, "nodes", metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedIndexInformer(source, &corev1.Node{}, resync, nil)
	if err := informer.SetTransform(reduce); err != nil {
		return err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		report(fmt.Errorf("watch Nodes: %w", err))
	}); err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // it is already notified
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	}); err != nil {
		return err
	}
	stopped := make(chan struct{})
	go recovery.Func(ctx, func() {
		defer close(stopped)
		informer.RunWithContext(ctx)
	})()
	defer func() { <-stopped }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	again := time.AfterFunc(resync, recovery.Func(ctx, wake))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		var nodes []*corev1.Node
		for _, obj := range informer.GetStore().List() {
			nodes = append(nodes, obj.(*corev1.Node))
		}
		if err := sync(nodes); err != nil {
			report(err)
			again.Reset(retry)
		}
	}
}

// reduce keeps the fields of a Node that plans use.
func reduce(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return nil, errors.New("no Node came from the watch of Nodes")
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, CreationTimestamp: n.CreationTimestamp},
		Spec:       corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses},
	}, nil
}

// client returns a client for objects of the core group alone. A client for all
// groups would cost each node several times the memory.
func client(config *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, nil
}
