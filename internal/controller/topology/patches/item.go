// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Role is the purpose of a template.
type Role string

// The roles, in the order in which templates are best given: those of the
// cluster, then groups of workers by their names in the topology.
const (
	InfrastructureCluster    Role = "infrastructureCluster"
	ControlPlane             Role = "controlPlane"
	ControlPlaneMachines     Role = "controlPlaneMachines"
	DeploymentBootstrap      Role = "machineDeploymentBootstrap"
	DeploymentInfrastructure Role = "machineDeploymentInfrastructure"
	PoolBootstrap            Role = "machinePoolBootstrap"
	PoolInfrastructure       Role = "machinePoolInfrastructure"
)

// fieldPaths are the fields of the holder that refer to the template or its object.
var fieldPaths = map[Role]string{
	InfrastructureCluster:    "spec.infrastructureRef",
	ControlPlane:             "spec.controlPlaneRef",
	ControlPlaneMachines:     "spec.machineTemplate.spec.infrastructureRef",
	DeploymentBootstrap:      "spec.template.spec.bootstrap.configRef",
	DeploymentInfrastructure: "spec.template.spec.infrastructureRef",
	PoolBootstrap:            "spec.template.spec.bootstrap.configRef",
	PoolInfrastructure:       "spec.template.spec.infrastructureRef",
}

// Item is one template of a class, for one Cluster.
type Item struct {
	Role Role
	// Group and Class are those of workers: the name in the topology, and that of
	// the class.
	Group, Class string
	// Template is the template in the class, Desired the object built from it so far: a
	// copy of the template, or if its kind differs, an object of that kind.
	Template, Desired *unstructured.Unstructured
	// Contract is the version of the contract that a control plane follows.
	Contract string
	// Holder refers to the template or object. Its field path may be left out.
	Holder hooksv1.HolderReference
	// Builtins are those of the group; Overrides are values for it only.
	Builtins  hooksv1.Builtins
	Overrides []clusterv1.ClusterVariable
}

// uid names the item in requests. It is the same each time.
func (i *Item) uid() types.UID {
	if i.Group == "" {
		return types.UID(i.Role)
	}
	return types.UID(string(i.Role) + "/" + i.Group)
}

// String names the template in errors.
func (i *Item) String() string {
	return i.Template.GetKind() + " " + i.Template.GetNamespace() + "/" + i.Template.GetName()
}

// holder is the reference to the template with its field path.
func (i *Item) holder() hooksv1.HolderReference {
	h := i.Holder
	h.FieldPath = cmp.Or(h.FieldPath, fieldPaths[i.Role])
	return h
}

// copied reports whether the desired object is a template as well.
func (i *Item) copied() bool { return i.Template.GetKind() == i.Desired.GetKind() }

// hasRole reports whether a selector means the role of the item.
func (i *Item) hasRole(m clusterv1.PatchSelectorMatch) bool {
	switch i.Role {
	case InfrastructureCluster:
		return m.InfrastructureCluster != nil && *m.InfrastructureCluster
	case ControlPlane, ControlPlaneMachines:
		return m.ControlPlane != nil && *m.ControlPlane
	case DeploymentBootstrap, DeploymentInfrastructure:
		return m.MachineDeploymentClass != nil && slices.ContainsFunc(m.MachineDeploymentClass.Names, i.hasClass)
	case PoolBootstrap, PoolInfrastructure:
		return m.MachinePoolClass != nil && slices.ContainsFunc(m.MachinePoolClass.Names, i.hasClass)
	}
	return false
}

func (i *Item) hasClass(name string) bool { return Matches(name, i.Class) }

// Matches reports whether a name, maybe with a star at one end, means a class.
func Matches(name, class string) bool {
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		return strings.HasPrefix(class, prefix)
	}
	if suffix, ok := strings.CutPrefix(name, "*"); ok {
		return strings.HasSuffix(class, suffix)
	}
	return name == class
}

// selectedBy reports whether a selector means the item.
func (i *Item) selectedBy(s clusterv1.PatchSelector) bool {
	return i.hasKind(s) && i.hasRole(s.MatchResources)
}

func (i *Item) hasKind(s clusterv1.PatchSelector) bool {
	return i.Template.GetKind() == s.Kind && i.Template.GetAPIVersion() == s.APIVersion
}

// request is the template in the form for patches: with the desired labels and
// annotations, without the fields that the server sets on it.
func (i *Item) request() map[string]any {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	if spec, ok := i.Template.Object["spec"]; ok {
		out.Object["spec"] = spec
	}
	out = out.DeepCopy()
	out.SetAPIVersion(i.Template.GetAPIVersion())
	out.SetKind(i.Template.GetKind())
	out.SetNamespace(i.Template.GetNamespace())
	out.SetName(i.Template.GetName())
	at := []string{"metadata"}
	if !i.copied() {
		at = inTemplate
	}
	setStrings(out.Object, i.Desired.GetLabels(), append(slices.Clone(at), "labels"))
	setStrings(out.Object, i.Desired.GetAnnotations(), append(slices.Clone(at), "annotations"))
	return out.Object
}

var inTemplate = []string{"spec", "template", "metadata"}
