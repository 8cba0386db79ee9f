// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// Hooks find extensions and call them. The Client of package access/extensions
// does.
type Hooks interface {
	GetAllExtensions(ctx context.Context, hook any, forObject metav1.Object) ([]string, error)
	CallExtension(ctx context.Context, hook any, forObject metav1.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
	// Reject evicts a response that cannot be used.
	Reject(hook any, name string, request hooksv1.RequestObject)
	CallAllExtensions(ctx context.Context, hook any, forObject metav1.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
}

// InPlaceHooks are the extensions that update Machines. Without Hooks there are none.
type InPlaceHooks struct{ Hooks Hooks }

// none is the answer if no extension is called.
var none = inplace.Answer{Why: "no extension is registered for it"}

// CanUpdateMachine returns whether extensions can change a Machine in place.
// Without an extension they cannot; an undetermined answer is an error.
func (x InPlaceHooks) CanUpdateMachine(ctx context.Context, from, to inplace.Machine) (inplace.Answer, error) {
	handler, err := x.only(ctx, hooksv1.CanUpdateMachine, "CanUpdateMachine", from.Machine)
	if err != nil || handler == "" {
		return none, err
	}
	q, a := inplace.CanUpdateMachine(from, to), &hooksv1.CanUpdateMachineResponse{}
	if err := x.Hooks.CallExtension(ctx, hooksv1.CanUpdateMachine, from.Machine, handler, q, a); err != nil {
		return none, err
	}
	answer, err := inplace.InterpretMachine(q, a)
	if err != nil {
		x.Hooks.Reject(hooksv1.CanUpdateMachine, handler, q)
	}
	return told(handler, answer, err)
}

// CanUpdateMachineSet is CanUpdateMachine for all Machines of a MachineSet.
func (x InPlaceHooks) CanUpdateMachineSet(ctx context.Context, from, to inplace.Set) (inplace.Answer, error) {
	handler, err := x.only(ctx, hooksv1.CanUpdateMachineSet, "CanUpdateMachineSet", from.Set)
	if err != nil || handler == "" {
		return none, err
	}
	q, a := inplace.CanUpdateMachineSet(from, to), &hooksv1.CanUpdateMachineSetResponse{}
	if err := x.Hooks.CallExtension(ctx, hooksv1.CanUpdateMachineSet, from.Set, handler, q, a); err != nil {
		return none, err
	}
	answer, err := inplace.InterpretSet(q, a)
	if err != nil {
		x.Hooks.Reject(hooksv1.CanUpdateMachineSet, handler, q)
	}
	return told(handler, answer, err)
}

// Asked reports whether there may be an extension that can update objects that
// belong to obj: if not, no request needs to be prepared.
func (x InPlaceHooks) Asked(ctx context.Context, hook any, obj metav1.Object) bool {
	if x.Hooks == nil {
		return false
	}
	names, err := x.Hooks.GetAllExtensions(ctx, hook, obj)
	return err != nil || len(names) > 0
}

// UpdateMachine starts the update of a Machine, or returns its progress. The error
// is an *extensionconfig.FailureError if the extension reports a failure.
func (x InPlaceHooks) UpdateMachine(ctx context.Context, to inplace.Machine) (again time.Duration, message string, err error) {
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

// only returns the one handler of a hook; empty if there is none.
func (x InPlaceHooks) only(ctx context.Context, hook any, name string, obj metav1.Object) (string, error) {
	if x.Hooks == nil {
		return "", nil
	}
	names, err := x.Hooks.GetAllExtensions(ctx, hook, obj)
	if err != nil {
		return "", err
	}
	return extensionconfig.Only(name, names)
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
