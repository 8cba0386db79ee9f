// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/host/podvolumes"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

var podRange = netip.MustParsePrefix(podspec.PodRange)

// stopTimeout is how long the stop of the plane waits for its Pods: all receive the
// request immediately, and those that remain afterwards end with their sandboxes.
const stopTimeout = 8 * time.Second

// Tokens creates tokens of ServiceAccounts, and returns when they expire.
type Tokens interface {
	Token(ctx context.Context, pod *corev1.Pod, t podspec.Token) (token string, ends time.Time, err error)
}

// Options are the dependencies of a Node. All are required.
type Options struct {
	// Object is the Node as it is created; Pods have its name in spec.nodeName.
	Object *corev1.Node
	// Address is the host address that Pods receive.
	Address string
	// DNS is the name server of Pods.
	DNS netip.Addr

	Sandboxes Sandboxes
	// Unlimited means that sandboxes do not enforce memory and CPU limits.
	Unlimited bool
	Images    Images
	Tokens    Tokens
	Logs      *podlogs.Store
	Volumes   *podvolumes.Store
	// Space returns the space of the disk that has the volumes.
	Space func() (diskspace.Space, error)
	// Live reads Secrets, ConfigMaps and Services.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.WithDelayedExecution
}

func (o Options) validate() error {
	if o.Object == nil || o.Sandboxes == nil || o.Images == nil || o.Tokens == nil || o.Logs == nil || o.Volumes == nil || o.Space == nil || o.Live == nil || o.Recorder == nil || o.Clock == nil || !o.DNS.IsValid() {
		return errors.New("set up the runner: an option is missing")
	}
	return nil
}

// Node runs the Pods of a plane.
type Node struct {
	Options

	ctx     context.Context // of all Pods
	cancel  context.CancelFunc
	running sync.WaitGroup

	relieving sync.Mutex // held during a check of the disk, so that checks do not overlap

	mu        sync.Mutex // guards what follows
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
	pods      map[types.UID]*life
	addresses map[netip.Addr]*life
	last      netip.Addr
	closed    bool
	evicted   map[types.UID]eviction // the last eviction by owner of the Pods
}

// NewNode returns a Node without Pods.
func NewNode(o Options) (*Node, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Node{
		Options: o, ctx: ctx, cancel: cancel,
		pods: map[types.UID]*life{}, evicted: map[types.UID]eviction{}, addresses: map[netip.Addr]*life{}, last: podRange.Addr().Next(), // .1 is left for a gateway
	}, nil
}

// Start runs until ctx ends, and then ends all Pods. It is a Runnable of the
// manager.
func (n *Node) Start(ctx context.Context) error {
	<-ctx.Done()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	all := n.lives()
	for _, l := range all {
		l.stop(min(stopTimeout, l.grace()))
	}
	stopped := make(chan struct{})
	n.running.Go(recovery.Func(ctx, func() {
		defer close(stopped)
		for _, l := range all {
			<-l.ended
		}
	}))
	timer := n.Clock.NewTimer(stopTimeout + time.Second)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C():
	}
	n.cancel()
	n.running.Wait()
	return nil
}

// waker is the source by which the node triggers reconciles.
type waker struct{ n *Node }

// Start implements source.Source.
func (w waker) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	w.n.queue = q
	return nil
}

func (n *Node) trigger(key client.ObjectKey) {
	n.mu.Lock()
	q := n.queue
	n.mu.Unlock()
	if q != nil {
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

// refreshing is the queue of a watch of objects that Pods name: it notifies the
// Pod, which updates its volumes, before the Pod is reconciled.
type refreshing struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	n *Node
}

// Add implements workqueue.TypedInterface.
func (r refreshing) Add(req reconcile.Request) {
	if l := r.n.named(req.NamespacedName); l != nil {
		l.volumesChanged()
	}
	r.TypedRateLimitingInterface.Add(req)
}

// Objects is a watch of objects that Pods name.
type Objects interface {
	Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error
	Follow(obj client.ObjectKey, named ...client.ObjectKey)
}

type objects struct {
	Objects
	n *Node
}

// Start implements source.Source.
func (o objects) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return o.Objects.Start(ctx, refreshing{q, o.n})
}

func (n *Node) life(uid types.UID) *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[uid]
}

// named returns the Pod of a name, rather than an earlier one that ends; nil if there is
// none.
func (n *Node) named(key client.ObjectKey) (found *life) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.pods {
		if l.key == key && (found == nil || found.stopping()) {
			found = l
		}
	}
	return found
}

// take starts to run a Pod, which has an address from now on.
func (n *Node) take(pod *corev1.Pod) (*life, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("the plane ends")
	}
	address, err := n.free()
	if err != nil {
		return nil, err
	}
	l := newLife(n, pod, address)
	n.pods[pod.UID], n.addresses[address] = l, l
	n.running.Go(l.part(func() { l.run(n.ctx) }))
	return l, nil
}

// free returns the next unused address: a released address is not assigned again
// immediately, since other clients may still use it for the earlier Pod.
func (n *Node) free() (netip.Addr, error) {
	for range 1 << (32 - podRange.Bits()) {
		if n.last = n.last.Next(); !podRange.Contains(n.last) {
			n.last = podRange.Addr().Next().Next()
		}
		if n.addresses[n.last] == nil {
			return n.last, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %s are taken: delete Pods", podRange)
}

// forget removes a Pod that has ended. Files that cannot be removed do not prevent
// that: they are renamed by then, and reported.
func (n *Node) forget(l *life) {
	n.mu.Lock()
	delete(n.pods, l.uid)
	if n.addresses[l.address] == l { // it may be called again
		delete(n.addresses, l.address)
	}
	n.mu.Unlock()
	if err := errors.Join(n.Logs.Remove(l.name), n.Volumes.Remove(l.name)); err != nil {
		klog.ErrorS(err, "Leaving files of a Pod", "pod", klog.KRef(l.key.Namespace, l.key.Name))
		l.event(corev1.EventTypeWarning, "FailedUnmount", "Deleting", "%v", err)
	}
}

// Dial connects to a port of the Pod with an address.
func (n *Node) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	l := n.addresses[to.Addr()]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("no Pod has the address %s", to.Addr())
	}
	return l.dial(ctx, int(to.Port()))
}
