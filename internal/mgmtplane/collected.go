// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// collected is what the garbage collector knows the world by: informers of
// metadata for every kind (with typed ones it would keep whole Secrets and
// ConfigMaps in memory), and a client that reads from them where that is safe.
//
// The collector reads each object before it deletes it. What it learns is
// stored in the preconditions of the delete, uid and resourceVersion, so an
// object may be read from memory: if that was stale, the delete is refused and
// tried again. An owner may not: if its name has been taken over by another
// object that memory does not show yet, the new object would be mistaken for a
// lost owner, and what it owns deleted. So kinds of which an owner was ever
// seen are read from the API server. All that the collector knows of owners
// has passed through here before.
type collected struct {
	metadata.Interface
	metadatainformer.SharedInformerFactory
	mapper meta.ResettableRESTMapper

	mu     sync.Mutex // guards what follows
	known  map[schema.GroupVersionResource]cache.SharedIndexInformer
	owners map[schema.GroupKind]bool
}

func newCollected(c metadata.Interface, mapper meta.ResettableRESTMapper) *collected {
	k := &collected{
		Interface: c, mapper: mapper,
		known: map[schema.GroupVersionResource]cache.SharedIndexInformer{}, owners: map[schema.GroupKind]bool{},
	}
	k.SharedInformerFactory = metadatainformer.NewSharedInformerFactoryWithOptions(c, 0, metadatainformer.WithTransform(k.enter))
	return k
}

// enter sees each object before it is stored, and drops what no collector needs.
func (c *collected) enter(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		c.noteOwners(o)
		o.ManagedFields, o.Annotations, o.Labels = nil, nil, nil
	}
	return obj, nil
}

func (c *collected) noteOwners(obj *metav1.PartialObjectMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range obj.OwnerReferences {
		c.owners[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()] = true
	}
}

// ForResource implements informerfactory.InformerFactory.
func (c *collected) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	informer := c.SharedInformerFactory.ForResource(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[r] = informer.Informer()
	return informer, nil
}

// remembered returns what may be told from memory; nil if the API server has to
// be asked.
func (c *collected) remembered(r schema.GroupVersionResource, key string) *metav1.PartialObjectMetadata {
	kind, err := c.mapper.KindFor(r)
	c.mu.Lock()
	informer, owns := c.known[r], c.owners[kind.GroupKind()]
	c.mu.Unlock()
	if err != nil || owns || informer == nil || !informer.HasSynced() {
		return nil
	}
	obj, ok, err := informer.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return obj.(*metav1.PartialObjectMetadata).DeepCopy()
}

// Resource implements metadata.Interface.
func (c *collected) Resource(r schema.GroupVersionResource) metadata.Getter {
	all := c.Interface.Resource(r)
	return collectedKind{collectedObjects{ResourceInterface: all, c: c, resource: r}, all}
}

// collectedKind reads objects of one kind.
type collectedKind struct {
	collectedObjects
	all metadata.Getter
}

// Namespace implements metadata.Getter.
func (k collectedKind) Namespace(namespace string) metadata.ResourceInterface {
	o := k.collectedObjects
	o.ResourceInterface, o.namespace = k.all.Namespace(namespace), namespace
	return o
}

// collectedObjects reads those in one namespace.
type collectedObjects struct {
	metadata.ResourceInterface
	c         *collected
	resource  schema.GroupVersionResource
	namespace string
}

// Get implements metadata.ResourceInterface.
func (o collectedObjects) Get(ctx context.Context, name string, opts metav1.GetOptions, sub ...string) (*metav1.PartialObjectMetadata, error) {
	if obj := o.c.remembered(o.resource, cache.NewObjectName(o.namespace, name).String()); obj != nil {
		return obj, nil
	}
	obj, err := o.ResourceInterface.Get(ctx, name, opts, sub...)
	if err == nil {
		o.c.noteOwners(obj)
	}
	return obj, err
}
