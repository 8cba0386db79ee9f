// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/conditions"
)

// counts are those of a kind that has replicas, and of a Cluster for each half.
type counts struct {
	DesiredReplicas   *int32 `json:"desiredReplicas"`
	Replicas          *int32 `json:"replicas"`
	ReadyReplicas     *int32 `json:"readyReplicas"`
	AvailableReplicas *int32 `json:"availableReplicas"`
	UpToDateReplicas  *int32 `json:"upToDateReplicas"`
}

// shown is what the tree shows of any object, by the names of these fields in the
// contracts.
type shown struct {
	Spec struct {
		Replicas *int32 `json:"replicas"`
		Version  string `json:"version"`
		Paused   bool   `json:"paused"`
		Topology struct {
			Version string `json:"version"`
		} `json:"topology"`
		Template struct {
			Spec struct {
				Version string `json:"version"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		counts
		ControlPlane counts `json:"controlPlane"`
		Workers      counts `json:"workers"`
		// For a MachineHealthCheck, Machines correspond to the replicas of other kinds.
		ExpectedMachines *int32 `json:"expectedMachines"`
		CurrentHealthy   *int32 `json:"currentHealthy"`
	} `json:"status"`
}

// seen is what the tree shows of an object. An object of a provider may have fields of
// another form: they are left out, so that the rest can be displayed.
func seen(obj *unstructured.Unstructured) tree.Object {
	o := tree.Object{
		Kind:      obj.GetKind(),
		Namespace: obj.GetNamespace(),
		Name:      obj.GetName(),
		UID:       string(obj.GetUID()),
		Created:   obj.GetCreationTimestamp(),
		Deleted:   obj.GetDeletionTimestamp(),
		Labels:    obj.GetLabels(),
		Owners:    obj.GetOwnerReferences(),
	}
	list, err := conditions.FromUnstructured(obj)
	if o.Conditions = list; err != nil {
		o.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: "Unreadable", Message: err.Error(), LastTransitionTime: o.Created}}
	}
	var s shown
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &s); err != nil {
		return o
	}
	o.Version = cmp.Or(s.Spec.Version, s.Spec.Topology.Version, s.Spec.Template.Spec.Version)
	_, annotated := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	o.Paused = annotated || s.Spec.Paused || conditions.IsTrue(list, clusterv1.PausedCondition)
	st := &s.Status
	o.Replicas = tree.Counters{Desired: s.Spec.Replicas, Current: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas}
	switch o.Kind {
	case clusterv1.ClusterKind:
		a, b := st.ControlPlane, st.Workers
		o.Replicas = tree.Counters{
			Desired: sum(a.DesiredReplicas, b.DesiredReplicas), Current: sum(a.Replicas, b.Replicas), Ready: sum(a.ReadyReplicas, b.ReadyReplicas),
			Available: sum(a.AvailableReplicas, b.AvailableReplicas), UpToDate: sum(a.UpToDateReplicas, b.UpToDateReplicas),
		}
	case "MachineHealthCheck":
		o.Replicas = tree.Counters{Desired: st.ExpectedMachines, Current: st.ExpectedMachines, Ready: st.CurrentHealthy}
	}
	return o
}

// sum is nil if nothing was counted.
func sum(a, b *int32) *int32 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new(*a + *b)
}

// typed is seen for an object with one of our Go types.
func typed(obj client.Object, kind string) (tree.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return tree.Object{}, fmt.Errorf("read %s %s: %w", kind, client.ObjectKeyFromObject(obj), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetKind(kind)
	return seen(u), nil
}
