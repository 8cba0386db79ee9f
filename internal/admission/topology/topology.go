// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// validateTopology returns the errors in a topology, regardless of its class. An
// unchanged topology is not checked.
func validateTopology(at *field.Path, c, old *clusterv1.Cluster) (errs field.ErrorList) {
	t := &c.Spec.Topology
	_, unsafe := c.Annotations[clusterv1.ClusterTopologyUnsafeUpdateClassNameAnnotation]
	switch {
	case old != nil && old.Spec.Topology.IsDefined() && !t.IsDefined():
		return field.ErrorList{field.Forbidden(at, "cannot be removed: the objects of the class would have no controller; delete the Cluster to remove them")}
	case !t.IsDefined():
		return nil
	case old != nil && !old.Spec.Topology.IsDefined() && !unsafe:
		errs = append(errs, field.Forbidden(at.Child("classRef"), "cannot be set on a Cluster that is there already, unless annotation "+clusterv1.ClusterTopologyUnsafeUpdateClassNameAnnotation+" says that its objects fit the class"))
	}
	errs = append(errs, concurrency(c, old)...)
	if !changed(c, old) {
		return errs
	}
	errs = append(errs, fieldvalidation.Version(at.Child("version"), t.Version)...)
	cp := at.Child("controlPlane")
	errs = append(errs, fieldvalidation.Metadata(cp.Child("metadata"), t.ControlPlane.Metadata)...)
	errs = append(errs, fieldvalidation.Taints(cp.Child("taints"), t.ControlPlane.Taints, true)...)
	check := t.ControlPlane.HealthCheck
	errs = append(errs, fieldvalidation.HealthCheck(cp.Child("healthCheck"), check.Checks, check.Remediation.TriggerIf)...)
	errs = append(errs, remediation(cp.Child("healthCheck"), check.Remediation.TemplateRef)...)
	return append(errs, groups(at.Child("workers"), &t.Workers)...)
}

func groups(at *field.Path, w *clusterv1.WorkersTopology) (errs field.ErrorList) {
	name := func(at *field.Path, name string, seen map[string]bool) {
		switch {
		case name == "":
			errs = append(errs, field.Required(at, "name the group: what is made for it is called after it"))
		case seen[name]:
			errs = append(errs, field.Duplicate(at, name))
		default:
			errs = append(errs, fieldvalidation.LabelValue(at, name)...)
		}
		seen[name] = true
	}
	seen := map[string]bool{}
	for i := range w.MachineDeployments {
		md, here := &w.MachineDeployments[i], at.Child("machineDeployments").Key(w.MachineDeployments[i].Name)
		name(at.Child("machineDeployments").Index(i).Child("name"), md.Name, seen)
		errs = append(errs, fieldvalidation.Metadata(here.Child("metadata"), md.Metadata)...)
		errs = append(errs, fieldvalidation.Taints(here.Child("taints"), md.Taints, false)...)
		errs = append(errs, fieldvalidation.RolloutStrategy(here.Child("rollout", "strategy"), md.Rollout.Strategy)...)
		errs = append(errs, deploymentCheck(here.Child("healthCheck"), md.HealthCheck.Checks, md.HealthCheck.Remediation)...)
	}
	seen = map[string]bool{}
	for i := range w.MachinePools {
		mp, here := &w.MachinePools[i], at.Child("machinePools").Key(w.MachinePools[i].Name)
		name(at.Child("machinePools").Index(i).Child("name"), mp.Name, seen)
		errs = append(errs, fieldvalidation.Metadata(here.Child("metadata"), mp.Metadata)...)
		errs = append(errs, poolTaints(here, mp.Taints)...)
	}
	return errs
}

// concurrency requires a valid value of the annotation that limits how many groups
// of workers are upgraded at the same time.
func concurrency(c, old *clusterv1.Cluster) field.ErrorList {
	const name = clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation
	text, ok := c.Annotations[name]
	if !ok || old != nil && old.Annotations[name] == text {
		return nil
	}
	at := field.NewPath("metadata", "annotations").Key(name)
	switch n, err := strconv.Atoi(text); {
	case err != nil:
		return field.ErrorList{field.Invalid(at, text, "must be a number: how many groups of workers are upgraded at once")}
	case n < 1:
		return field.ErrorList{field.Invalid(at, text, "value cannot be less than 1")}
	}
	return nil
}

// changed reports whether the topology differs from the stored one.
func changed(c, old *clusterv1.Cluster) bool {
	return old == nil || !equality.Semantic.DeepEqual(c.Spec.Topology, old.Spec.Topology)
}

// rebased reports whether an update changes the class of a Cluster.
func rebased(c, old *clusterv1.Cluster) bool {
	return old != nil && old.Spec.Topology.IsDefined() && c.GetClassKey() != old.GetClassKey()
}
