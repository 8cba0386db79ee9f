// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// Objects is the source from which the garbage collector reads objects: informers
// of metadata for every kind (typed informers would store whole Secrets and
// ConfigMaps in memory), and a client that reads from them where that is safe.
//
// The collector reads each object before it deletes it. What it reads is stored in
// the preconditions of the delete, uid and resourceVersion, so an object may be
// read from memory: if that was stale, the delete is refused and tried again. An
// owner must not be read from memory: if its name was reused by another object that
// is not in memory yet, the new object would be mistaken for a lost owner, and its
// dependents deleted. So kinds of which an owner was ever seen are read from the
// API server. All owners that the collector has seen have passed through here
// before.
//
// During its start there is one more source. The collector checks each object whose
// dependents it received first, and the owners of that object: a dozen for each
// Cluster, a fourth of the cost of a restart with many. If all dependents refer to
// an owner by the UID that is in memory, its name was not reused; if it was deleted
// meanwhile, its deletion will still be received and is handled like any other. To
// record the references of all dependents permanently would take too much memory: a
// start ends.
type Objects struct {
	metadata.Interface
	mapper meta.ResettableRESTMapper

	running sync.WaitGroup // informers

	mu     sync.Mutex // guards what follows
	known  map[schema.GroupVersionResource]*informer
	owners map[schema.GroupKind]bool
	// referred has the UIDs by which owners are referred to, "" of one with
	// several; nil once the start is over.
	referred map[ownerName]types.UID
}

// ownerName is the owner that a reference in a namespace names.
type ownerName struct {
	kind            schema.GroupKind
	namespace, name string
}

// NewObjects returns a source that reads by c. mapper resolves the versions of kinds.
func NewObjects(c metadata.Interface, mapper meta.ResettableRESTMapper) *Objects {
	return &Objects{
		Interface: c, mapper: mapper,
		known: map[schema.GroupVersionResource]*informer{}, owners: map[schema.GroupKind]bool{},
		referred: map[ownerName]types.UID{},
	}
}

// enter reads each object before it is stored, and drops what no collector needs.
func (c *Objects) enter(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		c.noteOwners(o)
		o.ManagedFields, o.Annotations, o.Labels = nil, nil, nil
	}
	return obj, nil
}

func (c *Objects) noteOwners(obj *metav1.PartialObjectMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range obj.OwnerReferences {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		c.owners[kind] = true
		if c.referred == nil {
			continue
		}
		name := ownerName{kind, obj.Namespace, ref.Name}
		if uid, known := c.referred[name]; known && uid != ref.UID {
			c.referred[name] = ""
		} else {
			c.referred[name] = ref.UID
		}
	}
}

// Started ends the start.
func (c *Objects) Started() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.referred = nil
}

// Mapper resolves the versions of kinds.
func (c *Objects) Mapper() meta.ResettableRESTMapper { return c.mapper }

// remembered returns an object that may be read from memory; nil if it must be read
// from the API server.
func (c *Objects) remembered(r schema.GroupVersionResource, namespace, name string) *metav1.PartialObjectMetadata {
	kind, err := c.mapper.KindFor(r)
	c.mu.Lock()
	watched, owns := c.known[r], c.owners[kind.GroupKind()]
	meant := c.referred[ownerName{kind.GroupKind(), namespace, name}]
	c.mu.Unlock()
	if err != nil || watched == nil || !watched.HasSynced() {
		return nil
	}
	found, ok, err := watched.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !ok {
		return nil
	}
	obj := found.(*metav1.PartialObjectMetadata)
	// Dependents of an owner without a namespace may be in any namespace.
	if owns && (namespace == "" || meant == "" || meant != obj.UID) {
		return nil
	}
	return obj.DeepCopy()
}

// Resource implements metadata.Interface.
func (c *Objects) Resource(r schema.GroupVersionResource) metadata.Getter {
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

// collectedObjects reads objects in one namespace.
type collectedObjects struct {
	metadata.ResourceInterface
	c         *Objects
	resource  schema.GroupVersionResource
	namespace string
}

// Get implements metadata.ResourceInterface.
func (o collectedObjects) Get(ctx context.Context, name string, opts metav1.GetOptions, sub ...string) (*metav1.PartialObjectMetadata, error) {
	if obj := o.c.remembered(o.resource, o.namespace, name); obj != nil {
		return obj, nil
	}
	obj, err := o.ResourceInterface.Get(ctx, name, opts, sub...)
	if err == nil {
		o.c.noteOwners(obj)
	}
	return obj, err
}

// settles is for how long after the last change of a definition discovery is read
// again.
const settles = 5 * time.Second

// Discovery answers from memory unless a definition has just changed.
type Discovery struct {
	discovery.ServerResourcesInterface
	now func() time.Time

	mu      sync.Mutex // guards what follows
	changed time.Time
	answer  []*metav1.APIResourceList
}

// NewDiscovery returns what reads from discovery, by a clock.
func NewDiscovery(of discovery.ServerResourcesInterface, now func() time.Time) *Discovery {
	return &Discovery{ServerResourcesInterface: of, now: now}
}

// Mark notes a change of a definition.
func (d *Discovery) Mark() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = d.now()
}

// ServerPreferredResources implements discovery.ServerResourcesInterface.
func (d *Discovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	d.mu.Lock()
	fresh, answer := d.now().Sub(d.changed) > settles, d.answer
	d.mu.Unlock()
	if fresh && answer != nil {
		return answer, nil
	}
	answer, err := d.ServerResourcesInterface.ServerPreferredResources()
	if err == nil { // a partial answer is requested again
		d.mu.Lock()
		d.answer = answer
		d.mu.Unlock()
	}
	return answer, err
}
