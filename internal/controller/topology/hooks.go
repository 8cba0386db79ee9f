// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// beforeDelete marks the Cluster as ready for deletion when no extension objects.
// It needs only the Cluster: not even its class has to exist.
func (r *Reconciler) beforeDelete(ctx context.Context, s *state) (reconciler.Next, error) {
	s.facts.Deleting = true
	if err := r.freeGroups(ctx, s); err != nil {
		return reconciler.Continue(), err
	}
	if _, let := s.cluster.Annotations[runtimev1.OkToDeleteAnnotation]; let {
		return reconciler.Continue(), nil
	}
	response := &hooksv1.BeforeClusterDeleteResponse{}
	err := r.Extensions.CallAllExtensions(ctx, hooksv1.BeforeClusterDelete, s.cluster, &hooksv1.BeforeClusterDeleteRequest{Cluster: extensionconfig.Cluster(s.cluster)}, response)
	if err != nil {
		s.facts.DeleteHook = &upgrade.Blocking{Hook: beforeClusterDelete, Message: err.Error()}
		return reconciler.Continue(), err
	}
	if after := seconds(response.RetryAfterSeconds); after > 0 {
		s.facts.DeleteHook = &upgrade.Blocking{Hook: beforeClusterDelete, Message: response.Message}
		return reconciler.RequeueAfter(after), nil
	}
	metav1.SetMetaDataAnnotation(&s.cluster.ObjectMeta, runtimev1.OkToDeleteAnnotation, "")
	return reconciler.Continue(), nil
}

const beforeClusterDelete = "BeforeClusterDelete"

// ask calls the hook in a question of the plan.
func (r *Reconciler) ask(ctx context.Context, s *state, q upgrade.Question) (a upgrade.Answer, err error) {
	s.asked = true
	cluster := extensionconfig.Cluster(s.wanted)
	if q.Hook == upgrade.GenerateUpgradePlan {
		request := &hooksv1.GenerateUpgradePlanRequest{
			Cluster: cluster, FromControlPlaneKubernetesVersion: q.From, FromWorkersKubernetesVersion: q.FromWorkers, ToKubernetesVersion: q.To,
		}
		response := &hooksv1.GenerateUpgradePlanResponse{}
		name := s.facts.Upgrade.PlanExtension
		if err := r.Extensions.CallExtension(ctx, hooksv1.GenerateUpgradePlan, s.cluster, name, request, response); err != nil {
			return a, err
		}
		s.reject = append(s.reject, func() { r.Extensions.Reject(hooksv1.GenerateUpgradePlan, name, request) })
		return upgrade.Answer{ControlPlane: versions(response.ControlPlaneUpgrades), Workers: versions(response.WorkersUpgrades)}, nil
	}
	hook, request, response := lifecycle(q, cluster)
	if hook == nil {
		return a, fmt.Errorf("unknown hook %s", q.Hook)
	}
	if err := r.Extensions.CallAllExtensions(ctx, hook, s.cluster, request, response); err != nil {
		return a, err
	}
	a.Message = response.GetMessage()
	if blocking, ok := response.(hooksv1.RetryResponseObject); ok {
		a.RetryAfter = seconds(blocking.GetRetryAfterSeconds())
	}
	return a, nil
}

// lifecycle returns the hook in a question, with its request and an empty response;
// nil if there is none.
func lifecycle(q upgrade.Question, c clusterv1.Cluster) (hook any, request hooksv1.RequestObject, response hooksv1.ResponseObject) {
	plane, workers := steps(q.ControlPlaneUpgrades), steps(q.WorkersUpgrades)
	switch q.Hook {
	case upgrade.BeforeClusterCreate:
		return hooksv1.BeforeClusterCreate, &hooksv1.BeforeClusterCreateRequest{Cluster: c}, &hooksv1.BeforeClusterCreateResponse{}
	case upgrade.AfterControlPlaneInitialized:
		return hooksv1.AfterControlPlaneInitialized, &hooksv1.AfterControlPlaneInitializedRequest{Cluster: c}, &hooksv1.AfterControlPlaneInitializedResponse{}
	case upgrade.BeforeClusterUpgrade:
		return hooksv1.BeforeClusterUpgrade, &hooksv1.BeforeClusterUpgradeRequest{
			Cluster: c, FromKubernetesVersion: q.From, ToKubernetesVersion: q.To, ControlPlaneUpgrades: plane, WorkersUpgrades: workers,
		}, &hooksv1.BeforeClusterUpgradeResponse{}
	case upgrade.BeforeControlPlaneUpgrade:
		return hooksv1.BeforeControlPlaneUpgrade, &hooksv1.BeforeControlPlaneUpgradeRequest{
			Cluster: c, FromKubernetesVersion: q.From, ToKubernetesVersion: q.To, ControlPlaneUpgrades: plane, WorkersUpgrades: workers,
		}, &hooksv1.BeforeControlPlaneUpgradeResponse{}
	case upgrade.AfterControlPlaneUpgrade:
		return hooksv1.AfterControlPlaneUpgrade, &hooksv1.AfterControlPlaneUpgradeRequest{
			Cluster: c, KubernetesVersion: q.To, ControlPlaneUpgrades: plane, WorkersUpgrades: workers,
		}, &hooksv1.AfterControlPlaneUpgradeResponse{}
	case upgrade.BeforeWorkersUpgrade:
		return hooksv1.BeforeWorkersUpgrade, &hooksv1.BeforeWorkersUpgradeRequest{
			Cluster: c, FromKubernetesVersion: q.From, ToKubernetesVersion: q.To, ControlPlaneUpgrades: plane, WorkersUpgrades: workers,
		}, &hooksv1.BeforeWorkersUpgradeResponse{}
	case upgrade.AfterWorkersUpgrade:
		return hooksv1.AfterWorkersUpgrade, &hooksv1.AfterWorkersUpgradeRequest{
			Cluster: c, KubernetesVersion: q.To, ControlPlaneUpgrades: plane, WorkersUpgrades: workers,
		}, &hooksv1.AfterWorkersUpgradeResponse{}
	case upgrade.AfterClusterUpgrade:
		return hooksv1.AfterClusterUpgrade, &hooksv1.AfterClusterUpgradeRequest{Cluster: c, KubernetesVersion: q.To}, &hooksv1.AfterClusterUpgradeResponse{}
	}
	return nil, nil, nil
}

func steps(list string) (out []hooksv1.UpgradeStepInfo) {
	if list == "" {
		return nil
	}
	for v := range strings.SplitSeq(list, ",") {
		out = append(out, hooksv1.UpgradeStepInfo{Version: v})
	}
	return out
}

func versions(of []hooksv1.UpgradeStep) (out []string) {
	for _, s := range of {
		out = append(out, s.Version)
	}
	return out
}

// patchers calls the extensions that generate or validate patches.
type patchers struct {
	Extensions
	ctx context.Context // of the reconcile: the computation has none
	*state
}

// GeneratePatches implements desired.Extensions.
func (x patchers) GeneratePatches(q patches.Question) (*hooksv1.GeneratePatchesResponse, error) {
	x.asked = true
	response := &hooksv1.GeneratePatchesResponse{}
	err := x.CallExtension(x.ctx, hooksv1.GeneratePatches, x.cluster, q.Extension, q.Request, response)
	if err == nil {
		x.reject = append(x.reject, func() { x.Reject(hooksv1.GeneratePatches, q.Extension, q.Request) })
	}
	return response, err
}

// ValidateTopology implements desired.Extensions.
func (x patchers) ValidateTopology(v patches.Validation) error {
	x.asked = true
	return x.CallExtension(x.ctx, hooksv1.ValidateTopology, x.cluster, v.Extension, v.Request, &hooksv1.ValidateTopologyResponse{})
}
