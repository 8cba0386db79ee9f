// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// readClass waits for a ready class; a change of the class triggers a reconcile.
func (r *Reconciler) readClass(ctx context.Context, s *state) (reconciler.Next, error) {
	key := s.cluster.GetClassKey()
	class, err := r.Classes.Get(ctx, key)
	if err != nil {
		return reconciler.Continue(), err
	}
	if class == nil {
		s.facts.ClassProblem = fmt.Sprintf("ClusterClass %s does not exist: create it, or have spec.topology.classRef of Cluster %s/%s name another", key, s.cluster.Namespace, s.cluster.Name)
		return reconciler.Wait(0), nil
	}
	if s.facts.ClassProblem = classes.Unready(class); s.facts.ClassProblem != "" {
		return reconciler.Wait(0), nil
	}
	s.class = class
	return reconciler.Continue(), nil
}

// values are a topology with its variables defaulted, or the errors in them, for
// one generation of the Cluster and one version of the class.
type values struct {
	generation int64
	class      types.UID
	version    string
	topology   *clusterv1.Topology
	err        error
}

// defaultVariables sets variables to their defaults and validates them, as
// admission also does if it runs.
func (r *Reconciler) defaultVariables(_ context.Context, s *state) (reconciler.Next, error) {
	v := &s.memory.values
	if v.generation != s.cluster.Generation || v.class != s.class.UID || v.version != s.class.ResourceVersion {
		*v = values{generation: s.cluster.Generation, class: s.class.UID, version: s.class.ResourceVersion, topology: s.cluster.Spec.Topology.DeepCopy()}
		v.err = r.fill(s.class, v.topology)
	}
	if v.err != nil {
		return reconciler.Continue(), reconcile.TerminalError(v.err) // until Cluster or class change
	}
	wanted := *s.cluster
	wanted.Spec.Topology = *v.topology
	s.wanted = &wanted
	s.blueprint = blueprint.Of(s.class, v.topology)
	return reconciler.Continue(), nil
}

func (r *Reconciler) fill(class *clusterv1.ClusterClass, t *clusterv1.Topology) error {
	definitions, err := r.Classes.Definitions(class)
	if err != nil {
		return err
	}
	at := field.NewPath("spec", "topology")
	errs := definitions.Default(at, t)
	if len(errs) == 0 {
		errs = definitions.Validate(at, t, nil)
	}
	return errs.ToAggregate()
}
