// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// fits returns an error for each part of a topology that its class does not define,
// or defines differently.
func fits(at *field.Path, t *clusterv1.Topology, class *clusterv1.ClusterClass) (errs field.ErrorList) {
	if list := class.Spec.KubernetesVersions; len(list) > 0 && !slices.Contains(list, t.Version) {
		errs = append(errs, field.Invalid(at.Child("version"), t.Version, fmt.Sprintf("must be one of spec.kubernetesVersions of ClusterClass %s: %s", class.Name, strings.Join(list, ", "))))
	}
	errs = append(errs, controlPlaneCheck(at.Child("controlPlane", "healthCheck"), &t.ControlPlane.HealthCheck, &class.Spec.ControlPlane)...)
	for i := range t.Workers.MachineDeployments {
		md := &t.Workers.MachineDeployments[i]
		here := at.Child("workers", "machineDeployments").Key(md.Name)
		found := slices.IndexFunc(class.Spec.Workers.MachineDeployments, func(c clusterv1.MachineDeploymentClass) bool { return c.Class == md.Class })
		if found < 0 {
			errs = append(errs, field.Invalid(here.Child("class"), md.Class, fmt.Sprintf("ClusterClass %s has no such class of MachineDeployments", class.Name)))
			continue
		}
		of := &class.Spec.Workers.MachineDeployments[found]
		if on(md.HealthCheck.Enabled) && !md.HealthCheck.IsDefined() && !(&clusterv1.MachineDeploymentTopologyHealthCheck{Checks: of.HealthCheck.Checks, Remediation: of.HealthCheck.Remediation}).IsDefined() {
			errs = append(errs, field.Forbidden(here.Child("healthCheck", "enabled"), unchecked))
		}
		errs = append(errs, scaled(here, md.Replicas, md.Metadata, of.Metadata)...)
	}
	for i := range t.Workers.MachinePools {
		mp := &t.Workers.MachinePools[i]
		here := at.Child("workers", "machinePools").Key(mp.Name)
		found := slices.IndexFunc(class.Spec.Workers.MachinePools, func(c clusterv1.MachinePoolClass) bool { return c.Class == mp.Class })
		if found < 0 {
			errs = append(errs, field.Invalid(here.Child("class"), mp.Class, fmt.Sprintf("ClusterClass %s has no such class of MachinePools", class.Name)))
			continue
		}
		errs = append(errs, scaled(here, mp.Replicas, mp.Metadata, class.Spec.Workers.MachinePools[found].Metadata)...)
	}
	return errs
}

const unchecked = "cannot be true: neither the topology nor the ClusterClass defines checks or remediation"

func on(b *bool) bool { return b != nil && *b }

func controlPlaneCheck(at *field.Path, check *clusterv1.ControlPlaneTopologyHealthCheck, class *clusterv1.ControlPlaneClass) field.ErrorList {
	switch {
	case (check.IsDefined() || on(check.Enabled)) && !class.MachineInfrastructure.TemplateRef.IsDefined():
		return field.ErrorList{field.Forbidden(at, "the control plane of the ClusterClass has no machineInfrastructure, and so no Machines to check")}
	case on(check.Enabled) && !check.IsDefined() && !defined(class.HealthCheck.Checks, class.HealthCheck.Remediation.TriggerIf, class.HealthCheck.Remediation.TemplateRef):
		return field.ErrorList{field.Forbidden(at.Child("enabled"), unchecked)}
	}
	return nil
}

// scaled requires that either the user or an autoscaler sets the number of
// machines, not both.
func scaled(at *field.Path, replicas *int32, all ...clusterv1.ObjectMeta) field.ErrorList {
	for _, meta := range all {
		for _, name := range []string{clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation} {
			if _, ok := meta.Annotations[name]; ok && replicas != nil {
				return field.ErrorList{field.Forbidden(at.Child("replicas"), "cannot be set with annotation "+name+": the autoscaler says how many there are")}
			}
		}
	}
	return nil
}

// used returns an error for each part of the earlier class that Clusters use and
// the new class lacks. Clusters that are being deleted are not checked.
func used(class, old *clusterv1.ClusterClass, clusters []clusterv1.Cluster) (errs field.ErrorList) {
	for i := range clusters {
		c := &clusters[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		at := field.NewPath("spec", "topology")
		before := map[string]bool{} // fields that did not fit either
		for _, e := range fits(at, &c.Spec.Topology, old) {
			before[e.Field] = true
		}
		for _, e := range append(fits(at, &c.Spec.Topology, class), stuck(at, &c.Spec.Topology, &c.Spec.Topology, class, old)...) {
			if !before[e.Field] {
				errs = append(errs, field.Forbidden(field.NewPath("spec"), fmt.Sprintf("Cluster %s/%s uses the class, and would not fit it any more: %v", c.Namespace, c.Name, e)))
			}
		}
		if len(errs) >= mostErrors {
			return errs[:mostErrors]
		}
	}
	return errs
}

// stuck returns an error for each pool of a topology whose bootstrap object would
// get another kind. The existing object is patched when its template changes, and
// its kind cannot change.
func stuck(at *field.Path, t, old *clusterv1.Topology, class, before *clusterv1.ClusterClass) (errs field.ErrorList) {
	kind := func(class *clusterv1.ClusterClass, t *clusterv1.Topology, pool string) string {
		for _, mp := range t.Workers.MachinePools {
			for _, c := range class.Spec.Workers.MachinePools {
				if mp.Name == pool && c.Class == mp.Class {
					return c.Bootstrap.TemplateRef.GroupVersionKind().GroupKind().String()
				}
			}
		}
		return ""
	}
	for _, mp := range t.Workers.MachinePools {
		if is, was := kind(class, t, mp.Name), kind(before, old, mp.Name); is != "" && was != "" && is != was {
			errs = append(errs, field.Forbidden(at.Child("workers", "machinePools").Key(mp.Name), fmt.Sprintf("its bootstrap is made from a %s, and would be from a %s: make another pool of another class", was, is)))
		}
	}
	return errs
}

// mostErrors is the maximum number of reported Clusters: a class may have hundreds.
const mostErrors = 10

// inUse returns an error that names Clusters that prevent the deletion of a class.
func inUse(clusters []clusterv1.Cluster) error {
	const most = 3
	var names []string
	for _, c := range clusters {
		names = append(names, c.Namespace+"/"+c.Name)
	}
	slices.Sort(names)
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("ClusterClass cannot be deleted because it is used by Cluster(s): %s", text)
}
