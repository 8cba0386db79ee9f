// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/topology/variables"
)

// defineVariables brings together what the class and its extensions define. What
// was known stays as long as not all of them can be asked: a Cluster goes by it.
func (r *Reconciler) defineVariables(ctx context.Context, s *state) (phase.Next, error) {
	inline := s.class.Spec.Variables // admission saw them; but not while it was not there
	unfit := variables.Check(field.NewPath("spec", "variables"), inline, inline).ToAggregate()
	sources, err := r.sources(ctx, s.class)
	switch {
	case unfit != nil && err == nil:
		s.variables = unfit
		return phase.Continue(), reconcile.TerminalError(unfit) // until the class is another
	case unfit == nil && err == nil:
		s.class.Status.Variables, err = variables.Merge(sources)
	default:
		err = errors.Join(unfit, err)
	}
	s.variables = err
	return phase.Continue(), err
}

// sources are the class and those of its patches that define variables, in order.
func (r *Reconciler) sources(ctx context.Context, class *clusterv1.ClusterClass) ([]variables.Source, error) {
	var errs []error
	sources := []variables.Source{{From: clusterv1.VariableDefinitionFromInline, Variables: class.Spec.Variables}}
	for _, p := range class.Spec.Patches {
		if p.External == nil || p.External.DiscoverVariablesExtension == "" {
			continue
		}
		found, err := r.discover(ctx, class, p.External)
		if err != nil {
			errs = append(errs, fmt.Errorf("patch %q: %w", p.Name, err))
		}
		sources = append(sources, variables.Source{From: p.Name, Variables: found})
	}
	return sources, errors.Join(errs...)
}

// discover asks an extension which variables it defines.
func (r *Reconciler) discover(ctx context.Context, class *clusterv1.ClusterClass, p *clusterv1.ExternalPatchDefinition) ([]clusterv1.ClusterClassVariable, error) {
	request, answer := &hooksv1.DiscoverVariablesRequest{}, &hooksv1.DiscoverVariablesResponse{}
	request.SetSettings(p.Settings)
	if err := r.Extensions.CallExtension(ctx, hooksv1.DiscoverVariables, class, p.DiscoverVariablesExtension, request, answer); err != nil {
		return nil, err
	}
	if err := variables.Check(field.NewPath("variables"), answer.Variables, nil).ToAggregate(); err != nil {
		return nil, fmt.Errorf("handler %q of hook DiscoverVariables defines variables that cannot be used; correct the extension: %w", p.DiscoverVariablesExtension, err)
	}
	return answer.Variables, nil
}
