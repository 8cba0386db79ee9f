// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// content is the first request and answer of a handler, if the suite has the type
// of the answer.
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

// defined are the variables of the first answer.
func (s *session) defined(ctx context.Context, h *handler) (request, *hooksv1.DiscoverVariablesResponse, error) {
	return content[*hooksv1.DiscoverVariablesResponse](ctx, s, h)
}

func variableNamesUnique(_ context.Context, _ *session, _ *handler, _ request, a *hooksv1.DiscoverVariablesResponse) error {
	return variables.CheckNames(field.NewPath("variables"), a.Variables).ToAggregate()
}

func variableSchemasStructural(_ context.Context, _ *session, _ *handler, _ request, a *hooksv1.DiscoverVariablesResponse) error {
	return variables.CheckSchemas(field.NewPath("variables"), a.Variables, nil).ToAggregate()
}

func controlPlanePlanLeadsThere(_ context.Context, _ *session, _ *handler, way upgrade.Way, steps upgrade.Steps) error {
	return upgrade.CheckControlPlane(way, steps.ControlPlane)
}

func workersPlanFollows(_ context.Context, _ *session, _ *handler, way upgrade.Way, steps upgrade.Steps) error {
	return upgrade.CheckWorkers(way, steps)
}

// upgradePlan is the request to an extension, and its answer.
func (s *session) upgradePlan(ctx context.Context, h *handler) (way upgrade.Way, steps upgrade.Steps, err error) {
	r, a, err := content[*hooksv1.GenerateUpgradePlanResponse](ctx, s, h)
	if err != nil {
		return way, steps, err
	}
	way = upgrade.Way{ControlPlane: r.text("fromControlPlaneKubernetesVersion"), Workers: r.text("fromWorkersKubernetesVersion"), Target: r.text("toKubernetesVersion")}
	for _, step := range a.ControlPlaneUpgrades {
		steps.ControlPlane = append(steps.ControlPlane, step.Version)
	}
	for _, step := range a.WorkersUpgrades {
		steps.Workers = append(steps.Workers, step.Version)
	}
	return way, steps, nil
}
