// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
)

// unreadable is the reason of the condition of an object whose conditions cannot be read.
const unreadable = "Unreadable"

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
		o.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: unreadable, Message: err.Error(), LastTransitionTime: o.Created}}
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
	o.readResources(obj)
	o.readContract(obj)
	return o
}

// readResources reads the resources of a ClusterResourceSet, and those that a binding has
// applied.
func (o *Object) readResources(obj *unstructured.Unstructured) {
	name := func(of map[string]any, field string) string { s, _ := of[field].(string); return s }
	note := func(resources any, prefix string, is func(map[string]any) bool) {
		all, _ := resources.([]any)
		for _, r := range all {
			if r, _ := r.(map[string]any); is(r) {
				o.Resources = append(o.Resources, prefix+name(r, "kind")+" "+name(r, "name"))
			}
		}
	}
	spec, _ := obj.Object["spec"].(map[string]any)
	switch o.Kind {
	case kindResourceSet:
		note(spec["resources"], "", func(map[string]any) bool { return true })
	case kindBinding:
		sets, _ := spec["bindings"].([]any)
		for _, set := range sets {
			set, _ := set.(map[string]any)
			o.refer(fieldSets, Key{o.Group, kindResourceSet, o.Namespace, name(set, "clusterResourceSetName")})
			note(set["resources"], name(set, "clusterResourceSetName")+" ", func(r map[string]any) bool { return r["applied"] == true })
		}
	}
}

// readContract reads which fields of the contract are not set, and whether an object of a
// provider has been written by its controller.
func (o *Object) readContract(obj *unstructured.Unstructured) {
	at := func(path string) any {
		v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(path, ".")...)
		return v
	}
	empty := func(path string) bool { text, _ := at(path).(string); return text == "" }
	port, _ := at(fieldEndpoint + ".port").(int64)
	provisioned := at(fieldDone+".provisioned") == true || at("status.ready") == true // of contract v1beta1
	created := at(fieldDone+".dataSecretCreated") == true
	initialized := at(fieldDone+".controlPlaneInitialized") == true || at("status.initialized") == true // of contract v1beta1
	reported := conditions.List(o.Conditions)
	complete := conditions.IsTrue(reported, clusterv1.ReadyCondition) || conditions.IsTrue(reported, clusterv1.AvailableCondition)
	for _, field := range []struct {
		name  string
		unset bool
	}{
		{fieldEndpoint, (empty(fieldEndpoint+".host") || port == 0) && (o.Kind == kindCluster || provisioned)},
		{fieldProviderID, empty(fieldProviderID) && provisioned},
		{fieldSecret, empty(fieldSecret) && created},
		{fieldDone, complete && !provisioned && !created && !initialized},
	} {
		if field.unset {
			o.Unset = append(o.Unset, field.name)
		}
	}
	if !provisioned {
		o.Manager = obj.GetAnnotations()[clusterv1.ManagedByAnnotation]
	}
	status, _ := obj.Object["status"].(map[string]any)
	o.Untouched = len(o.Finalizers) == 0 && len(status) == 0
}

// Available reports whether no condition of an object reports that it is not available.
func (o *Object) Available() bool {
	return !slices.ContainsFunc(o.Conditions, func(c metav1.Condition) bool {
		return c.Type == clusterv1.AvailableCondition && c.Status != metav1.ConditionTrue
	})
}

// ReadPod reads a Pod of a Deployment: the containers that do not start, or its conditions.
func ReadPod(pod *corev1.Pod, deployment string) Object {
	o := Object{Key: Key{Kind: kindPod, Namespace: pod.Namespace, Name: pod.Name}, UID: string(pod.UID), Owners: []string{deployment}, Created: pod.CreationTimestamp}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Type != corev1.PodReady {
			o.Conditions = append(o.Conditions, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionFalse, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Message != "" && len(o.Conditions) > 0 {
			last := o.Conditions[len(o.Conditions)-1]
			last.Reason, last.Message = w.Reason, fmt.Sprintf("container %s, image %s: %s", c.Name, c.Image, w.Message)
			o.Conditions = []metav1.Condition{last}
			break
		}
	}
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

// EventTime is when an Event happened last.
func EventTime(e *corev1.Event) time.Time {
	if e.Series != nil && !e.Series.LastObservedTime.IsZero() {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
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
// those of a Machine that is ready, has a Node and stays have none. Classes are read with the Cluster.
func (o *Object) Wanted(ref Ref) bool {
	ready := map[string]string{fieldInfrastructure: clusterv1.InfrastructureReadyCondition, fieldBootstrap: clusterv1.BootstrapConfigReadyCondition}[ref.Field]
	list := conditions.List(o.Conditions)
	return ref.Field != fieldClass && (o.Kind != kindMachine || o.Deleted != nil || !conditions.IsTrue(list, ready) ||
		!conditions.IsTrue(list, clusterv1.InfrastructureReadyCondition) || conditions.Reason(list, clusterv1.MachineNodeHealthyCondition) == clusterv1.MachineNodeInspectionFailedReason)
}
