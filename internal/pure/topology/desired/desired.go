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
	"github.com/capstan-dev/capstan/internal/pure/hookrules"
	"github.com/capstan-dev/capstan/internal/pure/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/pure/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/topology/upgrade"
)

// Input is what the objects of a Cluster depend on.
type Input struct {
	Cluster   *clusterv1.Cluster // with its variables defaulted
	Blueprint blueprint.Blueprint
	// Templates reads a template of the class.
	Templates func(clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error)
	Contract  string // the version of the contract that the control plane follows
	Patches   *patches.Class
	Current   Current
	Plan      upgrade.Plan
	// Same reports whether two templates have the same spec to the server: what it
	// fills in or writes in another way is no difference. Both have the same name. Nil
	// compares by value.
	Same func(current, wanted *unstructured.Unstructured) (bool, error)
	// Applied is what the topology has applied of an object, as the object has it by
	// now; nil for nothing. What waits for an upgrade stays so, and as it is where
	// Applied is not given.
	Applied func(current *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

// Current is what there is.
type Current struct {
	Infrastructure, ControlPlane *unstructured.Unstructured // nil: not there
	// Hosts is the template that the control plane makes its machines' infrastructure
	// from.
	Hosts       *unstructured.Unstructured
	Deployments map[string]*Group // by the name in the topology; none that is being deleted
	Pools       map[string]*Group
	// Deleting names objects of the Cluster that are on their way out, as kind/name.
	Deleting []string
}

// Group is a group of workers. Bootstrap and Hosts are the templates of a
// MachineDeployment, or the objects of a MachinePool.
type Group struct{ Object, Bootstrap, Hosts *unstructured.Unstructured }

// Extensions asks runtime extensions.
type Extensions interface {
	GeneratePatches(patches.Question) (*hooksv1.GeneratePatchesResponse, error)
	ValidateTopology(patches.Validation) error
}

// Desired is what is wanted: partial objects, in the order in which they are best
// written.
type Desired struct {
	// InfrastructureRef and ControlPlaneRef are for the Cluster. They are not defined
	// if there is neither an object nor one to be made.
	InfrastructureRef, ControlPlaneRef clusterv1.ContractVersionedObjectReference
	Infrastructure                     Part
	ControlPlane                       ControlPlanePart
	Deployments, Pools                 []GroupPart // in the order of the topology
	// Err says why nothing could be patched. All parts that exist keep their templates.
	Err error
	// Unmatched says of patches that they match nothing here.
	Unmatched []string
}

// Objects are all that is to be written, in an order in which what is referred to
// comes first.
func (d Desired) Objects() []*unstructured.Unstructured {
	all := []*unstructured.Unstructured{d.Infrastructure.Object, d.ControlPlane.Hosts, d.ControlPlane.Object, d.ControlPlane.HealthCheck}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		all = append(all, g.Bootstrap, g.Hosts, g.Object, g.HealthCheck)
	}
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o == nil })
}

// Problem is all that keeps parts from being what they should be.
func (d Desired) Problem() error {
	errs := []error{d.Err, d.Infrastructure.Err, d.ControlPlane.Err}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		errs = append(errs, g.Err)
	}
	return errors.Join(errs...)
}

// Held names the changes that wait for an upgrade, a line for each part.
func (d Desired) Held() (lines []string) {
	parts := []Part{d.ControlPlane.Part}
	for _, g := range slices.Concat(d.Deployments, d.Pools) {
		parts = append(parts, g.Part)
	}
	for _, p := range parts {
		if len(p.Held) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", p.Object.GetKind(), p.Object.GetName(), hookrules.Join(p.Held)))
		}
	}
	return lines
}

// Part is one object, with what belongs to it.
type Part struct {
	// Object is nil if nothing of the part is to be written or removed, its health
	// check included.
	Object *unstructured.Unstructured
	// Err says why the object, which there may be all the same, is not all that it
	// should be. It names the part.
	Err error
	// Held are the fields whose changes wait until the part is upgraded.
	Held []string
}

// ControlPlanePart is the control plane.
type ControlPlanePart struct {
	Part
	Hosts       *unstructured.Unstructured // nil: none, or it stays as it is
	HealthCheck *unstructured.Unstructured // nil: none is wanted
}

// GroupPart is a group of workers. One that is not to be made yet has no Object.
type GroupPart struct {
	Part
	Name string // in the topology
	// Bootstrap and Hosts stay as they are where they are nil.
	Bootstrap, Hosts *unstructured.Unstructured
	HealthCheck      *unstructured.Unstructured // nil: none is wanted
}

// Compute computes the objects. An error is about the whole: nothing is to be
// written.
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
	d.InfrastructureRef = reference(in.Cluster.Spec.InfrastructureRef, d.Infrastructure.Object)
	d.ControlPlaneRef = reference(in.Cluster.Spec.ControlPlaneRef, d.ControlPlane.Object)
	for _, g := range c.deployments {
		d.Deployments = append(d.Deployments, g.part(c))
	}
	for _, g := range c.pools {
		d.Pools = append(d.Pools, g.part(c))
	}
	return d, nil
}

// reference is what the Cluster refers to: what it refers to stays, whatever
// becomes of it.
func reference(current clusterv1.ContractVersionedObjectReference, wanted *unstructured.Unstructured) clusterv1.ContractVersionedObjectReference {
	if current.IsDefined() || wanted == nil {
		return current
	}
	return to(wanted)
}

func to(u *unstructured.Unstructured) clusterv1.ContractVersionedObjectReference {
	gvk := u.GroupVersionKind()
	return clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: u.GetName()}
}
