// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"example.com/provider-example/api/v1beta1"
)

// ConvertTo and ConvertFrom translate to and from the version that is stored. What
// differs is the name of one field, so nothing is lost either way.

// ConvertTo implements conversion.Convertible.
func (c *ExampleCluster) ConvertTo(hub conversion.Hub) error {
	to := hub.(*v1beta1.ExampleCluster)
	to.ObjectMeta = c.ObjectMeta
	to.Spec = v1beta1.ExampleClusterSpec(c.Spec)
	to.Status = v1beta1.ExampleClusterStatus{Initialization: v1beta1.Initialization(c.Status.Initialization), Conditions: c.Status.Conditions}
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (c *ExampleCluster) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v1beta1.ExampleCluster)
	c.ObjectMeta = from.ObjectMeta
	c.Spec = ExampleClusterSpec(from.Spec)
	c.Status = ExampleClusterStatus{Initialization: Initialization(from.Status.Initialization), Conditions: from.Status.Conditions}
	return nil
}

// ConvertTo implements conversion.Convertible.
func (m *ExampleMachine) ConvertTo(hub conversion.Hub) error {
	to := hub.(*v1beta1.ExampleMachine)
	to.ObjectMeta = m.ObjectMeta
	to.Spec = machineTo(m.Spec)
	to.Status = v1beta1.ExampleMachineStatus{Initialization: v1beta1.Initialization(m.Status.Initialization), Addresses: m.Status.Addresses, Conditions: m.Status.Conditions}
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (m *ExampleMachine) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v1beta1.ExampleMachine)
	m.ObjectMeta = from.ObjectMeta
	m.Spec = machineFrom(from.Spec)
	m.Status = ExampleMachineStatus{Initialization: Initialization(from.Status.Initialization), Addresses: from.Status.Addresses, Conditions: from.Status.Conditions}
	return nil
}

// ConvertTo implements conversion.Convertible.
func (t *ExampleClusterTemplate) ConvertTo(hub conversion.Hub) error {
	to := hub.(*v1beta1.ExampleClusterTemplate)
	to.ObjectMeta = t.ObjectMeta
	to.Spec.Template = v1beta1.ExampleClusterTemplateResource{ObjectMeta: t.Spec.Template.ObjectMeta, Spec: v1beta1.ExampleClusterSpec(t.Spec.Template.Spec)}
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (t *ExampleClusterTemplate) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v1beta1.ExampleClusterTemplate)
	t.ObjectMeta = from.ObjectMeta
	t.Spec.Template = ExampleClusterTemplateResource{ObjectMeta: from.Spec.Template.ObjectMeta, Spec: ExampleClusterSpec(from.Spec.Template.Spec)}
	return nil
}

// ConvertTo implements conversion.Convertible.
func (t *ExampleMachineTemplate) ConvertTo(hub conversion.Hub) error {
	to := hub.(*v1beta1.ExampleMachineTemplate)
	to.ObjectMeta = t.ObjectMeta
	to.Spec.Template = v1beta1.ExampleMachineTemplateResource{ObjectMeta: t.Spec.Template.ObjectMeta, Spec: machineTo(t.Spec.Template.Spec)}
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (t *ExampleMachineTemplate) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v1beta1.ExampleMachineTemplate)
	t.ObjectMeta = from.ObjectMeta
	t.Spec.Template = ExampleMachineTemplateResource{ObjectMeta: from.Spec.Template.ObjectMeta, Spec: machineFrom(from.Spec.Template.Spec)}
	return nil
}

func machineTo(s ExampleMachineSpec) v1beta1.ExampleMachineSpec {
	return v1beta1.ExampleMachineSpec{ProviderID: s.ProviderID, MachineSize: s.Size}
}

func machineFrom(s v1beta1.ExampleMachineSpec) ExampleMachineSpec {
	return ExampleMachineSpec{ProviderID: s.ProviderID, Size: s.MachineSize}
}
