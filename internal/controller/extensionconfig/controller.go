// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

const (
	name = "extensionconfig"

	// workers is the number of extensions that are discovered concurrently. A
	// worker only waits for an answer, up to ten seconds for an extension that
	// hangs, and costs a few KiB of stack. With this many, half of 500 extensions
	// may hang and the other half is still discovered immediately.
	workers = 256
)

// Extensions discovers the handlers of an extension.
type Extensions interface {
	Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error)
}

// Registry has the extensions that can be called.
type Registry interface {
	// Set registers the handlers in the status with the settings in the spec. It
	// does not retain config.
	Set(config *runtimev1.ExtensionConfig) error
	// Remove ends all calls to the extension.
	Remove(name string)
	// Expect sets the extensions that must be Tried before the registry is ready.
	Expect(names ...string)
	// Tried reports that discovery of an extension was attempted, with any result.
	Tried(name string)
}

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Extensions Extensions
	Registry   Registry
	Catalog    *catalog.Catalog
	// Random is in [0,1): it spreads the next discoveries of extensions that were
	// discovered at the same time.
	Random func() float64
	// Follow means that the controller runs in another process: this one registers
	// the results in the status, discovers nothing and writes nothing.
	Follow bool

	// Secrets watches the Secrets that annotations name; nil watches none.
	Secrets *secretwatch.Follower

	attempts attempts
	ours     func(client.Object) bool // set by Setup

	mu         sync.Mutex // held while the data of an ExtensionConfig changes; guards registered
	registered map[string]types.UID
}

// Setup registers the controller, its watches and the warm-up of the registry.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if err := r.Check("extensionconfig"); err != nil {
		return err
	}
	if r.Extensions == nil || r.Registry == nil || r.Catalog == nil || r.Random == nil {
		return errors.New("extensionconfig: Extensions, Registry, Catalog and Random are required")
	}
	r.ours = controller.Ours(mgr)
	if r.Follow {
		if err := mgr.Add(warmUp{r}); err != nil {
			return err
		}
		return controller.For(mgr, name, &runtimev1.ExtensionConfig{}).WatchesSource(r.removals(mgr.GetCache())).Complete(r)
	}
	if err := mgr.Add(warmUp{r}); err != nil {
		return err
	}
	return controller.For(mgr, name, &runtimev1.ExtensionConfig{}, predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})).
		WatchesSource(r.removals(mgr.GetCache())).
		WatchesSource(source.Func(r.Secrets.Start)).
		Concurrency(workers).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler. There is no finalizer: the data
// of an ExtensionConfig is only in this process, which observes the deletion.
func (r *Reconciler) Reconcile(ctx context.Context, config *runtimev1.ExtensionConfig) (ctrl.Result, error) {
	if r.Follow {
		return ctrl.Result{}, r.follow(ctx, config)
	}
	defer r.Registry.Tried(config.Name)
	return reconciler.Flow[*runtimev1.ExtensionConfig, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(s *state) patch.Commit {
			write := patch.Snapshot(r.Mgmt, config)
			return func(ctx context.Context) error { return r.note(ctx, s, write(ctx)) }
		},
		Normal: reconciler.InOrder(
			reconciler.Do("certificate authority", r.inject),
			reconciler.Do("discovery", r.rediscover)),
		Report:     r.report,
		Deprecated: reconciler.If(r.Deprecated, reportDeprecated),
		Deadline:   func(s *state) time.Time { return s.due },
	}.Reconcile(ctx, config)
}

// note records the discovery after its result is stored; if storing fails,
// discovery is repeated.
func (r *Reconciler) note(ctx context.Context, s *state, failed error) error {
	switch {
	case s.asked == nil:
		return failed
	case failed != nil:
		r.attempts.forget(s.config.Name)
		return failed
	}
	return r.whileThere(ctx, s.config, func() error {
		s.due = r.Clock.Now().Add(r.attempts.note(s.config.Name, *s.asked, s.failed != nil, r.Clock.Now(), r.Random()))
		return nil
	})
}

// rediscover calls the extension, unless its last answer is still valid.
func (r *Reconciler) rediscover(ctx context.Context, s *state) (reconciler.Next, error) {
	asked := s.inputs()
	if wait := r.attempts.wait(s.config.Name, asked, s.now); wait > 0 {
		return reconciler.Wait(wait), nil
	}
	if err := r.discover(ctx, s); err != nil {
		return reconciler.Continue(), err
	}
	s.asked = &asked
	r.emit(ctx, s)
	return reconciler.Continue(), nil
}

// discover registers the extension with its current spec, calls it, and registers
// its answer. A failure of the extension is not returned but stored in s.failed.
func (r *Reconciler) discover(ctx context.Context, s *state) error {
	// Settings and selector take effect now, before the answer arrives. An
	// extension that was never discovered is registered as such: hooks wait for it.
	stale := r.register(ctx, s.config)
	if s.failed == nil {
		s.fail(r.ask(ctx, s))
		if ctx.Err() != nil { // the process is stopping, which is not a failure of the extension
			return fmt.Errorf("discover extension %s: %w", s.config.Name, context.Cause(ctx))
		}
		if s.failed == nil {
			s.fail(r.register(ctx, s.config))
			return nil
		}
	}
	s.failed = errors.Join(s.failed, stale)
	return nil
}

// ask calls the discovery hook of the extension.
func (r *Reconciler) ask(ctx context.Context, s *state) error {
	answer, err := r.Extensions.Discover(ctx, s.config)
	if err != nil {
		return err
	}
	handlers, err := extensionconfig.Handlers(r.Catalog, s.config.Name, answer)
	if err != nil {
		return fmt.Errorf("the answer to discovery is of no use: %w", err)
	}
	s.config.Status.Handlers = handlers
	return nil
}
