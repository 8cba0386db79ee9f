// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/status"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// Name is the name of the controller.
const Name = "topology"

// manager is the field manager of the desired fields in a topology's objects.
const manager = metadata.Topologies

// followUp is the minimum interval between reconciles of a topology: its objects
// change a dozen times while a cluster is provisioned, and each reconcile reads all
// of them.
const followUp = 500 * time.Millisecond

// Extensions calls runtime extensions, and caches answers.
type Extensions interface {
	CallExtension(ctx context.Context, hook any, forObject metav1.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
	// Reject evicts an answer that cannot be used.
	Reject(hook any, name string, request hooksv1.RequestObject)
	CallAllExtensions(ctx context.Context, hook any, forObject metav1.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
	// Source returns requests for the objects that a changed registration affects.
	Source(extensions.ToRequests) source.Source
}

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Classes    *classes.Classes
	Schemas    *apply.Schemas
	Extensions Extensions

	watcher  provider.Watcher // set by Setup; without it nothing is watched
	memories controller.Memory[*memory]
}

// Setup registers the controller and its watches; watches of provider kinds start
// when classes name the kinds. The index of Clusters by their references is that of
// controller cluster.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("topology"); err != nil {
		return err
	}
	if r.Classes == nil || r.Schemas == nil || r.Extensions == nil {
		return errors.New("topology: Classes, Schemas and Extensions are required")
	}
	r.watcher, err = controller.For(mgr, Name, &clusterv1.Cluster{}, clusterMatters(), notJustCreated()).
		Watches(&clusterv1.ClusterClass{}, controller.OfClass(r.Mgmt), classMatters()).
		Watches(&clusterv1.MachineDeployment{}, ofOwned, ownedMatters()).
		Watches(&clusterv1.MachinePool{}, ofOwned, poolMatters()).
		Watches(&clusterv1.MachineHealthCheck{}, ofOwned, ownedMatters()).
		Watches(&clusterv1.MachineSet{}, ofOwned, gone()).
		Watches(&clusterv1.Machine{}, r.ofMachine, machineMatters()).
		WatchesSource(r.Extensions.Source(r.ofExtension)).
		WatchesSource(r.Workload.Source(&corev1.Node{}, r.ofNode)).
		WatchesSource(r.Workload.Source(nil, r.ofNode)).
		Concurrency(50).
		Pace(followUp).
		Build(r)
	return err
}

// state has what one reconcile has read. The phases fill it, and report reads
// nothing else.
type state struct {
	cluster    *clusterv1.Cluster // as it was read; what is reported about it is written at the end
	generation int64              // of its stored spec, if that has changed since
	memory     *memory

	class     *clusterv1.ClusterClass
	wanted    *clusterv1.Cluster // the Cluster with its variables defaulted
	blueprint blueprint.Blueprint
	contract  string // that the control plane follows
	current   desired.Current
	groups    map[upgrade.GroupKey]*group // that exist, and are not being deleted
	lost      error                       // why the infrastructure cannot be used
	desired   desired.Desired
	facts     status.Facts

	problems    []error             // with parts of the topology
	notes       []string            // information for users
	did         map[string][]string // for events, by their reasons
	used        map[object]bool     // that are referred to
	seen        []string            // what was read, by UIDs and versions
	fingerprint fingerprint         // and a hash of all of it
	asked       bool                // an extension was called
	reject      []func()            // drops the answers of extensions
}

// memory is what is cached for a Cluster from one reconcile to the next. It is lost
// at a restart, which costs no request.
type memory struct {
	written   apply.Memory
	values    values
	kinds     map[schema.GroupKind]bool // of templates and of objects of pools
	unchanged *unchanged                // the result of the last reconcile; nil if the next has to compute everything again
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	live := reconciler.InOrder(
		reconciler.Do("class", r.readClass),
		reconciler.Do("variables", r.defaultVariables),
		reconciler.Do("what there is", r.readCurrent),
		reconciler.Do("versions", r.readVersions),
		reconciler.Do("what is new", r.reuseUnchanged),
		reconciler.Do("plan", r.planVersions),
		reconciler.Do("desired objects", r.compute),
		reconciler.Do("Cluster", r.writeCluster),
		reconciler.Do("objects", r.writeObjects),
		reconciler.Do("leftovers", r.removeLeftovers))
	return reconciler.Flow[*clusterv1.Cluster, state]{
		Clock:    r.Clock,
		Observe:  r.observe,
		Snapshot: func(*state) patch.Commit { return r.snapshot(cluster) },
		Cluster:  func(*state) *clusterv1.Cluster { return cluster },
		Paused:   r.paused,
		Normal: func(ctx context.Context, s *state) (ctrl.Result, error) {
			res, err := live(ctx, s)
			if err = errors.Join(err, s.failure()); err != nil {
				for _, reject := range s.reject { // any of them may be the reason
					reject()
				}
			}
			r.settle(s, res, err)
			return res, err
		},
		Delete: reconciler.InOrder(reconciler.Do("BeforeClusterDelete", r.beforeDelete)),
		Report: r.report,
	}.Reconcile(ctx, cluster)
}

// failure returns the errors of parts, none of which stopped another part.
func (s *state) failure() error { return errors.Join(append([]error{s.lost}, s.problems...)...) }

// observe starts a reconcile. It returns no state without a topology, nor before
// the Cluster has its finalizer: if the Cluster were deleted in between, the
// created objects would be left behind.
func (r *Reconciler) observe(_ context.Context, cluster *clusterv1.Cluster) (*state, error) {
	if !cluster.Spec.Topology.IsDefined() || !controllerutil.ContainsFinalizer(cluster, clusterv1.ClusterFinalizer) {
		return nil, nil
	}
	s := &state{cluster: cluster, memory: r.memories.Get(cluster), used: map[object]bool{}}
	if s.memory == nil {
		s.memory = &memory{kinds: map[schema.GroupKind]bool{}}
		r.memories.Set(cluster, s.memory)
	}
	return s, nil
}

// snapshot copies the Cluster, whose conditions have another writer, too. The report
// can wait: no controller waits for it, and a Cluster that is being provisioned is
// written again soon by its own controller, whose write then includes it. A pause or
// a deletion is reported immediately.
func (r *Reconciler) snapshot(cluster *clusterv1.Cluster) patch.Commit {
	awaited := pause.Requested(cluster, cluster) || !cluster.DeletionTimestamp.IsZero()
	return patch.Snapshot(r.Mgmt, cluster, patch.Locked, patch.Debounced(r.Debounce), patch.Carried(r.carry), patch.Immediately(awaited))
}

// writer applies the desired state.
func (r *Reconciler) writer() *apply.Writer {
	return &apply.Writer{Mgmt: r.Mgmt, Live: r.Live, Schemas: r.Schemas, Manager: manager, Clock: r.Clock}
}

// Forget drops the cached data of a deleted Cluster.
func (r *Reconciler) Forget(key client.ObjectKey) { r.memories.Forget(key) }

// seconds is the wait that an extension requests.
func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
