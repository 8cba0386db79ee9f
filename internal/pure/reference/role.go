// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Role is the purpose of a reference.
type Role string

// The roles of the kinds that a provider installs.
const (
	ClusterInfrastructure Role = "the infrastructure of a Cluster"
	ControlPlane          Role = "a control plane"
	MachineInfrastructure Role = "the infrastructure of a Machine"
	Bootstrap             Role = "the bootstrap configuration of a Machine"
	Remediation           Role = "a request to remediate a Machine"
)

// others are the parts of a group's name that indicate another role.
var others = map[Role][]string{
	ClusterInfrastructure: {"bootstrap"},
	ControlPlane:          {"bootstrap"},
	MachineInfrastructure: {"bootstrap", "controlplane"},
	Bootstrap:             {"controlplane", "infrastructure"},
	Remediation:           {"bootstrap", "controlplane"},
}

// ours are the groups of Cluster API in which no kind belongs to a provider.
var ours = []string{
	clusterv1.GroupVersion().Group, "runtime.cluster.x-k8s.io", "addons.cluster.x-k8s.io", "ipam.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io",
}

// Kind returns why no object of a kind can have the role, or nil.
func (r Role) Kind(gk schema.GroupKind) error {
	if err := Provided(gk); err != nil {
		return fmt.Errorf("%w, so it cannot be %s", err, r)
	}
	for _, other := range others[r] {
		if serves(gk.Group, other) {
			return fmt.Errorf("group %s is not for %s: refer to a kind that is", gk.Group, r)
		}
	}
	if strings.HasSuffix(gk.Kind, clusterv1.TemplateSuffix) {
		return fmt.Errorf("is a template, and cannot itself be %s: refer to an object made from it", r)
	}
	return nil
}

// Template returns why no object of a kind can be a template for the role, or nil.
func (r Role) Template(gk schema.GroupKind) error {
	kind, ok := strings.CutSuffix(gk.Kind, clusterv1.TemplateSuffix)
	if !ok || kind == "" {
		return fmt.Errorf("is not a template, the kind of which ends in %s: refer to a template for %s", clusterv1.TemplateSuffix, r)
	}
	return r.Kind(schema.GroupKind{Group: gk.Group, Kind: kind})
}

// Reference returns what is wrong with a reference to an object for the role, or to a
// template for it. An unchanged reference is not checked: stored objects must stay
// editable.
func (r Role) Reference(at *field.Path, ref, old clusterv1.ContractVersionedObjectReference, template bool) field.ErrorList {
	if !ref.IsDefined() || ref.GroupKind() == old.GroupKind() {
		return nil
	}
	check := r.Kind
	if template {
		check = r.Template
	}
	if err := check(ref.GroupKind()); err != nil {
		return field.ErrorList{field.Invalid(at, ref.Kind+"."+ref.APIGroup, err.Error())}
	}
	return nil
}

// Provided returns why no provider can define a kind, or nil.
func Provided(gk schema.GroupKind) error {
	if slices.Contains(ours, gk.Group) {
		return fmt.Errorf("group %s is Cluster API's own, and not a provider's", gk.Group)
	}
	return nil
}

// domains are those in which the name of a group says what its kinds are for. In other
// domains a name has no such meaning: a vendor may have all of its kinds, including
// bootstrap configurations, in infrastructure.example.com.
var domains = []string{".cluster.x-k8s.io", ".capstan.dev"}

// serves reports whether the name of a group declares a role, as
// vmware.infrastructure.cluster.x-k8s.io does.
func serves(group, role string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return strings.HasSuffix(group, d) }) && slices.Contains(strings.Split(group, "."), role)
}
