// SPDX-License-Identifier: Apache-2.0

// Package machines makes Machines with what they refer to, and keeps them in step
// with their template. What they have is decided by package machinetemplate; here
// it is carried out, for MachineSets, control planes, and whoever else has
// Machines.
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

// Factory makes Machines, and keeps them in step.
type Factory struct {
	Mgmt      client.Client     // the management cluster
	Live      client.Reader     // the same, past the cache
	Providers *provider.Objects // bootstrap and infrastructure objects
	// FieldOwner signs what is written. Labels and annotations that it has put on
	// a Machine are the ones it may take away.
	FieldOwner string
}

// Order is a Machine to be made.
type Order struct {
	Name     string // of the Machine, and of all that is made for it
	Template machinetemplate.Template
	// BootstrapTemplate and InfrastructureTemplate are what the objects are made
	// from that the Machine refers to; nil makes none.
	BootstrapTemplate, InfrastructureTemplate *provider.Object
	// Bootstrap is a bootstrap config that needs no template: its spec. Make gives
	// it its metadata.
	Bootstrap client.Object
}

// Part is what belongs to a Machine.
type Part string

// The parts, in the order in which they are made.
const (
	Bootstrap      Part = "bootstrap config"
	Infrastructure Part = "infrastructure"
	Itself         Part = "Machine"
)

// NotMadeError says which part of a Machine could not be made.
type NotMadeError struct {
	Part    Part
	Machine string
	Err     error
}

// Error implements error.
func (e *NotMadeError) Error() string { return e.Err.Error() }

// Unwrap lets errors.Is see the cause.
func (e *NotMadeError) Unwrap() error { return e.Err }

// Lasting is the message without the name of the Machine, which is another at the
// next attempt: for a status, of which each change is a write.
func (e *NotMadeError) Lasting() string { return strings.ReplaceAll(e.Error(), e.Machine, "*") }

// Make makes a Machine after what it refers to: the bootstrap config, then the
// infrastructure. All of them have from the beginning what is known by then. If
// that fails halfway, what was made is deleted again; what a process leaves that
// ends halfway, provider.Objects.Sweep finds. The error is a NotMadeError.
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

// afterAll looks whether a Machine is there although its creation has failed: an
// answer may be lost on its way. Then it was made, and what it refers to must not
// be taken from it. Where that cannot be found out, all stays for Sweep to judge.
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

// create makes the bootstrap config that needs no template.
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

// instantiate makes the object that a Machine refers to from its template.
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
