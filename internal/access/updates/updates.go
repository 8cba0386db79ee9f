// SPDX-License-Identifier: Apache-2.0

// Package updates asks runtime extensions about updates of Machines in place,
// and for them. What is asked and what an answer means is decided in package
// pure/inplace.
package updates

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/extensions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// Hooks find extensions and call them. The Client of package access/extensions
// does.
type Hooks interface {
	GetAllExtensions(ctx context.Context, hook any, forObject metav1.Object) ([]string, error)
	CallExtension(ctx context.Context, hook any, forObject metav1.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
	// Reject forgets an answer that cannot be used.
	Reject(hook any, name string, request hooksv1.RequestObject)
	CallAllExtensions(ctx context.Context, hook any, forObject metav1.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
}

// Extensions are those that update Machines. Without Hooks there are none.
type Extensions struct{ Hooks Hooks }

// none is the answer where no extension is asked.
var none = inplace.Answer{Why: "no extension is registered for it"}

// CanUpdateMachine asks whether a Machine can be changed in place. No extension
// means no; what leaves that open is an error.
func (x Extensions) CanUpdateMachine(ctx context.Context, from, to inplace.Machine) (inplace.Answer, error) {
	handler, err := x.only(ctx, hooksv1.CanUpdateMachine, "CanUpdateMachine", from.Machine)
	if err != nil || handler == "" {
		return none, err
	}
	q, a := inplace.CanUpdateMachine(from, to), &hooksv1.CanUpdateMachineResponse{}
	if err := x.Hooks.CallExtension(ctx, hooksv1.CanUpdateMachine, from.Machine, handler, q, a); err != nil {
		return none, err
	}
	answer, err := inplace.JudgeMachine(q, a)
	if err != nil {
		x.Hooks.Reject(hooksv1.CanUpdateMachine, handler, q)
	}
	return told(handler, answer, err)
}

// CanUpdateMachineSet is CanUpdateMachine for all Machines of a MachineSet.
func (x Extensions) CanUpdateMachineSet(ctx context.Context, from, to inplace.Set) (inplace.Answer, error) {
	handler, err := x.only(ctx, hooksv1.CanUpdateMachineSet, "CanUpdateMachineSet", from.Set)
	if err != nil || handler == "" {
		return none, err
	}
	q, a := inplace.CanUpdateMachineSet(from, to), &hooksv1.CanUpdateMachineSetResponse{}
	if err := x.Hooks.CallExtension(ctx, hooksv1.CanUpdateMachineSet, from.Set, handler, q, a); err != nil {
		return none, err
	}
	answer, err := inplace.JudgeSet(q, a)
	if err != nil {
		x.Hooks.Reject(hooksv1.CanUpdateMachineSet, handler, q)
	}
	return told(handler, answer, err)
}

// Asked reports whether there may be an extension that can update what belongs
// to obj: if not, nothing needs to be made ready for the question.
func (x Extensions) Asked(ctx context.Context, hook any, obj metav1.Object) bool {
	if x.Hooks == nil {
		return false
	}
	names, err := x.Hooks.GetAllExtensions(ctx, hook, obj)
	return err != nil || len(names) > 0
}

// UpdateMachine has a Machine updated, or asks whether it is. The error is an
// *extensions.FailureError if the extension says that it failed.
func (x Extensions) UpdateMachine(ctx context.Context, to inplace.Machine) (again time.Duration, message string, err error) {
	handler, err := x.only(ctx, hooksv1.UpdateMachine, "UpdateMachine", to.Machine)
	if err != nil {
		return 0, "", err
	}
	if handler == "" {
		return 0, "", errors.New("no extension answers hook UpdateMachine: register the one that is to update the Machine, or delete the Machine to have it replaced")
	}
	a := &hooksv1.UpdateMachineResponse{}
	if err := x.Hooks.CallAllExtensions(ctx, hooksv1.UpdateMachine, to.Machine, inplace.UpdateMachine(to), a); err != nil {
		return 0, "", err
	}
	return time.Duration(a.RetryAfterSeconds) * time.Second, a.Message, nil
}

// only is the one handler of a hook; empty if there is none.
func (x Extensions) only(ctx context.Context, hook any, name string, obj metav1.Object) (string, error) {
	if x.Hooks == nil {
		return "", nil
	}
	names, err := x.Hooks.GetAllExtensions(ctx, hook, obj)
	if err != nil {
		return "", err
	}
	return extensions.Only(name, names)
}

func told(handler string, a inplace.Answer, err error) (inplace.Answer, error) {
	if err != nil {
		return none, fmt.Errorf("extension handler %q gave an answer that cannot be used: %w", handler, err)
	}
	if a.Why != "" {
		a.Why = fmt.Sprintf("extension handler %q: %s", handler, a.Why)
	}
	return a, nil
}
