// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

var machineKind = schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "Machine"}

// templates returns the references by which a check is found again when its
// template appears.
func templates(obj client.Object) []clusterv1.ContractVersionedObjectReference {
	ref := obj.(*clusterv1.MachineHealthCheck).Spec.Remediation.TemplateRef
	kind := ref.GroupVersionKind()
	return []clusterv1.ContractVersionedObjectReference{{APIGroup: kind.Group, Kind: kind.Kind, Name: ref.Name}}
}

// template finds the template of requests, and the existing requests. The status
// reports why the template cannot be used; an error that the user cannot correct is
// returned after the other phases.
func (r *Reconciler) template(ctx context.Context, s *state) (reconciler.Next, error) {
	ref := s.Check.Spec.Remediation.TemplateRef
	if !ref.IsDefined() {
		return reconciler.Continue(), nil
	}
	kind := ref.GroupVersionKind()
	var obj *provider.Object
	err := r.Providers.WatchAs(ctx, kind, provider.Trigger{Controller: name, Watcher: r.watcher, List: &clusterv1.MachineHealthCheckList{}})
	if err == nil {
		obj, err = r.Providers.TemplateAs(ctx, s.Cluster, kind, ref.Name, reference.Remediation)
	}
	switch {
	case err == nil:
		s.templateObj = obj
	case apierrors.IsNotFound(err):
		s.Template = fmt.Sprintf("%s %s, named by spec.remediation.templateRef, does not exist: create it, or correct the reference", ref.Kind, ref.Name)
		return reconciler.Continue(), nil
	default:
		s.Template = fmt.Sprintf("spec.remediation.templateRef: %v", err)
		if !provider.Refused(err) {
			s.templateErr = errors.New(s.Template)
		}
		return reconciler.Continue(), nil
	}
	for _, m := range s.Selection.Targets {
		request, err := r.request(ctx, s, m)
		if err != nil {
			return reconciler.Continue(), err
		}
		o := s.Observed[m.Name]
		o.Requested = request != nil
		s.Observed[m.Name] = o
	}
	return reconciler.Continue(), nil
}

// request returns the request to remediate a Machine, nil if there is none: an
// object of the same name that the Machine does not own does not count.
func (r *Reconciler) request(ctx context.Context, s *state, m *clusterv1.Machine) (*provider.Object, error) {
	kind := s.templateObj.GroupVersionKind()
	obj, err := r.Providers.GetAs(ctx, kind.GroupVersion().WithKind(provider.CopyKind(kind.GroupKind()).Kind), client.ObjectKeyFromObject(m))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !owner.Has(obj, machineKind, m.Name):
		return nil, nil
	}
	return obj, nil
}

// makeRequest creates a request for the external controller to remediate a Machine.
func (r *Reconciler) makeRequest(ctx context.Context, s *state, m *clusterv1.Machine) error {
	by, err := owner.Reference(m, r.Mgmt)
	if err != nil {
		return err
	}
	_, err = r.Providers.Make(ctx, provider.Copy{Template: s.templateObj, Name: m.Name, Cluster: s.Cluster.Name, Owner: &by}, name, &lifecycle.Stack{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w, and is not owned by the Machine: remove it", err)
	}
	return err
}

// removeRequest deletes the request: the Machine is healthy.
func (r *Reconciler) removeRequest(ctx context.Context, s *state, m *clusterv1.Machine) error {
	obj, err := r.request(ctx, s, m)
	if err != nil || obj == nil {
		return err
	}
	return r.Providers.Delete(ctx, obj)
}
