// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// informer reads the objects of one kind. A factory of client-go never stops the
// informer of a kind that is no longer served: it requests the kind, and logs the
// refusal, until the process exits.
type informer struct {
	informers.GenericInformer
	cache.SharedIndexInformer
	c        *Objects
	resource schema.GroupVersionResource
	started  bool
	uses     int // it runs while there is one
	stopped  chan struct{}
}

// ForResource implements informerfactory.InformerFactory, for controllers that
// follow all kinds. An informer is used from GetController to the end of what that
// returns.
func (c *Objects) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.informer(r), nil
}

// Shared returns the informer of a kind that is always served. It runs until
// Shutdown.
func (c *Objects) Shared(r schema.GroupVersionResource) cache.SharedInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.informer(r)
	i.uses++
	return i
}

func (c *Objects) informer(r schema.GroupVersionResource) *informer {
	if i := c.known[r]; i != nil {
		return i
	}
	generic := metadatainformer.NewFilteredMetadataInformer(c.Interface, r, metav1.NamespaceAll, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	i := &informer{GenericInformer: generic, SharedIndexInformer: generic.Informer(), c: c, resource: r, stopped: make(chan struct{})}
	_ = i.SetTransform(c.enter) // which only a started informer refuses
	c.known[r] = i
	return i
}

// Start implements informerfactory.InformerFactory. The informers run until
// Shutdown, or until no controller follows their kind.
func (c *Objects) Start(<-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.known {
		if !i.started && i.uses > 0 {
			i.started = true
			c.running.Go(recovery.Func(context.Background(), func() { i.SharedIndexInformer.Run(i.stopped) }))
		}
	}
}

// Shutdown stops all informers and waits for them.
func (c *Objects) Shutdown() {
	c.mu.Lock()
	for r, i := range c.known {
		delete(c.known, r)
		close(i.stopped)
	}
	c.mu.Unlock()
	c.running.Wait()
}

// Informer implements informers.GenericInformer.
func (i *informer) Informer() cache.SharedIndexInformer { return i }

// GetController implements cache.SharedInformer.
func (i *informer) GetController() cache.Controller {
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	i.uses++
	return monitor{i.SharedIndexInformer.GetController(), i}
}

// drop ends a use of the informer. A kind that is served again gets a new one.
func (i *informer) drop() {
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	if i.uses--; i.uses == 0 && i.c.known[i.resource] == i {
		delete(i.c.known, i.resource)
		close(i.stopped)
	}
}

// monitor is what a controller runs for as long as it follows a kind.
type monitor struct {
	cache.Controller
	informer *informer
}

// Run implements cache.Controller.
func (m monitor) Run(stop <-chan struct{}) {
	<-stop
	m.informer.drop()
}
