// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/pure/hookrules"
	"github.com/capstan-dev/capstan/internal/pure/topology/variables"
)

// content is the first request and answer of a handler, if the answer is of a
// type that the suite knows.
func content[Resp hooksv1.ResponseObject](ctx context.Context, s *session, h *handler) (request, Resp, error) {
	var none Resp
	r, a, err := s.succeeded(ctx, h)
	if err != nil {
		return nil, none, err
	}
	response, ok := a.response.(Resp)
	if !ok {
		return nil, none, conformance.Skip("the suite does not know %s", h.hook)
	}
	return r, response, nil
}

func variableNamesUnique(ctx context.Context, s *session, h *handler) error {
	_, a, err := content[*hooksv1.DiscoverVariablesResponse](ctx, s, h)
	if err != nil {
		return err
	}
	return variables.CheckNames(field.NewPath("variables"), a.Variables).ToAggregate()
}

func variableSchemasStructural(ctx context.Context, s *session, h *handler) error {
	_, a, err := content[*hooksv1.DiscoverVariablesResponse](ctx, s, h)
	if err != nil {
		return err
	}
	return variables.CheckSchemas(field.NewPath("variables"), a.Variables, nil).ToAggregate()
}

func controlPlanePlanLeadsThere(ctx context.Context, s *session, h *handler) error {
	r, plan, err := content[*hooksv1.GenerateUpgradePlanResponse](ctx, s, h)
	if err != nil {
		return err
	}
	return hookrules.ControlPlanePlan(r.text("fromControlPlaneKubernetesVersion"), r.text("toKubernetesVersion"), plan.ControlPlaneUpgrades)
}

func workersPlanFollows(ctx context.Context, s *session, h *handler) error {
	r, plan, err := content[*hooksv1.GenerateUpgradePlanResponse](ctx, s, h)
	if err != nil {
		return err
	}
	return hookrules.WorkersPlan(r.text("fromWorkersKubernetesVersion"), r.text("toKubernetesVersion"),
		r.text("fromControlPlaneKubernetesVersion"), plan.WorkersUpgrades, plan.ControlPlaneUpgrades)
}
