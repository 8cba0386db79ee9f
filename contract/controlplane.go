// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// AvailableCondition is the condition of a control plane that the Cluster mirrors.
const AvailableCondition = "Available"

// ControlPlane lists the fields of a control plane.
type ControlPlane struct {
	Initialized          Field[bool]
	ControlPlaneEndpoint Field[clusterv1.APIEndpoint]
	// ExternallyManaged means that the control plane has no Nodes in its cluster.
	ExternallyManaged Field[bool]

	Version       Field[string] // desired
	StatusVersion Field[string] // the lowest running one
	Versions      Field[[]clusterv1.StatusVersion]

	Replicas            Field[int32] // desired
	Selector            Field[string]
	StatusReplicas      Field[int32]
	ReadyReplicas       Field[int32]
	UpToDateReplicas    Field[int32]
	AvailableReplicas   Field[int32]
	UnavailableReplicas Field[int32] // of the older contract only

	RolloutAfter    Field[metav1.Time]
	MachineTemplate MachineTemplate
}

// MachineTemplate lists the fields for the Machines of a control plane that creates
// Machines.
type MachineTemplate struct {
	Metadata                Field[clusterv1.ObjectMeta]
	InfrastructureRef       Field[clusterv1.ContractVersionedObjectReference]
	ReadinessGates          Field[[]clusterv1.MachineReadinessGate]
	Taints                  Field[[]clusterv1.MachineTaint]
	NodeDrainSeconds        Field[int32]
	NodeVolumeDetachSeconds Field[int32]
	NodeDeletionSeconds     Field[int32]

	// versioned is the same reference with the API version of the referenced kind, for
	// contract versions that have it.
	versioned Field[corev1.ObjectReference]
}

// Refer sets the infrastructure template of a control plane's Machines. current is the
// existing control plane, nil if it is not created yet: where a reference names an API
// version, that version stays while the kind does. The control plane may have changed it
// to a newer one, and would do so again.
func (m MachineTemplate) Refer(obj, template, current *unstructured.Unstructured) error {
	gvk := template.GroupVersionKind()
	if len(m.versioned.path) == 0 {
		return m.InfrastructureRef.Set(obj, clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: template.GetName()})
	}
	ref := corev1.ObjectReference{APIVersion: template.GetAPIVersion(), Kind: gvk.Kind, Namespace: template.GetNamespace(), Name: template.GetName()}
	if current != nil {
		is, _, err := m.versioned.Get(current)
		if err != nil {
			return err
		}
		if is.GroupVersionKind().GroupKind() == gvk.GroupKind() {
			ref.APIVersion = is.APIVersion
		}
	}
	return m.versioned.Set(obj, ref)
}

var controlPlanes = map[string]ControlPlane{
	V1Beta1: {
		Initialized:          At[bool]("status.initialized"),
		ControlPlaneEndpoint: At[clusterv1.APIEndpoint]("spec.controlPlaneEndpoint").within(endpoint),
		ExternallyManaged:    At[bool]("status.externalManagedControlPlane"),
		Version:              At[string]("spec.version"),
		StatusVersion:        At[string]("status.version").within(atMost(maxVersion)),
		Replicas:             At[int32]("spec.replicas").within(counter),
		Selector:             At[string]("status.selector"),
		StatusReplicas:       At[int32]("status.replicas").within(counter),
		ReadyReplicas:        At[int32]("status.readyReplicas").within(counter),
		UpToDateReplicas:     At[int32]("status.updatedReplicas").within(counter),
		UnavailableReplicas:  At[int32]("status.unavailableReplicas").within(counter),
		RolloutAfter:         At[metav1.Time]("spec.rolloutAfter"),
		MachineTemplate: MachineTemplate{
			Metadata:                At[clusterv1.ObjectMeta]("spec.machineTemplate.metadata"),
			InfrastructureRef:       through("spec.machineTemplate.infrastructureRef", refFromVersioned, nil),
			versioned:               At[corev1.ObjectReference]("spec.machineTemplate.infrastructureRef"),
			ReadinessGates:          At[[]clusterv1.MachineReadinessGate]("spec.machineTemplate.readinessGates"),
			Taints:                  At[[]clusterv1.MachineTaint]("spec.machineTemplate.taints"),
			NodeDrainSeconds:        through("spec.machineTemplate.nodeDrainTimeout", secondsFromDuration, durationFromSeconds),
			NodeVolumeDetachSeconds: through("spec.machineTemplate.nodeVolumeDetachTimeout", secondsFromDuration, durationFromSeconds),
			NodeDeletionSeconds:     through("spec.machineTemplate.nodeDeletionTimeout", secondsFromDuration, durationFromSeconds),
		},
	},
	V1Beta2: {
		Initialized:          At[bool]("status.initialization.controlPlaneInitialized"),
		ControlPlaneEndpoint: At[clusterv1.APIEndpoint]("spec.controlPlaneEndpoint").within(endpoint),
		ExternallyManaged:    At[bool]("status.externalManagedControlPlane"),
		Version:              At[string]("spec.version"),
		StatusVersion:        At[string]("status.version").within(atMost(maxVersion)),
		Versions:             At[[]clusterv1.StatusVersion]("status.versions").within(versions),
		Replicas:             At[int32]("spec.replicas").within(counter),
		Selector:             At[string]("status.selector"),
		StatusReplicas:       At[int32]("status.replicas").within(counter),
		ReadyReplicas:        At[int32]("status.readyReplicas").within(counter),
		UpToDateReplicas:     At[int32]("status.upToDateReplicas").within(counter),
		AvailableReplicas:    At[int32]("status.availableReplicas").within(counter),
		RolloutAfter:         At[metav1.Time]("spec.rollout.after"),
		MachineTemplate: MachineTemplate{
			Metadata:                At[clusterv1.ObjectMeta]("spec.machineTemplate.metadata"),
			InfrastructureRef:       At[clusterv1.ContractVersionedObjectReference]("spec.machineTemplate.spec.infrastructureRef"),
			ReadinessGates:          At[[]clusterv1.MachineReadinessGate]("spec.machineTemplate.spec.readinessGates"),
			Taints:                  At[[]clusterv1.MachineTaint]("spec.machineTemplate.spec.taints"),
			NodeDrainSeconds:        At[int32]("spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds"),
			NodeVolumeDetachSeconds: At[int32]("spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds"),
			NodeDeletionSeconds:     At[int32]("spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds"),
		},
	},
}

// ControlPlaneFor returns the fields of a contract version.
func ControlPlaneFor(version string) (ControlPlane, error) {
	return pick("control planes", version, controlPlanes)
}

// Replicas are the counters of a control plane; nil is not reported.
type Replicas struct {
	Desired, Current, Ready, UpToDate, Available *int32
}

// Counters reads all counters; those that cannot be read are in the error. Where only
// unavailable replicas are counted, the available ones are the desired ones minus those.
func (c ControlPlane) Counters(obj *unstructured.Unstructured) (r Replicas, err error) {
	var unavailable *int32
	var problems []error
	for _, f := range []struct {
		to   **int32
		from Field[int32]
	}{
		{&r.Desired, c.Replicas}, {&r.Current, c.StatusReplicas}, {&r.Ready, c.ReadyReplicas},
		{&r.UpToDate, c.UpToDateReplicas}, {&r.Available, c.AvailableReplicas}, {&unavailable, c.UnavailableReplicas},
	} {
		v, ok, err := f.from.Get(obj)
		if ok {
			*f.to = &v
		}
		problems = append(problems, err)
	}
	if unavailable != nil && r.Desired != nil {
		r.Available = new(max(0, *r.Desired-*unavailable))
	}
	return r, errors.Join(problems...)
}

// refFromVersioned reads a reference that carries an apiVersion.
func refFromVersioned(raw any) (ref clusterv1.ContractVersionedObjectReference, err error) {
	var old struct{ APIVersion, Kind, Name string }
	if err := convert(raw, &old); err != nil {
		return ref, err
	}
	gv, err := schema.ParseGroupVersion(old.APIVersion)
	return clusterv1.ContractVersionedObjectReference{APIGroup: gv.Group, Kind: old.Kind, Name: old.Name}, err
}

func secondsFromDuration(raw any) (int32, error) {
	var d metav1.Duration
	err := convert(raw, &d)
	return int32(min(max(int64(d.Duration/time.Second), math.MinInt32), math.MaxInt32)), err
}

func durationFromSeconds(s int32) any { return (time.Duration(s) * time.Second).String() }
