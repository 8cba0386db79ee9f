// SPDX-License-Identifier: Apache-2.0

// Package classrefs lists the templates that a ClusterClass names, and says
// whether those of another can take their place.
package classrefs

import (
	"fmt"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Template is one that a class names.
type Template struct {
	Field string // that names it, as users write it
	Ref   clusterv1.ClusterClassTemplateReference
	Role  reference.Role // of the objects created from it
}

// All lists the templates of a class, in the order of its fields; one may be there
// several times.
func All(class *clusterv1.ClusterClass) []Template {
	spec := &class.Spec
	all := []Template{
		{"spec.infrastructure.templateRef", spec.Infrastructure.TemplateRef, reference.ClusterInfrastructure},
		{"spec.controlPlane.templateRef", spec.ControlPlane.TemplateRef, reference.ControlPlane},
	}
	if ref := spec.ControlPlane.MachineInfrastructure.TemplateRef; ref.IsDefined() {
		all = append(all, Template{"spec.controlPlane.machineInfrastructure.templateRef", ref, reference.MachineInfrastructure})
	}
	workers := func(list, class string, bootstrap, infrastructure clusterv1.ClusterClassTemplate) {
		at := fmt.Sprintf("spec.workers.%s[%s]", list, class)
		all = append(all, Template{at + ".bootstrap.templateRef", bootstrap.TemplateRef, reference.Bootstrap},
			Template{at + ".infrastructure.templateRef", infrastructure.TemplateRef, reference.MachineInfrastructure})
	}
	for _, md := range spec.Workers.MachineDeployments {
		workers("machineDeployments", md.Class, md.Bootstrap, md.Infrastructure)
	}
	for _, mp := range spec.Workers.MachinePools {
		workers("machinePools", mp.Class, mp.Bootstrap, mp.Infrastructure)
	}
	return all
}

// Distinct lists each template once, where it is named first.
func Distinct(class *clusterv1.ClusterClass) (out []Template) {
	seen := map[clusterv1.ClusterClassTemplateReference]bool{}
	for _, t := range All(class) {
		if !seen[t.Ref] {
			out = append(out, t)
		}
		seen[t.Ref] = true
	}
	return out
}

// Compatible says why the templates of a class cannot take the place of those of
// another, for each one: group and kind stay, for infrastructure and control
// planes are changed and not replaced, and templates of machines are followed by
// others of their kind. Bootstrap may be of any kind, and so may classes of
// workers that only one of the two has.
func Compatible(class, old *clusterv1.ClusterClass) (differences []string) {
	kind := func(at string, is, was clusterv1.ClusterClassTemplateReference) {
		if is, was := is.GroupVersionKind().GroupKind(), was.GroupVersionKind().GroupKind(); is != was {
			differences = append(differences, fmt.Sprintf("%s is a %s, and was a %s", at, is, was))
		}
	}
	kind("spec.infrastructure.templateRef", class.Spec.Infrastructure.TemplateRef, old.Spec.Infrastructure.TemplateRef)
	kind("spec.controlPlane.templateRef", class.Spec.ControlPlane.TemplateRef, old.Spec.ControlPlane.TemplateRef)
	is, was := class.Spec.ControlPlane.MachineInfrastructure.TemplateRef, old.Spec.ControlPlane.MachineInfrastructure.TemplateRef
	switch at := "spec.controlPlane.machineInfrastructure.templateRef"; {
	case is.IsDefined() && was.IsDefined():
		kind(at, is, was)
	case is.IsDefined() != was.IsDefined():
		differences = append(differences, at+" is set in one, and not in the other")
	}
	for _, md := range class.Spec.Workers.MachineDeployments {
		for _, before := range old.Spec.Workers.MachineDeployments {
			if md.Class == before.Class {
				kind(fmt.Sprintf("spec.workers.machineDeployments[%s].infrastructure.templateRef", md.Class), md.Infrastructure.TemplateRef, before.Infrastructure.TemplateRef)
			}
		}
	}
	for _, mp := range class.Spec.Workers.MachinePools {
		for _, before := range old.Spec.Workers.MachinePools {
			if mp.Class == before.Class {
				kind(fmt.Sprintf("spec.workers.machinePools[%s].infrastructure.templateRef", mp.Class), mp.Infrastructure.TemplateRef, before.Infrastructure.TemplateRef)
			}
		}
	}
	return differences
}
