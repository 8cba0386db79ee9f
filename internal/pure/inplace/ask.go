// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/patchvalidation"
)

// Machine is a Machine with the objects that it refers to. Bootstrap may be nil.
type Machine struct {
	Machine                   *clusterv1.Machine
	Infrastructure, Bootstrap *unstructured.Unstructured
}

// Set is a MachineSet with its templates. Bootstrap may be nil.
type Set struct {
	Set                       *clusterv1.MachineSet
	Infrastructure, Bootstrap *unstructured.Unstructured
}

// Answer is whether a change can be made in place.
type Answer struct {
	Possible bool   `json:"possible,omitempty"`
	Why      string `json:"why,omitempty"` // it is not
}

// CanUpdateMachine builds the request for a change of a Machine.
func CanUpdateMachine(from, to Machine) *hooksv1.CanUpdateMachineRequest {
	side := func(m Machine) hooksv1.CanUpdateMachineRequestObjects {
		return hooksv1.CanUpdateMachineRequestObjects{Machine: sent(m.Machine), InfrastructureMachine: raw(m.Infrastructure), BootstrapConfig: raw(m.Bootstrap)}
	}
	request := &hooksv1.CanUpdateMachineRequest{Current: side(from), Desired: side(to)}
	follow(&request.Current.Machine.Spec, to.Machine.Spec)
	return request
}

// UpdateMachine builds the request to update a Machine to its desired state.
func UpdateMachine(to Machine) *hooksv1.UpdateMachineRequest {
	return &hooksv1.UpdateMachineRequest{Desired: hooksv1.UpdateMachineRequestObjects{
		Machine: sent(to.Machine), InfrastructureMachine: raw(to.Infrastructure), BootstrapConfig: raw(to.Bootstrap),
	}}
}

// CanUpdateMachineSet builds the request for a change from the Machines of one
// MachineSet to those of another. If both refer to templates, the templates are
// compared, and not their names; the number of Machines does not matter. So the request
// stays the same for the whole rollout.
func CanUpdateMachineSet(from, to Set) *hooksv1.CanUpdateMachineSetRequest {
	side := func(s Set) hooksv1.CanUpdateMachineSetRequestObjects {
		set := clusterv1.MachineSet{ObjectMeta: asSent(s.Set)}
		set.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet"}
		set.Annotations = nil
		set.Spec.ClusterName, set.Spec.Selector, set.Spec.Template = s.Set.Spec.ClusterName, s.Set.Spec.Selector, *s.Set.Spec.Template.DeepCopy()
		return hooksv1.CanUpdateMachineSetRequestObjects{MachineSet: set, InfrastructureMachineTemplate: raw(s.Infrastructure), BootstrapConfigTemplate: raw(s.Bootstrap)}
	}
	request := &hooksv1.CanUpdateMachineSetRequest{Current: side(from), Desired: side(to)}
	current, desired := &request.Current.MachineSet.Spec.Template.Spec, to.Set.Spec.Template.Spec
	follow(current, desired)
	current.InfrastructureRef, current.Bootstrap.ConfigRef = desired.InfrastructureRef, desired.Bootstrap.ConfigRef
	return request
}

// follow copies the fields that Machines take over without an update.
func follow(current *clusterv1.MachineSpec, desired clusterv1.MachineSpec) {
	current.ReadinessGates, current.MinReadySeconds, current.Taints, current.Deletion = desired.ReadinessGates, desired.MinReadySeconds, desired.Taints, desired.Deletion
}

// sent is a Machine in the form sent to extensions.
func sent(m *clusterv1.Machine) clusterv1.Machine {
	out := clusterv1.Machine{ObjectMeta: asSent(m), Spec: *m.Spec.DeepCopy()}
	out.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine"}
	return out
}

// raw is an object in the form sent to extensions.
func raw(u *unstructured.Unstructured) runtime.RawExtension {
	if u == nil {
		return runtime.RawExtension{}
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(u.GetAPIVersion())
	out.SetKind(u.GetKind())
	m := asSent(u)
	out.SetNamespace(m.Namespace)
	out.SetName(m.Name)
	out.SetUID(m.UID)
	out.SetLabels(m.Labels)
	out.SetAnnotations(m.Annotations)
	if spec, ok := u.Object["spec"]; ok {
		out.Object["spec"] = spec
	}
	text, err := out.MarshalJSON()
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return runtime.RawExtension{Raw: text}
}

// asSent are the metadata that describe an object. Annotations of tools, and metadata
// that change automatically, are not useful for an extension.
func asSent(obj metav1.Object) metav1.ObjectMeta {
	annotations := maps.Clone(obj.GetAnnotations())
	for _, key := range []string{
		corev1.LastAppliedConfigAnnotation, "cluster.x-k8s.io/conversion-data",
		clusterv1.UpdateInProgressAnnotation, clusterv1.PendingAcknowledgeMoveAnnotation, runtimev1.PendingHooksAnnotation,
	} {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), Labels: maps.Clone(obj.GetLabels()), Annotations: annotations}
}

// InterpretMachine interprets an answer. An answer that cannot be interpreted is an error:
// it is neither yes nor no.
func InterpretMachine(q *hooksv1.CanUpdateMachineRequest, a *hooksv1.CanUpdateMachineResponse) (Answer, error) {
	const at = "spec"
	return interpret([]change{
		{"machine", at, q.Current.Machine, q.Desired.Machine, a.MachinePatch},
		{"infrastructureMachine", at, q.Current.InfrastructureMachine, q.Desired.InfrastructureMachine, a.InfrastructureMachinePatch},
		{"bootstrapConfig", at, q.Current.BootstrapConfig, q.Desired.BootstrapConfig, a.BootstrapConfigPatch},
	})
}

// InterpretSet is InterpretMachine for the other hook.
func InterpretSet(q *hooksv1.CanUpdateMachineSetRequest, a *hooksv1.CanUpdateMachineSetResponse) (Answer, error) {
	const at = "spec.template.spec"
	return interpret([]change{
		{"machineSet", at, q.Current.MachineSet, q.Desired.MachineSet, a.MachineSetPatch},
		{"infrastructureMachineTemplate", at, q.Current.InfrastructureMachineTemplate, q.Desired.InfrastructureMachineTemplate, a.InfrastructureMachineTemplatePatch},
		{"bootstrapConfigTemplate", at, q.Current.BootstrapConfigTemplate, q.Desired.BootstrapConfigTemplate, a.BootstrapConfigTemplatePatch},
	})
}

// change is one object of a request, with the patch from the answer.
type change struct {
	name, at         string
	current, desired any
	patch            hooksv1.Patch
}

func interpret(changes []change) (Answer, error) {
	var lacks []string
	for _, c := range changes {
		missing, err := c.lacks()
		if err != nil {
			return Answer{}, fmt.Errorf("%sPatch: %w", c.name, err)
		}
		if len(missing) > 0 {
			lacks = append(lacks, fmt.Sprintf("%s of %s", patchvalidation.Join(missing), c.name))
		}
	}
	if len(lacks) > 0 {
		return Answer{Why: "it does not bring about " + strings.Join(lacks, ", ")}, nil
	}
	return Answer{Possible: true}, nil
}

// lacks lists the fields that are not as desired after the patch is applied to the
// current object.
func (c change) lacks() ([]string, error) {
	current, err := fields(c.current)
	if err != nil {
		return nil, err
	}
	desired, err := fields(c.desired)
	if err != nil {
		return nil, err
	}
	if len(c.patch.Patch) > 0 {
		if current == nil {
			return nil, errors.New("the request has no such object")
		}
		if current, err = patchvalidation.Apply(current, c.patch.PatchType, c.patch.Patch); err != nil {
			return nil, err
		}
	}
	return patchvalidation.Below(patchvalidation.Differences(current, desired), c.at), nil
}

func fields(object any) (all map[string]any, err error) {
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}
