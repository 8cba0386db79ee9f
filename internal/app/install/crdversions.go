// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// timeout is how long a call waits for the definitions, which are read in
// milliseconds once the API server answers. It is less than the time limit of an
// API server for a conversion: half a minute, or a minute in the plane.
const timeout = 20 * time.Second

// resource is the resource of definitions.
var resource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CRDVersions caches the labels of all definitions. It starts with the first call: where
// no client uses an old version, there are no calls.
type CRDVersions struct {
	connected chan struct{} // closed when informer is set
	informer  cache.SharedIndexInformer
	start     func()
	timeout   time.Duration
}

// NewCRDVersions returns a Watch whose calls wait until it is connected.
func NewCRDVersions() *CRDVersions {
	return &CRDVersions{connected: make(chan struct{}), timeout: timeout}
}

// Connect sets the API server of the definitions. It must be called once. stop ends
// the watch.
func (w *CRDVersions) Connect(cfg *rest.Config) (stop func(), err error) {
	c, err := metadata.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "capstan-conversion"))
	if err != nil {
		return nil, fmt.Errorf("connect to watch CustomResourceDefinitions: %w", err)
	}
	w.informer = metadatainformer.NewFilteredMetadataInformer(c, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	if err := w.informer.SetTransform(labelsOnly); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w.start = sync.OnceFunc(func() { running.Go(recovery.Func(context.Background(), func() { w.informer.RunWithContext(ctx) })) })
	close(w.connected)
	return func() { cancel(); running.Wait() }, nil
}

// labelsOnly drops the parts that are not used.
func labelsOnly(obj any) (any, error) {
	if crd, ok := obj.(*metav1.PartialObjectMetadata); ok {
		crd.ManagedFields, crd.Annotations = nil, nil
	}
	return obj, nil
}

// Version returns the apiVersion with which a kind is referred to. For a kind
// without a definition, it is the version that most old clients support: objects
// that refer to the kind stay readable.
func (w *CRDVersions) Version(kind schema.GroupKind) (apiVersion string, err error) {
	over := time.NewTimer(w.timeout)
	defer over.Stop()
	select {
	case <-w.connected:
	case <-over.C:
		return "", errors.New("the CustomResourceDefinitions cannot be read yet")
	}
	w.start()
	select {
	case <-w.informer.HasSyncedChecker().Done():
	case <-over.C:
		return "", errors.New("the CustomResourceDefinitions cannot be read")
	}
	name := contract.CRDName(kind.Group, kind.Kind)
	crd, found, err := w.informer.GetStore().GetByKey(name)
	if err != nil {
		return "", err
	}
	if !found {
		return schema.GroupVersion{Group: kind.Group, Version: "v1beta1"}.String(), nil
	}
	_, version, err := contract.Choose(crd.(*metav1.PartialObjectMetadata).Labels)
	if err != nil {
		return "", fmt.Errorf("CRD %s: %w", name, err)
	}
	return schema.GroupVersion{Group: kind.Group, Version: version}.String(), nil
}
