// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// Name is the name of the variable; no class may define a variable with that name.
const Name = "builtin"

// marks are annotations in which the topology controller records its progress. They
// change with each step of an upgrade, which does not change the desired state.
var marks = []string{runtimev1.PendingHooksAnnotation, runtimev1.OkToDeleteAnnotation, clusterv1.ClusterTopologyUpgradeStepAnnotation}

// ClusterBuiltins describes the Cluster, as all patches see it. It includes the labels that the
// topology sets even before they are set, since otherwise the result of patches that use
// labels would change right after the first machines were created.
func ClusterBuiltins(c *clusterv1.Cluster) hooksv1.Builtins {
	class := c.GetClassKey()
	labels := map[string]string{}
	maps.Copy(labels, c.Labels)
	labels[clusterv1.ClusterNameLabel], labels[clusterv1.ClusterTopologyOwnedLabel] = c.Name, ""
	annotations := maps.Clone(c.Annotations)
	for _, mark := range marks {
		delete(annotations, mark)
	}
	out := &hooksv1.ClusterBuiltins{
		Name: c.Name, Namespace: c.Namespace, UID: c.UID,
		Metadata: metadata(labels, annotations),
		Topology: &hooksv1.ClusterTopologyBuiltins{
			Version: c.Spec.Topology.Version, Class: class.Name, ClassNamespace: class.Namespace,
			ClassRef: hooksv1.ClusterTopologyClusterClassRefBuiltins{Name: class.Name, Namespace: class.Namespace},
		},
	}
	if n := c.Spec.ClusterNetwork; n.ServiceDomain != "" || len(n.Services.CIDRBlocks) > 0 || len(n.Pods.CIDRBlocks) > 0 {
		out.Network = &hooksv1.ClusterNetworkBuiltins{Services: n.Services.CIDRBlocks, Pods: n.Pods.CIDRBlocks}
		if n.ServiceDomain != "" {
			out.Network.ServiceDomain = &n.ServiceDomain
		}
	}
	return hooksv1.Builtins{Cluster: out}
}

// Group describes a control plane or a group of workers.
type Group struct {
	Name     string
	Version  string // current or next version
	Replicas *int32 // nil when other controllers set them
	Metadata clusterv1.ObjectMeta
	// Infrastructure is the name of the template of its infrastructure machines, or in a
	// MachinePool of the object that creates them. Empty if there is none.
	Infrastructure string

	// For workers only.
	TopologyName, Class string
	Bootstrap           string // the name of the template or object of its bootstrap data
}

// ControlPlaneBuiltins describes the control plane to its own templates.
func ControlPlaneBuiltins(g Group) hooksv1.Builtins {
	out := &hooksv1.ControlPlaneBuiltins{Name: g.Name, Version: g.Version, Replicas: g.Replicas, Metadata: metadata(g.Metadata.Labels, g.Metadata.Annotations)}
	if g.Infrastructure != "" {
		out.MachineTemplate = &hooksv1.ControlPlaneMachineTemplateBuiltins{
			InfrastructureRef: hooksv1.ControlPlaneMachineTemplateInfrastructureRefBuiltins{Name: g.Infrastructure},
		}
	}
	return hooksv1.Builtins{ControlPlane: out}
}

// MachineDeploymentBuiltins describes a MachineDeployment to its own templates.
func MachineDeploymentBuiltins(g Group) hooksv1.Builtins {
	return hooksv1.Builtins{MachineDeployment: &hooksv1.MachineDeploymentBuiltins{
		Name: g.Name, Version: g.Version, Class: g.Class, TopologyName: g.TopologyName, Replicas: replicas(g.Replicas),
		Metadata: metadata(g.Metadata.Labels, g.Metadata.Annotations), Bootstrap: bootstrap(g.Bootstrap), InfrastructureRef: infrastructure(g.Infrastructure),
	}}
}

// MachinePoolBuiltins describes a MachinePool to its own objects.
func MachinePoolBuiltins(g Group) hooksv1.Builtins {
	return hooksv1.Builtins{MachinePool: &hooksv1.MachinePoolBuiltins{
		Name: g.Name, Version: g.Version, Class: g.Class, TopologyName: g.TopologyName, Replicas: replicas(g.Replicas),
		Metadata: metadata(g.Metadata.Labels, g.Metadata.Annotations), Bootstrap: bootstrap(g.Bootstrap), InfrastructureRef: infrastructure(g.Infrastructure),
	}}
}

// metadata omits annotations in which tools record the whole object: these would change
// with every change of the Cluster, and so would the results of patches that use them.
func metadata(labels, annotations map[string]string) *hooksv1.ObjectMeta {
	annotations = maps.Clone(annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, rules.DataAnnotation)
	if len(labels) == 0 && len(annotations) == 0 {
		return nil
	}
	return &hooksv1.ObjectMeta{Labels: labels, Annotations: annotations}
}

func replicas(n *int32) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

func bootstrap(name string) *hooksv1.MachineBootstrapBuiltins {
	if name == "" {
		return nil
	}
	return &hooksv1.MachineBootstrapBuiltins{ConfigRef: &hooksv1.MachineBootstrapConfigRefBuiltins{Name: name}}
}

func infrastructure(name string) *hooksv1.MachineInfrastructureRefBuiltins {
	if name == "" {
		return nil
	}
	return &hooksv1.MachineInfrastructureRefBuiltins{Name: name}
}
