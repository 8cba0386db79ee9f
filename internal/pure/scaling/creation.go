// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// kubeadmTemplate is the kind of templates for machines that kubeadm bootstraps; the
// version skew that kubeadm permits concerns only those.
const kubeadmTemplate = "KubeadmConfigTemplate"

// Needed reports whether a Machine may have to be created: one is missing, even with
// those that may be adopted, or must be replaced.
func Needed(machines, orphans []*clusterv1.Machine, want int) bool {
	return len(machines)+len(orphans) < want || slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
		return m.DeletionTimestamp.IsZero() && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
	})
}

// Creation is the input for the decision whether a set can create a Machine.
type Creation struct {
	Set     *clusterv1.MachineSet
	Cluster *clusterv1.Cluster // nil: it does not exist
	// Bootstrap and Infrastructure are the templates.
	Bootstrap, Infrastructure reference.Object
	// ControlPlane is the object that the Cluster refers to, and Contract the version of
	// the contract to read it.
	ControlPlane reference.Object
	Contract     string
}

// RuledOut returns what prevents a creation regardless of other facts. If there is
// anything, no other facts are needed.
func (c Creation) RuledOut() []string {
	switch {
	case c.Cluster == nil:
		return []string{fmt.Sprintf("Cluster %s, named by spec.clusterName, does not exist: create it, or correct the field", c.Set.Spec.ClusterName)}
	case !c.Cluster.DeletionTimestamp.IsZero():
		return []string{fmt.Sprintf("Cluster %s is being deleted", c.Cluster.Name)}
	case c.Set.Annotations[clusterv1.DisableMachineCreateAnnotation] == "true":
		return []string{fmt.Sprintf("annotation %s is set", clusterv1.DisableMachineCreateAnnotation)}
	}
	return nil
}

// Blockers returns why no Machine can be created now; nothing when one can. A fact that
// cannot be determined blocks too; if its input is invalid, it is an error as well.
func (c Creation) Blockers() (why []string, err error) {
	if why := c.RuledOut(); len(why) > 0 {
		return why, nil
	}
	for _, t := range []reference.Object{c.Bootstrap, c.Infrastructure} {
		if problem := t.Problem(); problem != "" {
			why = append(why, problem)
		}
	}
	if b := c.Set.Spec.Template.Spec.Bootstrap; !b.ConfigRef.IsDefined() && b.DataSecretName == nil {
		why = append(why, "spec.template.spec.bootstrap has neither configRef nor dataSecretName")
	}
	switch cp := c.ControlPlane; {
	case cp.Missing:
		why = append(why, fmt.Sprintf("%s, the control plane of Cluster %s, does not exist: create it, or correct spec.controlPlaneRef of the Cluster", cp, c.Cluster.Name))
	case cp.Err != "":
		why = append(why, cp.Err)
	default:
		objections, err := c.objections()
		if err != nil {
			return append(why, err.Error()), err
		}
		why = append(why, objections...)
	}
	return why, nil
}

// objections are the results of the preflight checks.
func (c Creation) objections() ([]string, error) {
	const skip = clusterv1.MachineSetSkipPreflightChecksAnnotation
	p := Preflight{
		Topology: c.Cluster.Spec.Topology.IsDefined(),
		Version:  c.Set.Spec.Template.Spec.Version,
		Kubeadm:  c.Set.Spec.Template.Spec.Bootstrap.ConfigRef.Kind == kubeadmTemplate,
		Skip:     SkipList(c.Set.Annotations[skip]),
	}
	if t := c.Bootstrap.Obj; t != nil {
		p.Skip = append(p.Skip, SkipList(t.GetAnnotations()[skip])...)
	}
	if c.ControlPlane.Obj == nil || slices.Contains(p.Skip, clusterv1.MachineSetPreflightCheckAll) {
		return nil, nil
	}
	var err error
	if p.ControlPlane, err = controlPlane(c.ControlPlane, c.Contract); err != nil {
		return nil, err
	}
	p.Pending = Pending(c.Cluster, p.ControlPlane.Version)
	return p.Objections()
}

// controlPlane reads the fields for the checks, by the contract.
func controlPlane(o reference.Object, contractVersion string) (*ControlPlane, error) {
	promises, err := contract.ControlPlaneFor(contractVersion)
	if err != nil {
		return nil, err
	}
	out := &ControlPlane{Name: o.String()}
	if out.Version, _, err = promises.Version.Get(o.Obj); err != nil {
		return nil, err
	}
	if out.Provisioning, err = promises.IsProvisioning(o.Obj); err != nil {
		return nil, err
	}
	out.Upgrading, err = promises.IsUpgrading(o.Obj)
	return out, err
}

// MachineTemplate is the template of a set's Machines.
func MachineTemplate(set *clusterv1.MachineSet) machinetemplate.Template {
	t := machinetemplate.Template{
		Maker: metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: set.Name, UID: set.UID,
		},
		Namespace:   set.Namespace,
		Labels:      map[string]string{},
		Annotations: set.Spec.Template.Annotations,
		Spec:        set.Spec.Template.Spec,
	}
	maps.Copy(t.Labels, set.Spec.Template.Labels)
	t.Labels[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	t.Labels[clusterv1.MachineSetNameLabel] = fieldvalidation.AsLabelValue(set.Name)
	if md, ok := set.Labels[clusterv1.MachineDeploymentNameLabel]; ok {
		t.Labels[clusterv1.MachineDeploymentNameLabel] = md
	}
	t.Spec.ClusterName = set.Spec.ClusterName
	return t
}

// MachineNaming is how the Machines of a set are named.
func MachineNaming(set *clusterv1.MachineSet) machinetemplate.Naming {
	return machinetemplate.Naming{
		Template: set.Spec.MachineNaming.Template, As: "machineSet", Maker: set.Name, Cluster: set.Spec.ClusterName,
	}
}
