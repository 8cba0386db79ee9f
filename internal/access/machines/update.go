// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// marker is the field manager of the marks of updates on Machines. It differs from
// the FieldOwner, whose fields are removed when the template does not have them.
const marker = "capi-inplace"

// Change is the desired state of an in-place update of a Machine.
type Change struct {
	Version       string
	FailureDomain string // empty keeps it
	// Infrastructure and Bootstrap are the objects as they would be created now; nil
	// keeps the current ones.
	Infrastructure, Bootstrap *unstructured.Unstructured
}

// RefusedError means that an object of a provider cannot be changed to its desired
// state.
type RefusedError struct{ Err error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the response of the API server.
func (e *RefusedError) Unwrap() error { return e.Err }

// refused returns a RefusedError for a refusal of the content, which a retry would
// not change, but not for other failures, such as a missing permission.
func refused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "admission webhook") {
		return &RefusedError{err}
	}
	return err
}

// Mark marks the update of a Machine as in progress.
func (f Factory) Mark(ctx context.Context, m *clusterv1.Machine) error {
	commit := patch.Snapshot(f.Mgmt, m, patch.As(marker))
	inplace.Mark(m)
	return commit(ctx)
}

// Move transfers a Machine to another MachineSet.
func (f Factory) Move(ctx context.Context, m *clusterv1.Machine, to inplace.Target) error {
	commit := patch.Snapshot(f.Mgmt, m, patch.As(marker))
	to.Take(m)
	return commit(ctx)
}

// Update writes the desired state of a marked Machine: first the objects it refers
// to, each with its mark, then the Machine. It may be called again after a failure:
// it skips what is written already.
func (f Factory) Update(ctx context.Context, m *clusterv1.Machine, c Change) error {
	for _, part := range c.parts(m) {
		current, wanted, err := f.become(ctx, m, part)
		if err != nil {
			return err
		}
		current = current.DeepCopy()
		commit := patch.Snapshot(f.Mgmt, current, patch.As(f.FieldOwner))
		current.Object["spec"] = wanted.Object["spec"]
		current.SetLabels(wanted.GetLabels())
		current.SetAnnotations(wanted.GetAnnotations())
		inplace.Mark(current)
		if err := commit(ctx); err != nil {
			return refused(err)
		}
	}
	commit := patch.Snapshot(f.Mgmt, m, patch.As(marker))
	c.apply(m)
	inplace.Begin(m)
	return commit(ctx)
}

// Sides returns a Machine with the objects it refers to, in their current and in
// their desired state. Both have the defaults of the API server, which is called
// with dry runs.
func (f Factory) Sides(ctx context.Context, m *clusterv1.Machine, c Change) (from, to inplace.Machine, err error) {
	from.Machine, to.Machine = m, m.DeepCopy()
	c.apply(to.Machine)
	for _, part := range c.parts(m) {
		current, wanted, err := f.become(ctx, m, part)
		if err != nil {
			return from, to, err
		}
		if !equality.Semantic.DeepEqual(current.Object["spec"], wanted.Object["spec"]) {
			rehearsed := wanted.DeepCopy()
			if err := f.Mgmt.Patch(ctx, rehearsed, client.MergeFrom(current), client.DryRunAll, client.FieldOwner(f.FieldOwner)); err != nil {
				return from, to, refused(fmt.Errorf("try to change %s %s: %w", current.GetKind(), client.ObjectKeyFromObject(current), err))
			}
			wanted.Object["spec"] = rehearsed.Object["spec"]
		}
		if part.bootstrap {
			from.Bootstrap, to.Bootstrap = current, wanted
		} else {
			from.Infrastructure, to.Infrastructure = current, wanted
		}
	}
	return from, to, nil
}

func (c Change) apply(m *clusterv1.Machine) {
	m.Spec.Version = c.Version
	if c.FailureDomain != "" {
		m.Spec.FailureDomain = c.FailureDomain
	}
}

// part is an object that a Machine refers to, as it would be created now.
type part struct {
	ref       clusterv1.ContractVersionedObjectReference
	fresh     *unstructured.Unstructured
	bootstrap bool
}

func (c Change) parts(m *clusterv1.Machine) (all []part) {
	if c.Infrastructure != nil && m.Spec.InfrastructureRef.IsDefined() {
		all = append(all, part{m.Spec.InfrastructureRef, c.Infrastructure, false})
	}
	if c.Bootstrap != nil && m.Spec.Bootstrap.ConfigRef.IsDefined() {
		all = append(all, part{m.Spec.Bootstrap.ConfigRef, c.Bootstrap, true})
	}
	return all
}

// become reads an object and returns it with its desired state.
func (f Factory) become(ctx context.Context, m *clusterv1.Machine, p part) (current, wanted *unstructured.Unstructured, err error) {
	if kind := p.fresh.GroupVersionKind().GroupKind(); kind != p.ref.GroupKind() {
		return nil, nil, &RefusedError{fmt.Errorf("%s %s cannot become a %s", p.ref.Kind, p.ref.Name, kind)}
	}
	obj, err := f.Providers.Get(ctx, m.Namespace, p.ref)
	if err != nil {
		return nil, nil, err
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil, nil, &RefusedError{fmt.Errorf("%s %s is being deleted", p.ref.Kind, p.ref.Name)}
	}
	former, err := f.former(ctx, obj.Unstructured)
	if err != nil {
		return nil, nil, err
	}
	wanted, err = inplace.Become(obj.Unstructured, p.fresh, former, f.FieldOwner)
	if errors.Is(err, inplace.ErrLost) {
		err = &RefusedError{err}
	}
	return obj.Unstructured, wanted, err
}

// former returns the spec of the template that an object names as its origin; nil
// if it names none or the template was deleted.
func (f Factory) former(ctx context.Context, obj *unstructured.Unstructured) (map[string]any, error) {
	from := obj.GetAnnotations()
	kind := schema.ParseGroupKind(from[clusterv1.TemplateClonedFromGroupKindAnnotation])
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: from[clusterv1.TemplateClonedFromNameAnnotation]}
	if !ref.IsDefined() {
		return nil, nil
	}
	t, err := f.Providers.Get(ctx, obj.GetNamespace(), ref)
	if _, unusable := errors.AsType[*provider.KindError](err); unusable || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	spec, _, err := unstructured.NestedMap(t.Object, "spec", "template", "spec")
	return spec, err
}

// Fresh returns the bootstrap config and the infrastructure machine that would now
// be created from templates for a Machine.
func Fresh(t machinetemplate.Template, name string, infrastructure, bootstrap *provider.Object) (c Change, err error) {
	fresh := func(from *provider.Object) *unstructured.Unstructured {
		if from == nil {
			return nil
		}
		made, failed := provider.Instantiate(provider.Copy{Template: from, Name: name, Cluster: t.Spec.ClusterName, Labels: t.Labels, Annotations: t.Annotations})
		if err = errors.Join(err, failed); failed != nil {
			return nil
		}
		return made.Unstructured
	}
	c.Version, c.FailureDomain = t.Spec.Version, t.Spec.FailureDomain
	c.Infrastructure, c.Bootstrap = fresh(infrastructure), fresh(bootstrap)
	return c, err
}
