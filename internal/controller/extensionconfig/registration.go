// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// An extension may take ten seconds to answer, and its ExtensionConfig may be
// deleted meanwhile. So the data of an ExtensionConfig changes only under the lock,
// and only while the cache still has the object. When the watch reports a deletion,
// the cache no longer has it, and the sweep that follows takes the same lock. In
// either order, nothing is left behind.

// whileThere calls keep unless the ExtensionConfig is deleted or being deleted, in
// which case it removes the data of the object.
func (r *Reconciler) whileThere(ctx context.Context, config *runtimev1.ExtensionConfig, keep func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there, err := r.there(ctx, config.Name)
	if err != nil {
		return err
	}
	if there == "" {
		r.drop(config.Name)
	}
	if there != config.UID {
		return nil // a new object has the name and will be reconciled
	}
	return keep()
}

// register registers an extension according to its spec and status.
func (r *Reconciler) register(ctx context.Context, config *runtimev1.ExtensionConfig) error {
	return r.whileThere(ctx, config, func() error { return r.set(config) })
}

func (r *Reconciler) set(config *runtimev1.ExtensionConfig) error {
	if err := r.Registry.Set(config); err != nil {
		return fmt.Errorf("register handlers: %w", err)
	}
	if r.registered == nil {
		r.registered = map[string]types.UID{}
	}
	r.registered[config.Name] = config.UID
	return nil
}

// sweep ends calls to an ExtensionConfig that is deleted or being deleted.
func (r *Reconciler) sweep(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there, err := r.there(ctx, name)
	switch {
	case err != nil:
		return err
	case there == "":
		r.drop(name)
	case there != r.registered[name]: // a new object of that name, whose handlers are not discovered yet
		delete(r.registered, name)
		r.Registry.Remove(name)
	}
	return nil
}

// there returns the UID of an ExtensionConfig; "" for one that is deleted, being
// deleted, or outside the label filter of this manager.
func (r *Reconciler) there(ctx context.Context, name string) (types.UID, error) {
	config := &runtimev1.ExtensionConfig{}
	err := r.Mgmt.Get(ctx, client.ObjectKey{Name: name}, config)
	if apierrors.IsNotFound(err) || err == nil && (!config.DeletionTimestamp.IsZero() || r.ours != nil && !r.ours(config)) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read ExtensionConfig %s: %w", name, err)
	}
	return config.UID, nil
}

// drop removes all data of an ExtensionConfig.
func (r *Reconciler) drop(name string) {
	delete(r.registered, name)
	r.Registry.Remove(name)
	r.attempts.forget(name)
	r.Secrets.Follow(client.ObjectKey{Name: name})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// removals sweeps as soon as the watch shows that an ExtensionConfig is being
// deleted. It adds nothing to the queue: the reconciler is not called for a deleted
// object, and would be too late.
func (r *Reconciler) removals(c cache.Cache) source.Source {
	return source.Kind(c, &runtimev1.ExtensionConfig{}, handler.TypedFuncs[*runtimev1.ExtensionConfig, reconcile.Request]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*runtimev1.ExtensionConfig], _ queue) {
			if !e.ObjectNew.DeletionTimestamp.IsZero() || e.ObjectNew.UID != e.ObjectOld.UID || !r.ours(e.ObjectNew) {
				r.gone(ctx, e.ObjectNew.Name)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*runtimev1.ExtensionConfig], _ queue) {
			r.gone(ctx, e.Object.Name)
		},
	})
}

func (r *Reconciler) gone(ctx context.Context, name string) {
	if err := r.sweep(ctx, name); err != nil { // a read of the cache fails only when the process stops
		ctrl.LoggerFrom(ctx).Error(err, "Ending calls to a deleted extension", "ExtensionConfig", name)
	}
	r.Registry.Tried(name)
}

// warmUp registers extensions from their status at the start, so that calls need
// not wait for another discovery, and sets the extensions for which the registry
// waits.
type warmUp struct{ *Reconciler }

// Start implements manager.Runnable.
func (w warmUp) Start(ctx context.Context) error {
	r, list := w.Reconciler, &runtimev1.ExtensionConfigList{}
	if err := r.Mgmt.List(ctx, list); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("list ExtensionConfigs: %w", err)
	}
	var names []string
	for i := range list.Items {
		config := &list.Items[i]
		if !r.ours(config) || !config.DeletionTimestamp.IsZero() {
			continue
		}
		names = append(names, config.Name)
		err := r.whileThere(ctx, config, func() error {
			if !extensionconfig.Known(config) || r.registered[config.Name] == config.UID {
				return nil
			}
			return r.set(config)
		})
		if err != nil { // its reconcile will get the same error and report it
			ctrl.LoggerFrom(ctx).V(2).Info("Leaving an extension to be discovered", "ExtensionConfig", config.Name, "reason", err.Error())
		}
	}
	r.Registry.Expect(names...)
	for _, name := range names {
		if there, err := r.there(ctx, name); err == nil && there == "" || r.attempts.has(name) {
			r.Registry.Tried(name) // before it was expected
		}
	}
	return nil
}

// follow registers the results of the controller in another process. Until that
// controller has reported the current spec, the earlier registration stays, and
// after a start calls wait: a hook would be skipped if it has no handlers only
// because discovery has not run yet.
func (r *Reconciler) follow(ctx context.Context, config *runtimev1.ExtensionConfig) error {
	if !config.DeletionTimestamp.IsZero() {
		return r.sweep(ctx, config.Name)
	}
	told := conditions.Get(config, runtimev1.ExtensionConfigDiscoveredCondition)
	if !pause.Requested(nil, config) && (told == nil || told.ObservedGeneration != config.Generation) {
		return nil
	}
	defer r.Registry.Tried(config.Name)
	return r.register(ctx, config)
}
