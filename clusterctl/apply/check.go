// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/contract"
)

const (
	// atOnce is how many requests that change nothing are sent concurrently.
	atOnce = 8
	// borrowed is a namespace that every cluster has: objects of a namespace that does
	// not exist yet are checked there.
	borrowed = "default"
)

// Plan is what Check checks before it is written.
type Plan struct {
	Objects []*unstructured.Unstructured
	// Coming are groups whose kinds the cluster will serve by then, in addition to those
	// that Objects define.
	Coming []string
	// Replaced means that existing objects are deleted first, except Namespaces and
	// definitions.
	Replaced bool
	// Later reports whether only the permissions for an object can be checked before
	// other parts of the plan are done; nil means none.
	Later func(*unstructured.Unstructured) bool
}

// Check returns everything that the API server finds wrong with a plan, and the
// permissions that are missing for it, before any part of it is written. What cannot be
// checked before other parts exist, such as objects of kinds that the plan itself
// defines, is left out.
func (c *Cluster) Check(ctx context.Context, p Plan) error {
	there, err := c.namespaces(ctx, p.Objects)
	if err != nil {
		return err
	}
	if err := c.Allowed(ctx, p.Objects, "create", "patch"); err != nil {
		return err
	}
	coming := definitions(p)
	errs := make([]error, len(p.Objects))
	each(len(p.Objects), func(i int) {
		obj := p.Objects[i]
		if p.Later != nil && p.Later(obj) {
			return
		}
		err := c.try(ctx, obj, there, p.Replaced)
		switch {
		case err == nil, meta.IsNoMatchError(err) && coming(obj):
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && brings(p.Objects, obj.GetNamespace()):
			// The Namespace reports it; repeating it for each object in it helps no user.
		default:
			errs[i] = fmt.Errorf("%s: %w", Name(obj), err)
		}
	})
	if ctx.Err() != nil { // it is about no object, and would be reported for each
		return fmt.Errorf("check the objects to write: %w", context.Cause(ctx))
	}
	return errors.Join(errs...)
}

// each calls do with 0 to n-1, some at a time.
func each(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

// namespaces reports for each Namespace of the objects whether it exists.
func (c *Cluster) namespaces(ctx context.Context, objects []*unstructured.Unstructured) (map[string]bool, error) {
	there := map[string]bool{}
	for _, obj := range objects {
		name := obj.GetNamespace()
		if _, known := there[name]; known || name == "" {
			continue
		}
		ns := &unstructured.Unstructured{}
		ns.SetAPIVersion("v1")
		ns.SetKind(namespaceKind().Kind)
		err := c.mgmt.Get(ctx, client.ObjectKey{Name: name}, ns)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("get Namespace %s: %w", name, err)
		}
		there[name] = !apierrors.IsNotFound(err)
		if !there[name] && !brings(objects, name) {
			return nil, fmt.Errorf("%s: Namespace %s does not exist, and no component brings it: create it first (kubectl create namespace %s)", Name(obj), name, name)
		}
	}
	return there, nil
}

// brings reports whether a Namespace is among objects.
func brings(objects []*unstructured.Unstructured, name string) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return is(o, namespaceKind()) && o.GetName() == name })
}

// definitions returns a function that reports whether the plan defines the kind of an
// object.
func definitions(p Plan) func(*unstructured.Unstructured) bool {
	kinds := map[schema.GroupKind]bool{}
	for _, obj := range p.Objects {
		if IsDefinition(obj) {
			group, _, _ := contract.At[string]("spec.group").Get(obj)
			kind, _, _ := contract.At[string]("spec.names.kind").Get(obj)
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return func(obj *unstructured.Unstructured) bool {
		kind := obj.GroupVersionKind().GroupKind()
		return kinds[kind] || slices.Contains(p.Coming, kind.Group)
	}
}

// try has the API server check an object, as a new one or as a change of the existing
// one.
func (c *Cluster) try(ctx context.Context, obj *unstructured.Unstructured, there map[string]bool, replaced bool) error {
	ctx = writing(ctx, obj)
	as := obj.DeepCopy()
	elsewhere := obj.GetNamespace() != "" && !there[obj.GetNamespace()]
	if elsewhere {
		as.SetNamespace(borrowed)
	}
	err := c.mgmt.Create(ctx, as, client.DryRunAll, client.FieldOwner(fieldOwner))
	kind := ""
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok && refused.ErrStatus.Details != nil {
		kind = refused.ErrStatus.Details.Kind
	}
	switch {
	case apierrors.IsAlreadyExists(err) && !elsewhere && (!replaced || is(obj, namespaceKind()) || IsDefinition(obj)):
		return ignoreUnable(c.update(ctx, obj, client.DryRunAll))
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsNotFound(err) && strings.HasSuffix(kind, "roles"):
		return nil // the role of a binding is written before it
	case elsewhere && apierrors.IsForbidden(err) && !strings.HasPrefix(kind, "role"):
		return nil // errors about the other namespace do not count
	}
	return ignoreUnable(err)
}

// ignoreUnable ignores webhooks that do not support dry run.
func ignoreUnable(err error) error {
	if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run") {
		return nil
	}
	return err
}

// MissingRightsError names what the user may not do.
type MissingRightsError struct{ Rights []string }

func (e *MissingRightsError) Error() string {
	return fmt.Sprintf("you may not do what is needed, and nothing was changed:\n* %s\nask for these rights, or use a kubeconfig that has them", strings.Join(e.Rights, "\n* "))
}

// Allowed returns an error that lists which of verbs the user may not use on objects.
func (c *Cluster) Allowed(ctx context.Context, objects []*unstructured.Unstructured, verbs ...string) error {
	needed := map[Right]bool{}
	for _, obj := range objects {
		kind := obj.GroupVersionKind()
		m, err := c.mgmt.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			continue // its definition is written first
		}
		if err != nil {
			return fmt.Errorf("find the kind of %s: %w", Name(obj), err)
		}
		for _, verb := range verbs {
			needed[Right{Verb: verb, GroupResource: m.Resource.GroupResource(), Namespace: obj.GetNamespace()}] = true
		}
	}
	all := slices.SortedFunc(maps.Keys(needed), func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
	denied, errs := make([]bool, len(all)), make([]error, len(all))
	each(len(all), func(i int) { denied[i], errs[i] = c.denied(ctx, all[i]) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	var missing []string
	for i, r := range all {
		if denied[i] {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return &MissingRightsError{missing}
	}
	return nil
}

// denied reports whether the user lacks a permission. If the user may not ask, the
// request that follows reports it.
func (c *Cluster) denied(ctx context.Context, r Right) (bool, error) {
	allowed, err := Allowed(ctx, c.mgmt, r)
	if _, ok := errors.AsType[*UnansweredError](err); ok {
		return false, nil
	}
	return !allowed, err
}
