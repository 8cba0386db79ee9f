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
	"github.com/capstan-dev/capstan/internal/pure/extensions"
)

// An extension may take ten seconds to answer, and its ExtensionConfig may be
// deleted meanwhile. So whatever is kept for an ExtensionConfig changes under
// the lock, and only while the cache still shows it; when the watch tells of a
// deletion the cache no longer does, and the sweep that follows takes the same
// lock. Whoever comes last, nothing is left behind.

// whileThere calls keep unless the ExtensionConfig is going or gone, in which
// case nothing is kept any more.
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
		return nil // another one has the name: its own reconcile is about to come
	}
	return keep()
}

// register makes the registry call an extension as its spec and status say.
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

// sweep ends calls to an ExtensionConfig that is going or gone.
func (r *Reconciler) sweep(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there, err := r.there(ctx, name)
	switch {
	case err != nil:
		return err
	case there == "":
		r.drop(name)
	case there != r.registered[name]: // a new one of that name, whose handlers are not known yet
		delete(r.registered, name)
		r.Registry.Remove(name)
	}
	return nil
}

// there returns the UID of an ExtensionConfig, "" for one that is going, gone, or
// that others take care of.
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

// drop lets go of all that is kept for an ExtensionConfig.
func (r *Reconciler) drop(name string) {
	delete(r.registered, name)
	r.Registry.Remove(name)
	r.attempts.forget(name)
	r.Secrets.Follow(client.ObjectKey{Name: name})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// removals sweeps as soon as the watch shows that an ExtensionConfig goes. It
// queues nothing: a reconcile of what is gone would not be called, and would
// come too late.
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
	if err := r.sweep(ctx, name); err != nil { // the cache cannot fail to be read but when all ends
		ctrl.LoggerFrom(ctx).Error(err, "Ending calls to a deleted extension", "ExtensionConfig", name)
	}
	r.Registry.Tried(name)
}

// warmUp registers at the start what the status tells, so that calls need not
// wait for extensions to be discovered again, and tells the registry whom to
// wait for.
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
			if !extensions.Known(config) || r.registered[config.Name] == config.UID {
				return nil
			}
			return r.set(config)
		})
		if err != nil { // its reconcile will meet the same, and tell
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
