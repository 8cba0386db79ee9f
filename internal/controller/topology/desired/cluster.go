// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// computation is the state between input and result.
type computation struct {
	Input
	names          names
	fields         contract.ControlPlane
	infrastructure *made
	controlPlane   *controlPlane
	deployments    []*group
	pools          []*group
	failed         error // nothing is patched
}

// draft builds all objects from templates, class and topology.
func (c *computation) draft() {
	c.draftInfrastructure()
	c.draftControlPlane()
	for i := range c.Blueprint.MachineDeployments {
		c.deployments = append(c.deployments, c.draftDeployment(&c.Blueprint.MachineDeployments[i]))
	}
	for i := range c.Blueprint.MachinePools {
		c.pools = append(c.pools, c.draftPool(&c.Blueprint.MachinePools[i]))
	}
	c.describe()
}

// describe sets the builtin variables of each part, with the current names of templates.
func (c *computation) describe() {
	c.controlPlane.describe(c)
	for _, g := range slices.Concat(c.deployments, c.pools) {
		g.describe()
	}
}

// ours are the labels of all objects of the Cluster.
func (c *computation) ours() map[string]string {
	return map[string]string{clusterv1.ClusterNameLabel: c.Cluster.Name, clusterv1.ClusterTopologyOwnedLabel: ""}
}

func (c *computation) draftInfrastructure() {
	m := c.begin(made{
		Item:    patches.Item{Role: patches.InfrastructureCluster, Holder: c.holder()},
		name:    name{text: c.Blueprint.InfrastructureName},
		current: c.Current.Infrastructure,
	}, c.Blueprint.Infrastructure, clusterv1.ObjectMeta{}, c.ours())
	c.callAs(m, c.Cluster.Spec.InfrastructureRef)
	c.infrastructure = m
}

// callAs sets the name of an object that the Cluster refers to, and requires that it is,
// and stays, of the referenced kind.
func (c *computation) callAs(m *made, ref clusterv1.ContractVersionedObjectReference) {
	if m.err != nil {
		return
	}
	is := m.current
	if is == nil && ref.IsDefined() { // it is still to be created
		is = &unstructured.Unstructured{}
		is.SetGroupVersionKind(ref.GroupKind().WithVersion(m.Desired.GroupVersionKind().Version))
		is.SetNamespace(c.Cluster.Namespace)
		is.SetName(ref.Name)
	}
	c.hold(m)
	if is == nil {
		c.call(m)
		return
	}
	m.called = is.GetName()
	m.Desired.SetName(m.called)
	m.err = ObjectChange(is, m.Desired)
}

// hold makes the Cluster the owner of an object, as the Cluster controller would do in
// its own request; an object with another controller is left to the Cluster controller,
// which decides whether the Cluster can share it.
func (c *computation) hold(m *made) {
	as := reference.ByCluster(c.Cluster)
	if c.Cluster.UID == "" || m.current != nil && as.Evaluate(m.current) != (reference.Result{}) {
		return
	}
	m.Desired.SetOwnerReferences([]metav1.OwnerReference{as.Owner})
}

// holder refers to the Cluster.
func (c *computation) holder() hooksv1.HolderReference {
	return hooksv1.HolderReference{APIVersion: clusterv1.GroupVersion().String(), Kind: clusterv1.ClusterKind, Namespace: c.Cluster.Namespace, Name: c.Cluster.Name}
}

func (c *computation) infrastructurePart() Part {
	m := c.infrastructure
	if m.err != nil {
		return Part{Err: fmt.Errorf("infrastructure of the topology: %w", m.err)}
	}
	if c.failed != nil {
		return Part{}
	}
	leaveEndpoint(m.wanted)
	return Part{Object: m.wanted}
}
