// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
	"github.com/capstan-dev/capstan/extension/server"
)

// newServer registers a handler for every hook.
func newServer(o server.Options) (*server.Server, error) {
	s, err := server.New(o)
	if err != nil {
		return nil, err
	}
	h := &holds{now: time.Now, since: map[string]time.Time{}}
	return s, errors.Join(
		mayHold(h, s, hooksv1.BeforeClusterCreate, func(r *hooksv1.BeforeClusterCreateRequest) (*clusterv1.Cluster, string) { return &r.Cluster, "" }),
		mayHold(h, s, hooksv1.BeforeClusterUpgrade, func(r *hooksv1.BeforeClusterUpgradeRequest) (*clusterv1.Cluster, string) {
			return &r.Cluster, r.ToKubernetesVersion
		}),
		mayHold(h, s, hooksv1.BeforeControlPlaneUpgrade, func(r *hooksv1.BeforeControlPlaneUpgradeRequest) (*clusterv1.Cluster, string) {
			return &r.Cluster, r.ToKubernetesVersion
		}),
		mayHold(h, s, hooksv1.AfterControlPlaneUpgrade, func(r *hooksv1.AfterControlPlaneUpgradeRequest) (*clusterv1.Cluster, string) {
			return &r.Cluster, r.KubernetesVersion
		}),
		mayHold(h, s, hooksv1.BeforeWorkersUpgrade, func(r *hooksv1.BeforeWorkersUpgradeRequest) (*clusterv1.Cluster, string) {
			return &r.Cluster, r.ToKubernetesVersion
		}),
		mayHold(h, s, hooksv1.AfterWorkersUpgrade, func(r *hooksv1.AfterWorkersUpgradeRequest) (*clusterv1.Cluster, string) {
			return &r.Cluster, r.KubernetesVersion
		}),
		mayHold(h, s, hooksv1.AfterClusterUpgrade, func(r *hooksv1.AfterClusterUpgradeRequest) (*clusterv1.Cluster, string) {
			return &r.Cluster, r.KubernetesVersion
		}),
		mayHold(h, s, hooksv1.BeforeClusterDelete, func(r *hooksv1.BeforeClusterDeleteRequest) (*clusterv1.Cluster, string) { return &r.Cluster, "" }),
		server.Handle(s, hooksv1.AfterControlPlaneInitialized, afterControlPlaneInitialized),
		server.Handle(s, hooksv1.DiscoverVariables, discoverVariables),
		server.Handle(s, hooksv1.GeneratePatches, generatePatches),
		server.Handle(s, hooksv1.ValidateTopology, validateTopology),
		server.Handle(s, hooksv1.GenerateUpgradePlan, generateUpgradePlan),
		server.Handle(s, hooksv1.CanUpdateMachine, inPlace.CanUpdateMachine),
		server.Handle(s, hooksv1.CanUpdateMachineSet, inPlace.CanUpdateMachineSet),
		server.Handle(s, hooksv1.UpdateMachine, h.updateMachine),
	)
}

func afterControlPlaneInitialized(_ context.Context, req *hooksv1.AfterControlPlaneInitializedRequest, resp *hooksv1.AfterControlPlaneInitializedResponse) error {
	resp.Message = fmt.Sprintf("the control plane of %s/%s is up", req.Cluster.Namespace, req.Cluster.Name)
	return nil
}

// discoverVariables defines the variable that generatePatches uses.
func discoverVariables(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, resp *hooksv1.DiscoverVariablesResponse) error {
	schema := clusterv1.JSONSchemaProps{Type: "string", Description: "Registry that the control plane takes its images from", MinLength: new(int64(1)), MaxLength: new(int64(512))}
	resp.Variables = []clusterv1.ClusterClassVariable{{Name: "imageRepository", Required: new(false), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}}
	return nil
}

// generatePatches sets the registry; "{cluster}" in it is replaced by the cluster's name.
func generatePatches(ctx context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
	return mutation.GeneratePatches(ctx, req, resp, controlPlanes(func(t *mutation.Template, registry *string) error {
		want, err := mutation.VariableOr(t.Variables, "imageRepository", *registry)
		*registry = strings.ReplaceAll(want, "{cluster}", t.Builtins.Cluster.Name)
		return err
	}))
}

// validateTopology refuses a registry that is not below the setting allowedRegistry.
func validateTopology(ctx context.Context, req *hooksv1.ValidateTopologyRequest, _ *hooksv1.ValidateTopologyResponse) error {
	return mutation.ValidateTopology(ctx, req, controlPlanes(func(_ *mutation.Template, registry *string) error {
		if allowed := req.Settings["allowedRegistry"]; allowed != "" && !strings.HasPrefix(*registry+"/", allowed+"/") {
			return fmt.Errorf("image repository %q is not in %s", *registry, allowed)
		}
		return nil
	}))
}

// controlPlanes calls visit with the registry of each template of a control plane.
func controlPlanes(visit func(*mutation.Template, *string) error) mutation.Visit {
	return mutation.For(controlplanev1.GroupVersion().WithKind("KubeadmControlPlaneTemplate"), func(_ context.Context, t *mutation.Template, cp *controlplanev1.KubeadmControlPlaneTemplate) error {
		return visit(t, &cp.Spec.Template.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository)
	})
}

// generateUpgradePlan plans one minor version at a time, as Kubernetes requires; the
// workers follow.
func generateUpgradePlan(_ context.Context, req *hooksv1.GenerateUpgradePlanRequest, resp *hooksv1.GenerateUpgradePlanResponse) error {
	from, err1 := version.ParseSemantic(req.FromControlPlaneKubernetesVersion)
	to, err2 := version.ParseSemantic(req.ToKubernetesVersion)
	workers, err3 := version.ParseSemantic(cmp.Or(req.FromWorkersKubernetesVersion, req.ToKubernetesVersion))
	if err := errors.Join(err1, err2, err3); err != nil || to.LessThan(from) || to.LessThan(workers) || to.Major() != from.Major() || to.Minor() > from.Minor()+20 {
		return errors.Join(fmt.Errorf("no way leads from %q and workers of %q to %q", req.FromControlPlaneKubernetesVersion, req.FromWorkersKubernetesVersion, req.ToKubernetesVersion), err)
	}
	for minor := min(from.Minor()+1, to.Minor()); minor <= to.Minor(); minor++ {
		step := hooksv1.UpgradeStep{Version: fmt.Sprintf("v%d.%d.0", to.Major(), minor)}
		if minor == to.Minor() {
			step.Version = req.ToKubernetesVersion
		}
		if from.LessThan(version.MustParseSemantic(step.Version)) {
			resp.ControlPlaneUpgrades = append(resp.ControlPlaneUpgrades, step)
		}
		if workers.LessThan(version.MustParseSemantic(step.Version)) {
			resp.WorkersUpgrades = append(resp.WorkersUpgrades, step)
		}
	}
	return nil
}

// inPlace is what can change without a new machine. The feature gates of kubeadm
// change with some versions of a control plane.
var inPlace = mutation.InPlace{
	Machine: []string{"version"}, Infrastructure: []string{"simulated"}, Bootstrap: []string{"files", "clusterConfiguration.featureGates"},
}

// updateMachine would change the host, and requests to be called again until that is done:
// the setting updateSeconds is how long that takes for each version. A simulated machine
// follows its objects automatically.
func (h *holds) updateMachine(_ context.Context, req *hooksv1.UpdateMachineRequest, resp *hooksv1.UpdateMachineResponse) error {
	m := req.Desired.Machine
	takes, err := seconds(req.GetSettings(), "updateSeconds", 0)
	if left := time.Duration(takes)*time.Second - h.held(fmt.Sprint("UpdateMachine ", m.UID, " ", m.Spec.Version)); left > 0 {
		resp.Message, resp.RetryAfterSeconds = m.Name+" is being updated", int32((left+time.Second-1)/time.Second)
		return err
	}
	resp.Message = m.Name + " is updated"
	return err
}
