// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/topology/classrefs"
)

// Read reads an object of any kind. Conditions of another form are reported as one of type
// Ready; references of another form are left out.
func Read(obj *unstructured.Unstructured) Object {
	gvk := obj.GroupVersionKind()
	o := Object{
		Key: Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		UID: string(obj.GetUID()), Created: obj.GetCreationTimestamp(), Deleted: obj.GetDeletionTimestamp(), Finalizers: obj.GetFinalizers(),
	}
	list, err := conditions.FromUnstructured(obj)
	if o.Conditions = list; err != nil {
		o.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: "Unreadable", Message: err.Error(), LastTransitionTime: o.Created}}
	}
	for _, owner := range obj.GetOwnerReferences() {
		o.Owners = append(o.Owners, string(owner.UID))
	}
	if paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused"); paused {
		o.Paused = "spec.paused"
	}
	for _, name := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		switch {
		case name == clusterv1.PausedAnnotation:
			o.Paused = cmp.Or(o.Paused, "annotation "+name)
		case strings.Contains(name, ".hook."):
			o.Hooks = append(o.Hooks, name)
		}
	}
	for _, field := range []string{fieldInfrastructure, fieldControlPlane, fieldBootstrap, fieldTemplateInfrastructure, fieldTemplateBootstrap, fieldMachineTemplate} {
		ref, _, _ := unstructured.NestedMap(obj.Object, strings.Split(field, ".")...)
		text := func(name string) string { s, _ := ref[name].(string); return s }
		o.refer(field, Key{text("apiGroup"), text("kind"), o.Namespace, text("name")})
	}
	o.readClass(obj)
	return o
}

func (o *Object) refer(field string, to Key) {
	if to.Kind != "" && to.Name != "" {
		o.Refs = append(o.Refs, Ref{field, to})
	}
}

// readClass reads the references of a Cluster to its class, and of a class to templates.
func (o *Object) readClass(obj *unstructured.Unstructured) {
	switch o.Kind {
	case kindCluster:
		cluster := &clusterv1.Cluster{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, cluster) == nil {
			class := cluster.GetClassKey()
			o.refer(fieldClass, Key{o.Group, kindClass, class.Namespace, class.Name})
		}
	case kindClass:
		class := &clusterv1.ClusterClass{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, class) == nil {
			for _, t := range classrefs.Distinct(class) {
				gvk := t.Ref.GroupVersionKind()
				o.refer(t.Field, Key{gvk.Group, gvk.Kind, o.Namespace, t.Ref.Name})
			}
		}
	}
}

// ReadQuota reads the limits of a ResourceQuota that are used up.
func ReadQuota(quota *corev1.ResourceQuota) Object {
	o := Object{Key: Key{Kind: kindQuota, Namespace: quota.Namespace, Name: quota.Name}}
	for resource, hard := range quota.Status.Hard {
		if used, ok := quota.Status.Used[resource]; ok && used.Cmp(hard) >= 0 {
			o.Exhausted = append(o.Exhausted, string(resource))
		}
	}
	slices.Sort(o.Exhausted)
	return o
}

// Warn adds an Event of type Warning about the object: the last with its reason.
func (o *Object) Warn(w Warning) {
	i := slices.IndexFunc(o.Warnings, func(old Warning) bool { return old.Reason == w.Reason })
	switch {
	case i < 0:
		o.Warnings = append(o.Warnings, w)
	case o.Warnings[i].Last.Before(&w.Last):
		o.Warnings[i] = w
	}
}

// Wanted reports whether the object that a reference names may have a cause to report:
// those of a Machine that is ready and stays have none. Classes are read with the Cluster.
func (o *Object) Wanted(ref Ref) bool {
	ready := map[string]string{fieldInfrastructure: clusterv1.InfrastructureReadyCondition, fieldBootstrap: clusterv1.BootstrapConfigReadyCondition}[ref.Field]
	return ref.Field != fieldClass && (o.Kind != kindMachine || o.Deleted != nil || !conditions.IsTrue(conditions.List(o.Conditions), ready))
}
