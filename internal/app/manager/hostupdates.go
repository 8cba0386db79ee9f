// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/server"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/updateextension"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// openHostUpdates serves the extension that updates container machines in place,
// and registers it, if that is enabled; otherwise it removes the registration of an
// earlier process: rollouts would wait for it forever.
func (m *Manager) openHostUpdates() error {
	updater, can := m.backends.Container.(localinfra.Updater)
	if !can || !m.options.callsExtensions() {
		return nil
	}
	live, err := client.New(m.mgr.GetConfig(), client.Options{Scheme: m.mgr.GetScheme(), HTTPClient: m.mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("set up updates of container machines: %w", err)
	}
	if !m.options.UpdateInPlace {
		return m.mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
			if err := unregister(ctx, m.mgr.GetClient(), live); ctx.Err() == nil {
				return err
			}
			return nil
		}))
	}
	s, err := updateextension.New(updater, m.mgr.GetClient(), server.Options{Log: m.options.Log.WithName("updates")})
	if err != nil {
		return fmt.Errorf("set up updates of container machines: %w", err)
	}
	return m.mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan error, 1)
		go recovery.Func(ctx, func() {
			err := recovery.Call(ctx, func() error { return s.Start(ctx) })
			cancel(err)
			ended <- err
		})()
		select {
		case <-s.Ready():
		case err := <-ended:
			return err
		}
		err := register(ctx, live, s.ExtensionConfig(updateextension.Name))
		if err != nil && ctx.Err() == nil {
			cancel(nil)
		} else {
			err = nil
		}
		return errors.Join(err, <-ended)
	}))
}

// register stores the address of the extension. Users set the settings and the
// namespaceSelector that determines for which namespaces it is called.
func register(ctx context.Context, live client.Client, want *runtimev1.ExtensionConfig) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c := &runtimev1.ExtensionConfig{}
		c.Name = want.Name
		_, err := controllerutil.CreateOrUpdate(ctx, live, c, func() error {
			c.Spec.ClientConfig = want.Spec.ClientConfig
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("register ExtensionConfig %s: %w", want.Name, err)
	}
	return nil
}

// unregister removes the registration, if there is one. Most planes never had it:
// they read the cache, and not the API server.
func unregister(ctx context.Context, known client.Reader, live client.Client) error {
	c := &runtimev1.ExtensionConfig{}
	c.Name = updateextension.Name
	err := known.Get(ctx, client.ObjectKeyFromObject(c), c)
	if err == nil {
		err = live.Delete(ctx, c)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove ExtensionConfig %s: %w", c.Name, err)
	}
	return nil
}
