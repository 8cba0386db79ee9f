// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// canUpdate returns whether an update in place can change the Machines of a
// MachineSet to the desired state of the deployment. If that cannot be determined,
// the answer reports the failure, and the rollout waits.
func (r *Reconciler) canUpdate(ctx context.Context, s *state, f rollout.Facts, q rollout.Question) (a rollout.Answer, _ error) {
	from := metadata.Named(s.sets, q.From)
	if s.cluster == nil || !r.Extensions.Asked(ctx, hooksv1.CanUpdateMachineSet, from) {
		return a, nil
	}
	current, err := r.withTemplates(ctx, s, from)
	if missing := noTemplate(err); missing != "" {
		a.Why = missing
		return a, nil
	}
	if err == nil {
		var desired inplace.Set
		if desired, err = r.withTemplates(ctx, s, f.Successor()); err == nil {
			a.Answer, err = r.Extensions.CanUpdateMachineSet(ctx, current, desired)
		}
	}
	a.Failure = questions.Failed(err)
	return a, nil
}

// reportReplacement reports why Machines are replaced that an extension might have
// updated.
func (r *Reconciler) reportReplacement(s *state, answers questions.Answers[rollout.Question, rollout.Answer]) {
	for _, a := range answers {
		if why := a.Answer.Why; why != "" {
			r.Recorder.Eventf(s.deployment, nil, corev1.EventTypeNormal, "NotUpdatedInPlace", "RollOut", "Machines of %s are replaced: %s", a.Question.From, why)
		}
	}
}

// withTemplates adds to a MachineSet the templates from which its Machines were
// created.
func (r *Reconciler) withTemplates(ctx context.Context, s *state, set *clusterv1.MachineSet) (out inplace.Set, err error) {
	out.Set = set
	spec := set.Spec.Template.Spec
	if out.Infrastructure, err = r.template(ctx, s, spec.InfrastructureRef, reference.MachineInfrastructure); err != nil {
		return out, fmt.Errorf("infrastructure template of MachineSet %s: %w", set.Name, err)
	}
	if out.Bootstrap, err = r.template(ctx, s, spec.Bootstrap.ConfigRef, reference.Bootstrap); err != nil {
		return out, fmt.Errorf("bootstrap template of MachineSet %s: %w", set.Name, err)
	}
	return out, nil
}

func (r *Reconciler) template(ctx context.Context, s *state, ref clusterv1.ContractVersionedObjectReference, role reference.Role) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	t, err := r.Providers.Template(ctx, s.cluster, ref, role)
	if err != nil {
		return nil, err
	}
	return t.Unstructured, nil
}

// noTemplate returns which template of the Machines was deleted, so that the
// changes of an update cannot be determined.
func noTemplate(err error) string {
	if apierrors.IsNotFound(err) || provider.Refused(err) {
		return err.Error()
	}
	return ""
}
