// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// gated are the kinds that no controller acts on without all of some features.
var gated = []struct {
	provider string
	group    schema.GroupVersion
	kind     string
	resource string
	scope    admissionregistrationv1.ScopeType
	needs    []string
}{
	{"core", clusterv1.GroupVersion(), "ClusterClass", "clusterclasses", "", []string{controllers.GateClusterTopology}},
	{"core", clusterv1.GroupVersion(), "MachinePool", "machinepools", "", []string{controllers.GateMachinePool}},
	{"core", clusterv1.GroupVersion(), "MachinePool", "machinepools/scale", "", []string{controllers.GateMachinePool}},
	{"core", runtimev1.GroupVersion(), "ExtensionConfig", "extensionconfigs", admissionregistrationv1.ClusterScope, []string{controllers.GateRuntimeSDK}},
	{"kubeadm", controlplanev1.GroupVersion(), "KubeadmControlPlaneTemplate", "kubeadmcontrolplanetemplates", "", []string{controllers.GateClusterTopology}},
	{"local", infrav1.GroupVersion(), "LocalClusterTemplate", "localclustertemplates", "", []string{controllers.GateClusterTopology}},
	{"local", infrav1.GroupVersion(), "LocalMachinePool", "localmachinepools", "", []string{controllers.GateMachinePool}},
	{"local", infrav1.GroupVersion(), "LocalMachinePoolTemplate", "localmachinepooltemplates", "", []string{controllers.GateClusterTopology, controllers.GateMachinePool}},
}

// refusals returns webhooks that refuse what a disabled feature would act on: it
// would be stored without any effect. Existing objects stay, can be deleted, and
// can be written if the fields of the feature do not change.
func refusals(gates controllers.Gates, providers []string) (all []webhook.Webhook) {
	if len(gates.Off) == 0 {
		return nil
	}
	for _, k := range gated {
		off := slices.IndexFunc(k.needs, func(name string) bool { return !gates.Enabled(name) })
		if off < 0 || !slices.Contains(providers, k.provider) {
			continue
		}
		on := whenWritten(k.group.WithKind(k.kind), k.resource)
		on.Scope = k.scope
		all = append(all, webhook.Gate(on, func(_, _ *struct{}) field.ErrorList {
			return field.ErrorList{missing(field.NewPath("spec"), k.needs[off])}
		}))
	}
	if !slices.Contains(providers, "core") {
		return all
	}
	if !gates.Enabled(controllers.GateClusterTopology) || !gates.Enabled(controllers.GateMachinePool) {
		all = append(all, webhook.Gate(whenWritten(clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind), "clusters"), func(c, old *clusterv1.Cluster) field.ErrorList {
			return gateCluster(gates, c, old)
		}))
	}
	if gates.Enabled(controllers.GateClusterTopology) && !gates.Enabled(controllers.GateRuntimeSDK) {
		all = append(all, webhook.Gate(whenWritten(clusterv1.GroupVersion().WithKind(clusterv1.ClusterClassKind), "clusterclasses"), gateClass))
	}
	return all
}

// gateCluster refuses a topology, or pools in it, unless it is unchanged.
func gateCluster(gates controllers.Gates, c, old *clusterv1.Cluster) (errs field.ErrorList) {
	if old == nil {
		old = &clusterv1.Cluster{}
	}
	at := field.NewPath("spec", "topology")
	if equality.Semantic.DeepEqual(c.Spec.Topology, old.Spec.Topology) {
		return nil
	}
	if !gates.Enabled(controllers.GateClusterTopology) && c.Spec.Topology.IsDefined() {
		return field.ErrorList{missing(at, controllers.GateClusterTopology)}
	}
	before := old.Spec.Topology.Workers.MachinePools
	for _, pool := range c.Spec.Topology.Workers.MachinePools {
		same := slices.ContainsFunc(before, func(was clusterv1.MachinePoolTopology) bool { return equality.Semantic.DeepEqual(was, pool) })
		if !gates.Enabled(controllers.GateMachinePool) && !same {
			errs = append(errs, missing(at.Child("workers", "machinePools").Key(pool.Name), controllers.GateMachinePool))
		}
	}
	return errs
}

// gateClass refuses extensions in a class, unless they are unchanged.
func gateClass(class, old *clusterv1.ClusterClass) (errs field.ErrorList) {
	if old == nil {
		old = &clusterv1.ClusterClass{}
	}
	spec := field.NewPath("spec")
	for i, p := range class.Spec.Patches {
		same := slices.ContainsFunc(old.Spec.Patches, func(was clusterv1.ClusterClassPatch) bool { return equality.Semantic.DeepEqual(was, p) })
		if p.External != nil && !same {
			errs = append(errs, missing(spec.Child("patches").Index(i).Child("external"), controllers.GateRuntimeSDK))
		}
	}
	if plan := class.Spec.Upgrade.External; plan.GenerateUpgradePlanExtension != "" && plan != old.Spec.Upgrade.External {
		errs = append(errs, missing(spec.Child("upgrade", "external"), controllers.GateRuntimeSDK))
	}
	return errs
}

// missing returns an error that starts with upstream's text, for which users
// search.
func missing(at *field.Path, gate string) *field.Error {
	return field.Forbidden(at, "can be set only if the "+gate+" feature flag is enabled: start Capstan with --feature-gates "+gate+"=true")
}

func whenWritten(kind schema.GroupVersionKind, resource string) webhook.Target {
	return webhook.Target{Kind: kind, Resource: resource, When: map[string]string{
		"spec-changed": webhook.SpecChanged, "stays": "!object.metadata.?deletionTimestamp.hasValue()",
	}}
}
