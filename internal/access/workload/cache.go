// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// attempts is the number of concurrent attempts to connect, for clusters that are
// tried for the first time and for those that failed before, each. So any number of
// unreachable clusters does not delay a new one.
const attempts = 32

// Options configure a Cache.
type Options struct {
	Mgmt    client.Reader // Clusters of the management cluster, from its cache
	Secrets client.Reader // kubeconfig Secrets, from its cache
	Clock   clock.PassiveClock
	// Dial connects to an API server; nil uses the network of this host.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Cache holds the connections to all workload clusters.
type Cache struct {
	Options
	subscribers subscribers
	answers     *budget       // of responses in progress
	views       *budget       // of the objects in views
	fresh       chan struct{} // slots for first attempts
	retries     chan struct{} // slots for later attempts
	started     chan struct{} // closed when Start has set ctx

	mu       sync.Mutex                   // guards the fields below; never held during I/O
	keepers  map[client.ObjectKey]*keeper // clusters that are connected or should be
	ctx      context.Context              // of Start; keepers run as long as it
	since    time.Time                    // of Start; zero before
	stopping bool                         // no further keeper starts
	keeping  sync.WaitGroup               // running keepers
}

var _ Clusters = (*Cache)(nil)

// New returns a Cache without connections. It works once Setup has registered it
// and the manager has started it.
func New(o Options) *Cache {
	return &Cache{
		Options: o,
		answers: newAnswers(),
		views:   newViews(),
		fresh:   make(chan struct{}, attempts),
		retries: make(chan struct{}, attempts),
		started: make(chan struct{}),
		keepers: map[client.ObjectKey]*keeper{},
	}
}

// Setup registers the controller that notifies the Cache of Clusters.
func (c *Cache) Setup(mgr ctrl.Manager) error {
	if c.Mgmt == nil || c.Secrets == nil || c.Clock == nil {
		return errors.New("workload: Mgmt, Secrets and Clock are required")
	}
	if err := mgr.Add(c); err != nil {
		return err
	}
	return controller.For(mgr, "clustercache", &clusterv1.Cluster{}, becomesReachable()).
		Watches(&corev1.Secret{}, clusterOfKubeconfig).
		Watches(&clusterv1.Machine{}, clusterOfMachine, mayAnswerNow()).
		Concurrency(4).
		Complete(c)
}

// clusterOfKubeconfig maps a kubeconfig Secret to its Cluster.
func clusterOfKubeconfig(_ context.Context, obj client.Object) []reconcile.Request {
	name, ok := strings.CutSuffix(obj.GetName(), "-"+string(certs.Kubeconfig))
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

func clusterOfMachine(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

// mayAnswerNow accepts the event in which a control plane machine has started: its
// API server may answer from now on, so an attempt is useful.
func mayAnswerNow() predicate.Predicate {
	provisioned := func(obj client.Object) bool {
		m, ok := obj.(*clusterv1.Machine)
		return ok && m.Status.Initialization.InfrastructureProvisioned != nil && *m.Status.Initialization.InfrastructureProvisioned
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			_, controlPlane := e.ObjectNew.GetLabels()[clusterv1.MachineControlPlaneLabel]
			return controlPlane && !provisioned(e.ObjectOld) && provisioned(e.ObjectNew)
		},
	}
}

// becomesReachable drops the many changes of a Cluster that are irrelevant here.
func becomesReachable() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return ok && ok2 && !infrastructureProvisioned(before) && infrastructureProvisioned(after)
	}}
}

// Reconcile starts the keeper of a Cluster if needed, and notifies it of the
// change. It never waits for a network.
func (c *Cache) Reconcile(ctx context.Context, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	if !infrastructureProvisioned(cluster) {
		return ctrl.Result{}, nil
	}
	select {
	case <-c.started:
	case <-ctx.Done():
		return ctrl.Result{}, ctx.Err()
	}
	c.notify(client.ObjectKeyFromObject(cluster))
	return ctrl.Result{}, nil
}

func infrastructureProvisioned(cluster *clusterv1.Cluster) bool {
	provisioned := cluster.Status.Initialization.InfrastructureProvisioned
	return provisioned != nil && *provisioned
}

// Start implements manager.Runnable. It returns when ctx is done and every
// connection is closed.
func (c *Cache) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx, c.since = ctx, c.Clock.Now()
	c.mu.Unlock()
	close(c.started)
	<-ctx.Done()
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	c.keeping.Wait()
	return nil
}

// notify notifies the keeper of a cluster, and starts one if there is none.
func (c *Cache) notify(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keepers[key]
	if !ok && !c.stopping {
		k = newKeeper(c, key)
		c.keepers[key] = k
		c.keeping.Go(recovery.Func(c.ctx, func() { k.run(c.ctx) }))
	}
	if k != nil {
		k.retryNow()
	}
}

// forget removes a keeper so that it can end, unless it was notified meanwhile.
func (c *Cache) forget(k *keeper) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(k.woken) > 0 {
		return false
	}
	delete(c.keepers, k.key)
	return true
}

func (c *Cache) find(key client.ObjectKey) *keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepers[key]
}

func (c *Cache) connection(key client.ObjectKey) (*connection, error) {
	if k := c.find(key); k != nil {
		if conn := k.connection(); conn != nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("cluster %s: %w", key, ErrNotConnected)
}

// Client implements Clusters.
func (c *Cache) Client(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	conn, err := c.connection(cluster)
	if err != nil {
		return nil, err
	}
	return conn.client, nil
}

// Config implements Clusters.
func (c *Cache) Config(cluster client.ObjectKey) (*rest.Config, error) {
	conn, err := c.connection(cluster)
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(conn.config), nil
}

// Health implements Clusters.
func (c *Cache) Health(cluster client.ObjectKey) Health {
	if k := c.find(cluster); k != nil {
		return k.currentHealth()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return Health{Since: c.Clock.Now()}
	}
	return Health{Since: c.since}
}

// subscribers are the controllers that events of workload clusters trigger. The
// zero value has none.
type subscribers struct {
	mu     sync.RWMutex                  // guards byKind
	byKind map[reflect.Type][]subscriber // a nil type represents changes of connections
}

type subscriber struct {
	ctx        context.Context // of the controller that subscribed
	toRequests ToRequests
	queue      workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Source implements Clusters.
func (c *Cache) Source(obj client.Object, toRequests ToRequests) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.subscribers.add(reflect.TypeOf(obj), subscriber{ctx, toRequests, queue})
		return nil
	})
}

func (s *subscribers) add(kind reflect.Type, sub subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKind == nil {
		s.byKind = map[reflect.Type][]subscriber{}
	}
	s.byKind[kind] = append(s.byKind[kind], sub)
}

// notify triggers the subscribers to the kind of obj; nil is the connection.
func (s *subscribers) notify(cluster client.ObjectKey, obj client.Object) {
	s.mu.RLock()
	subs := s.byKind[reflect.TypeOf(obj)] // append never changes what is already in a slice
	s.mu.RUnlock()
	for _, sub := range subs {
		for _, req := range sub.toRequests(sub.ctx, cluster, obj) {
			sub.queue.Add(req)
		}
	}
}
