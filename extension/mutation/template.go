// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Template is one item of a request.
type Template struct {
	// UID connects the patch with the item; ValidateTopology has none.
	UID types.UID

	// Holder is the user of the template.
	Holder Holder

	// Object is a copy of the template. GeneratePatches computes a patch from its
	// changes.
	Object *unstructured.Unstructured

	// Variables are the cluster's and the item's; the item's take precedence.
	Variables Variables

	// Builtins are the variable builtin, of the cluster and the item. Neither
	// it nor its Cluster is nil; its other fields are, where they do not apply.
	Builtins *hooksv1.Builtins
}

// Holder names the user of a template, and the field that refers to it.
type Holder struct {
	hooksv1.HolderReference
}

// String is for messages: "Cluster default/demo, spec.controlPlaneRef".
func (h Holder) String() string {
	if h.Kind == "" && h.Name == "" {
		return "unknown holder"
	}
	return fmt.Sprintf("%s %s, %s", h.Kind, types.NamespacedName{Namespace: h.Namespace, Name: h.Name}, h.FieldPath)
}

// InfrastructureCluster reports whether the Cluster holds the template as its
// infrastructure.
func (h Holder) InfrastructureCluster() bool {
	return h.core("Cluster") && h.FieldPath == "spec.infrastructureRef"
}

// ControlPlane reports whether the template is the control plane's own.
func (h Holder) ControlPlane() bool {
	return h.core("Cluster") && h.FieldPath == "spec.controlPlaneRef"
}

// ControlPlaneMachines reports whether the template is that of the machines of
// the control plane.
func (h Holder) ControlPlaneMachines() bool {
	return strings.HasPrefix(h.FieldPath, "spec.machineTemplate.")
}

// MachineDeployment reports whether a MachineDeployment holds the template.
func (h Holder) MachineDeployment() bool { return h.core("MachineDeployment") }

// MachinePool reports whether a MachinePool holds the template.
func (h Holder) MachinePool() bool { return h.core("MachinePool") }

func (h Holder) core(kind string) bool {
	group, _, _ := strings.Cut(h.APIVersion, "/")
	return h.Kind == kind && group == clusterv1.GroupVersion().Group
}

// Selector selects templates.
type Selector func(t *Template) bool

// Kind selects templates of any of the kinds, such as "KubeadmControlPlaneTemplate", or
// with the group "KubeadmControlPlaneTemplate.controlplane.cluster.x-k8s.io".
func Kind(kinds ...string) Selector {
	return func(t *Template) bool {
		have := t.Object.GroupVersionKind().GroupKind()
		return slices.ContainsFunc(kinds, func(kind string) bool {
			want := schema.ParseGroupKind(kind)
			return have.Kind == want.Kind && (want.Group == "" || have.Group == want.Group)
		})
	}
}

// InfrastructureCluster selects the template of the Cluster's infrastructure.
func InfrastructureCluster() Selector {
	return func(t *Template) bool { return t.Holder.InfrastructureCluster() }
}

// ControlPlane selects the template of the control plane and that of its machines, as
// matchResources.controlPlane of a ClusterClass does.
func ControlPlane() Selector {
	return func(t *Template) bool { return t.Holder.ControlPlane() || t.Holder.ControlPlaneMachines() }
}

// MachineDeployment selects the templates of the MachineDeployments of any of the
// classes; of all MachineDeployments without classes. A class may start or end with *,
// which matches any text, as in a ClusterClass.
func MachineDeployment(classes ...string) Selector {
	return func(t *Template) bool {
		b := t.Builtins.MachineDeployment
		return t.Holder.MachineDeployment() && (len(classes) == 0 || b != nil && matches(classes, b.Class))
	}
}

// MachineDeploymentNamed is MachineDeployment by name in the topology.
func MachineDeploymentNamed(names ...string) Selector {
	return func(t *Template) bool {
		b := t.Builtins.MachineDeployment
		return t.Holder.MachineDeployment() && b != nil && matches(names, b.TopologyName)
	}
}

// MachinePool is MachineDeployment for MachinePools.
func MachinePool(classes ...string) Selector {
	return func(t *Template) bool {
		b := t.Builtins.MachinePool
		return t.Holder.MachinePool() && (len(classes) == 0 || b != nil && matches(classes, b.Class))
	}
}

// MachinePoolNamed is MachinePool by name in the topology.
func MachinePoolNamed(names ...string) Selector {
	return func(t *Template) bool {
		b := t.Builtins.MachinePool
		return t.Holder.MachinePool() && b != nil && matches(names, b.TopologyName)
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(name, suffix)
		}
		return name == pattern
	})
}

// When calls visit for the templates that all selectors select.
func When(visit Visit, where ...Selector) Visit {
	return func(ctx context.Context, t *Template) error {
		for _, chosen := range where {
			if !chosen(t) {
				return nil
			}
		}
		return visit(ctx, t)
	}
}

// Each calls one visit after the other with each template, up to the first error.
func Each(visits ...Visit) Visit {
	return func(ctx context.Context, t *Template) error {
		for _, visit := range visits {
			if err := visit(ctx, t); err != nil {
				return err
			}
		}
		return nil
	}
}

// For calls visit with the templates of exactly this group, version and kind, as a T,
// that all selectors select. A change of the T changes t.Object. Another version of the
// kind has another schema, so it is skipped.
func For[T any](kind schema.GroupVersionKind, visit func(ctx context.Context, t *Template, object *T) error, where ...Selector) Visit {
	chosen := slices.Concat([]Selector{func(t *Template) bool { return t.Object.GroupVersionKind() == kind }}, where)
	return When(func(ctx context.Context, t *Template) error {
		return As(t, func(object *T) error { return visit(ctx, t, object) })
	}, chosen...)
}
