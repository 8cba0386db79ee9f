// SPDX-License-Identifier: Apache-2.0

// Package machines creates Machines with the objects they refer to, and keeps them
// in sync with their template. Package machinetemplate decides their content; this
// package writes it for all owners of Machines, such as MachineSets and control
// planes.
//
// It also reads which remediation requests of health checks are still valid.
package machines

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// Factory creates Machines and keeps them in sync.
type Factory struct {
	Mgmt      client.Client     // the management cluster
	Live      client.Reader     // without the cache
	Providers *provider.Objects // bootstrap and infrastructure objects
	// FieldOwner is the field manager of all writes. Only labels and annotations that
	// it has set on a Machine may be removed.
	FieldOwner string
}

// Order describes a Machine to be created.
type Order struct {
	Name     string // of the Machine and of the objects created for it
	Template machinetemplate.Template
	// BootstrapTemplate and InfrastructureTemplate are the templates of the objects to
	// which the Machine refers; nil creates none.
	BootstrapTemplate, InfrastructureTemplate *provider.Object
	// Bootstrap is a bootstrap config without a template: its spec. Make sets its
	// metadata.
	Bootstrap client.Object
}

// Part is an object that belongs to a Machine.
type Part string

// The parts, in the order of their creation.
const (
	Bootstrap      Part = "bootstrap config"
	Infrastructure Part = "infrastructure"
	Itself         Part = "Machine"
)

// NotMadeError reports which part of a Machine could not be created.
type NotMadeError struct {
	Part    Part
	Machine string
	Err     error
}

// Error implements error.
func (e *NotMadeError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotMadeError) Unwrap() error { return e.Err }

// Lasting is the message without the name of the Machine, which differs at the next
// attempt. It is for a status, in which each change is a write.
func (e *NotMadeError) Lasting() string { return strings.ReplaceAll(e.Error(), e.Machine, "*") }

// Make creates a Machine after the objects it refers to: first the bootstrap
// config, then the infrastructure. Each has all fields that are known at its
// creation. After a failure, the objects that were created are deleted again;
// provider.Objects.Sweep finds those of an interrupted process. The error is a
// NotMadeError.
func (f Factory) Make(ctx context.Context, o Order) (_ *clusterv1.Machine, err error) {
	var made lifecycle.Stack
	part := Bootstrap
	defer func() {
		if err != nil {
			err = &NotMadeError{part, o.Name, errors.Join(err, made.Unwind(context.WithoutCancel(ctx)))}
		}
	}()
	m := o.Template.Machine(o.Name)
	if o.Bootstrap != nil {
		if m.Spec.Bootstrap.ConfigRef, err = f.create(ctx, o, &made); err != nil {
			return nil, err
		}
	}
	if o.BootstrapTemplate != nil {
		if m.Spec.Bootstrap.ConfigRef, err = f.instantiate(ctx, o, o.BootstrapTemplate, &made); err != nil {
			return nil, err
		}
	}
	part = Infrastructure
	if o.InfrastructureTemplate != nil {
		if m.Spec.InfrastructureRef, err = f.instantiate(ctx, o, o.InfrastructureTemplate, &made); err != nil {
			return nil, err
		}
	}
	part = Itself
	if err := f.Mgmt.Create(ctx, m, client.FieldOwner(f.FieldOwner)); err != nil {
		return f.afterAll(ctx, m, fmt.Errorf("create Machine %s: %w", client.ObjectKeyFromObject(m), err), &made)
	}
	return m, nil
}

// afterAll checks whether a Machine exists although its creation failed: the
// response may have been lost. If it exists, the objects it refers to must not be
// deleted. If that cannot be determined, all of them stay until Sweep evaluates
// them.
func (f Factory) afterAll(ctx context.Context, m *clusterv1.Machine, failed error, made *lifecycle.Stack) (*clusterv1.Machine, error) {
	there := &clusterv1.Machine{}
	err := f.Live.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(m), there)
	if err == nil && metav1.IsControlledBy(there, &metav1.ObjectMeta{UID: metav1.GetControllerOfNoCopy(m).UID}) {
		return there, nil
	}
	if client.IgnoreNotFound(err) != nil {
		*made = lifecycle.Stack{}
	}
	return nil, failed
}

// create creates the bootstrap config that has no template.
func (f Factory) create(ctx context.Context, o Order, made *lifecycle.Stack) (ref clusterv1.ContractVersionedObjectReference, err error) {
	obj := o.Bootstrap
	gvk, err := apiutil.GVKForObject(obj, f.Mgmt.Scheme())
	if err != nil {
		return ref, fmt.Errorf("kind of %T: %w", obj, err)
	}
	o.Template.Dress(obj, o.Name)
	if err := f.Mgmt.Create(ctx, obj, client.FieldOwner(f.FieldOwner)); err != nil {
		return ref, fmt.Errorf("create %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(obj), err)
	}
	made.Push("creation of "+gvk.Kind+" "+o.Name, func(ctx context.Context) error {
		return client.IgnoreNotFound(f.Mgmt.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())}))
	})
	return clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: o.Name}, nil
}

// instantiate creates an object of a Machine from its template.
func (f Factory) instantiate(ctx context.Context, o Order, from *provider.Object, made *lifecycle.Stack) (clusterv1.ContractVersionedObjectReference, error) {
	t := o.Template
	return f.Providers.Make(ctx, provider.Copy{
		Template:    from,
		Name:        o.Name,
		Cluster:     t.Spec.ClusterName,
		Labels:      t.Labels,
		Annotations: t.Annotations,
		Owner:       &t.Maker,
	}, client.FieldOwner(f.FieldOwner), made)
}
