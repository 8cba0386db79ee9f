// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
)

// ownTemplates makes the class an owner of its templates, so that they are moved
// and deleted with it. A template that cannot be used does not delay the others.
func (r *Reconciler) ownTemplates(ctx context.Context, s *state) (reconciler.Next, error) {
	var failed []error
	for _, t := range classrefs.Distinct(s.class) {
		err := r.own(ctx, s, t.Ref)
		if err == nil {
			continue
		}
		told := fmt.Errorf("%s: %w", t.Field, err)
		if apierrors.IsNotFound(err) {
			told = fmt.Errorf("%s: there is no %s %s/%s: create it, or correct the reference", t.Field, t.Ref.Kind, s.class.Namespace, t.Ref.Name)
		}
		s.templates = append(s.templates, told.Error())
		if apierrors.IsNotFound(err) || provider.Refused(err) {
			told = reconcile.TerminalError(told) // until it exists, or the reference changes: both trigger a reconcile
		}
		failed = append(failed, told)
	}
	return reconciler.Continue(), errors.Join(failed...)
}

func (r *Reconciler) own(ctx context.Context, s *state, ref clusterv1.ClusterClassTemplateReference) error {
	kind, wake := ref.GroupVersionKind(), provider.Trigger{Controller: name, Watcher: r.watcher, To: r.ofTemplate, ToDefinition: r.ofDefinition}
	if err := r.Providers.WatchDefinitions(ctx, wake); err != nil {
		return err
	}
	latest, err := r.Providers.Kind(ctx, kind.GroupKind())
	if err != nil {
		return err
	}
	if latest.Version != kind.Version {
		s.outdated = append(s.outdated, fmt.Sprintf("* %s %s: current: %s, latest: %s", ref.Kind, ref.Name, kind.Version, latest.Version))
	}
	if err := r.Providers.WatchAs(ctx, kind, wake); err != nil {
		return err
	}
	template, err := r.Providers.GetAs(ctx, kind, client.ObjectKey{Namespace: s.class.Namespace, Name: ref.Name})
	if err != nil || !template.GetDeletionTimestamp().IsZero() {
		return err
	}
	by, err := owner.Reference(s.class, r.Mgmt)
	if err != nil {
		return err
	}
	changed := template.DeepCopy()
	commit := patch.Snapshot(r.Mgmt, changed)
	owner.Set(changed, by)
	if err := commit(ctx); err != nil {
		return fmt.Errorf("own %s %s: %w", ref.Kind, ref.Name, err)
	}
	return nil
}
