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
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/pure/topology/compat"
	"github.com/capstan-dev/capstan/internal/pure/topology/patches"
)

// computation is on its way from input to outcome.
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

// draft makes everything as templates, class and topology have it.
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

// describe tells patches of each part, by the names that templates have so far.
func (c *computation) describe() {
	c.controlPlane.describe(c)
	for _, g := range slices.Concat(c.deployments, c.pools) {
		g.describe()
	}
}

// ours are the labels of all that is of the Cluster.
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

// callAs gives an object that the Cluster refers to the name by which it does, and
// demands that it is, and stays, of its kind.
func (c *computation) callAs(m *made, ref clusterv1.ContractVersionedObjectReference) {
	if m.err != nil {
		return
	}
	is := m.current
	if is == nil && ref.IsDefined() { // it has yet to be made
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
	m.err = compat.Object(is, m.Desired)
}

// hold gives an object to the Cluster, as the Cluster itself would with a request of
// its own; what has another controller it leaves to the Cluster, which knows when it
// may have it beside that one.
func (c *computation) hold(m *made) {
	as := claim.ByCluster(c.Cluster)
	if c.Cluster.UID == "" || m.current != nil && as.Judge(m.current) != (claim.Verdict{}) {
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
