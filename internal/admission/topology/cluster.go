// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// ValidateCluster returns the errors in a Cluster itself, regardless of its class.
// A Cluster without a topology has no defaults.
func ValidateCluster(c, old *clusterv1.Cluster) field.ErrorList {
	spec := field.NewPath("spec")
	errs := fieldvalidation.LabelValue(field.NewPath("metadata", "name"), c.Name)
	if !c.Spec.Topology.IsDefined() && !c.Spec.ControlPlaneRef.IsDefined() && !c.Spec.InfrastructureRef.IsDefined() {
		errs = append(errs, field.Required(spec.Child("infrastructureRef"), "set infrastructureRef, controlPlaneRef or both"))
	}
	errs = append(errs, validateTopology(spec.Child("topology"), c, old)...)
	before := ptr.Deref(old, clusterv1.Cluster{}).Spec
	errs = append(errs, reference.ClusterInfrastructure.Reference(spec.Child("infrastructureRef"), c.Spec.InfrastructureRef, before.InfrastructureRef, false)...)
	errs = append(errs, reference.ControlPlane.Reference(spec.Child("controlPlaneRef"), c.Spec.ControlPlaneRef, before.ControlPlaneRef, false)...)
	if old != nil {
		errs = append(errs, kept(spec.Child("infrastructureRef"), &c.Spec.InfrastructureRef, &old.Spec.InfrastructureRef)...)
		errs = append(errs, kept(spec.Child("controlPlaneRef"), &c.Spec.ControlPlaneRef, &old.Spec.ControlPlaneRef)...)
		if e := old.Spec.ControlPlaneEndpoint; e.IsValid() && c.Spec.ControlPlaneEndpoint != e {
			errs = append(errs, field.Forbidden(spec.Child("controlPlaneEndpoint"), "cannot change once it is set: it is "+e.String()+", which kubeconfigs and machines of the Cluster have; create another Cluster instead"))
		}
	}
	network := spec.Child("clusterNetwork")
	errs = append(errs, cidrs(network.Child("services", "cidrBlocks"), c.Spec.ClusterNetwork.Services.CIDRBlocks)...)
	return append(errs, cidrs(network.Child("pods", "cidrBlocks"), c.Spec.ClusterNetwork.Pods.CIDRBlocks)...)
}

// kept requires that a reference, once set, is not removed.
func kept(at *field.Path, ref, old *clusterv1.ContractVersionedObjectReference) field.ErrorList {
	if old.IsDefined() && !ref.IsDefined() {
		return field.ErrorList{field.Forbidden(at, "cannot be removed; delete the Cluster to be rid of what it refers to")}
	}
	return nil
}

func cidrs(at *field.Path, blocks []string) (errs field.ErrorList) {
	for i, block := range blocks {
		if _, err := netip.ParsePrefix(block); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), block, "must be an address range such as 192.168.0.0/16 or fd00:10::/56"))
		}
	}
	return errs
}
