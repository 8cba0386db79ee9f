// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// origin is a source of variable definitions.
type origin struct {
	variables.Source
	handler string // of an extension; "" for the class itself
}

// defineVariables merges the definitions of the class and its extensions. The
// earlier definitions stay as long as not all of the new ones are available and
// valid: Clusters depend on them.
func (r *Reconciler) defineVariables(ctx context.Context, s *state) (reconciler.Next, error) {
	sources, down := r.sources(ctx, s.class)
	inline, wrong := r.check(s.class, sources)
	err := errors.Join(inline, down, wrong)
	if err == nil {
		var all []variables.Source
		for _, from := range sources {
			all = append(all, from.Source)
		}
		s.class.Status.Variables, err = variables.Merge(all, s.class.Status.Variables)
	}
	s.variables = err
	if inline != nil && down == nil && wrong == nil {
		return reconciler.Continue(), reconcile.TerminalError(err) // until the class changes
	}
	if err != nil {
		r.reject(s.class)
	}
	return reconciler.Continue(), err
}

// sources returns the class and those of its patches that define variables, in
// order, as far as they answer.
func (r *Reconciler) sources(ctx context.Context, class *clusterv1.ClusterClass) ([]origin, error) {
	var errs []error
	sources := []origin{{variables.Source{From: clusterv1.VariableDefinitionFromInline, Variables: class.Spec.Variables}, ""}}
	for _, p := range class.Spec.Patches {
		handler, request := discovery(p)
		if handler == "" {
			continue
		}
		answer := &hooksv1.DiscoverVariablesResponse{}
		if err := r.Extensions.CallExtension(ctx, hooksv1.DiscoverVariables, class, handler, request, answer); err != nil {
			errs = append(errs, fmt.Errorf("patch %q: %w", p.Name, err))
			continue
		}
		sources = append(sources, origin{variables.Source{From: p.Name, Variables: answer.Variables}, handler})
	}
	return sources, errors.Join(errs...)
}

// reject evicts the answers of all extensions of a class.
func (r *Reconciler) reject(class *clusterv1.ClusterClass) {
	for _, p := range class.Spec.Patches {
		if handler, request := discovery(p); handler != "" {
			r.Extensions.Reject(hooksv1.DiscoverVariables, handler, request)
		}
	}
}

// discovery returns the handler that defines the variables of a patch, and the
// request; "" if there is none.
func discovery(p clusterv1.ClusterClassPatch) (handler string, request *hooksv1.DiscoverVariablesRequest) {
	if p.External == nil {
		return "", nil
	}
	request = &hooksv1.DiscoverVariablesRequest{}
	request.SetSettings(p.External.Settings)
	return p.External.DiscoverVariablesExtension, request
}

// check returns the errors in the definitions of the class itself, which admission
// has validated unless it did not run, and in those of extensions. Valid
// definitions are cached, because rules take time to compile.
func (r *Reconciler) check(class *clusterv1.ClusterClass, sources []origin) (inline, wrong error) {
	text, err := json.Marshal(sources)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	if r.checked.Get(class) == sum {
		return nil, nil
	}
	var errs []error
	for _, from := range sources {
		if from.handler == "" {
			inline = variables.Check(field.NewPath("spec", "variables"), from.Variables, from.Variables).ToAggregate()
		} else if err := variables.Check(field.NewPath("variables"), from.Variables, nil).ToAggregate(); err != nil {
			errs = append(errs, fmt.Errorf("patch %q: handler %q of hook DiscoverVariables defines variables that cannot be used; correct the extension: %w", from.From, from.handler, err))
		}
	}
	if wrong = errors.Join(errs...); inline == nil && wrong == nil {
		r.checked.Set(class, sum)
	}
	return inline, wrong
}

// Forget drops the cached result of a deleted class.
func (r *Reconciler) Forget(key client.ObjectKey) { r.checked.Forget(key) }
