// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/pure/patchvalidation"
)

// Input is the input for the objects of a Cluster.
type Input struct {
	Cluster   *clusterv1.Cluster // with its variables defaulted
	Blueprint blueprint.Blueprint
	// Templates reads a template of the class.
	Templates func(clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error)
	Contract  string // the version of the contract that the control plane follows
	Patches   *patches.Class
	Current   Current
	Plan      upgrade.Plan
	// Same reports whether two templates have the same spec after the server has stored
	// them: defaults and normalized values make no difference. Both have the same name.
	// Nil compares by value.
	Same func(current, wanted *unstructured.Unstructured) (bool, error)
	// Applied is what the topology has applied of an object, with its current values;
	// nil for nothing. Fields that wait for an upgrade stay so, or stay unchanged if
	// Applied is nil.
	Applied func(current *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

// Current is the observed state.
type Current struct {
	Infrastructure, ControlPlane *unstructured.Unstructured // nil: it does not exist
	// Hosts is the template from which the control plane creates the infrastructure of
	// its machines.
	Hosts       *unstructured.Unstructured
	Deployments map[string]*Group // by the name in the topology; without those being deleted
	Pools       map[string]*Group
	// Deleting names objects of the Cluster that are being deleted, as kind/name.
	Deleting []string
}

// Group is a group of workers. Bootstrap and Hosts are the templates of a
// MachineDeployment, or the objects of a MachinePool.
type Group struct{ Object, Bootstrap, Hosts *unstructured.Unstructured }

// Extensions calls runtime extensions.
type Extensions interface {
	GeneratePatches(patches.Question) (*hooksv1.GeneratePatchesResponse, error)
	ValidateTopology(patches.Validation) error
}

// Desired is the desired state: partial objects, in the preferred order of writes.
type Desired struct {
	// InfrastructureRef and ControlPlaneRef are for the Cluster. They are not defined if
	// the object neither exists nor can be created.
	InfrastructureRef, ControlPlaneRef clusterv1.ContractVersionedObjectReference
	Infrastructure                     Part
	ControlPlane                       ControlPlanePart
	Deployments, Pools                 []GroupPart // in the order of the topology
	// Err is why nothing could be patched. All existing parts keep their templates.
	Err error
	// Unmatched lists patches that match nothing in this Cluster.
	Unmatched []string
}

// Objects returns all objects to write, with referenced objects before their referrers.
func (d Desired) Objects() []*unstructured.Unstructured {
	all := []*unstructured.Unstructured{d.Infrastructure.Object, d.ControlPlane.Hosts, d.ControlPlane.Object, d.ControlPlane.HealthCheck}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		all = append(all, g.Bootstrap, g.Hosts, g.Object, g.HealthCheck)
	}
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o == nil })
}

// Problem joins the errors of all parts that are not as desired.
func (d Desired) Problem() error {
	errs := []error{d.Err, d.Infrastructure.Err, d.ControlPlane.Err}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		errs = append(errs, g.Err)
	}
	return errors.Join(errs...)
}

// Held lists the changes that wait for an upgrade, a line for each part.
func (d Desired) Held() (lines []string) {
	parts := []Part{d.ControlPlane.Part}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		parts = append(parts, g.Part)
	}
	for _, p := range parts {
		if len(p.Held) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", p.Object.GetKind(), p.Object.GetName(), patchvalidation.Join(p.Held)))
		}
	}
	return lines
}

// Part is one object, with its status.
type Part struct {
	// Object is nil if nothing of the part must be written or removed, including its
	// health check.
	Object *unstructured.Unstructured
	// Err is why the object, which can be set anyway, is not completely as desired. It
	// names the part.
	Err error
	// Held are the fields whose changes wait until the part is upgraded.
	Held []string
}

// ControlPlanePart is the control plane.
type ControlPlanePart struct {
	Part
	Hosts       *unstructured.Unstructured // nil: none, or it stays unchanged
	HealthCheck *unstructured.Unstructured // nil: none is desired
}

// GroupPart is a group of workers. One that must not be created yet has no Object.
type GroupPart struct {
	Part
	Name string // in the topology
	// Bootstrap and Hosts stay unchanged if they are nil.
	Bootstrap, Hosts *unstructured.Unstructured
	HealthCheck      *unstructured.Unstructured // nil: none is desired
}

// Compute computes the objects. An error concerns the whole: nothing must be written.
func Compute(in Input, ext Extensions) (Desired, error) {
	c := &computation{Input: in, names: names{cluster: in.Cluster, leaving: in.Current.Deleting, taken: map[string]string{}}}
	var err error
	if c.fields, err = contract.ControlPlaneFor(in.Contract); err != nil {
		return Desired{}, err
	}
	c.draft()
	d := Desired{}
	if d.Unmatched, err = c.patch(ext); err != nil {
		return Desired{}, err
	}
	d.Err = c.failed
	d.Infrastructure = c.infrastructurePart()
	d.ControlPlane = c.controlPlane.part(c)
	d.InfrastructureRef = referenceTo(in.Cluster.Spec.InfrastructureRef, d.Infrastructure.Object)
	d.ControlPlaneRef = referenceTo(in.Cluster.Spec.ControlPlaneRef, d.ControlPlane.Object)
	for _, g := range c.deployments {
		d.Deployments = append(d.Deployments, g.part(c))
	}
	for _, g := range c.pools {
		d.Pools = append(d.Pools, g.part(c))
	}
	return d, nil
}

// referenceTo returns the reference of the Cluster: an existing one stays, regardless of
// its object.
func referenceTo(current clusterv1.ContractVersionedObjectReference, wanted *unstructured.Unstructured) clusterv1.ContractVersionedObjectReference {
	if current.IsDefined() || wanted == nil {
		return current
	}
	return to(wanted)
}

func to(u *unstructured.Unstructured) clusterv1.ContractVersionedObjectReference {
	gvk := u.GroupVersionKind()
	return clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: u.GetName()}
}
