// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

// WithoutInfrastructure notes that a Cluster without infrastructure of its own
// has nothing to wait for; but a topology is going to bring it some.
func WithoutInfrastructure(c *clusterv1.Cluster) {
	if !c.Spec.Topology.IsDefined() {
		c.Status.Initialization.InfrastructureProvisioned = new(true)
	}
}

// TakeInfrastructure copies what the infrastructure object says to the Cluster:
// the endpoint, failure domains, and that it is provisioned. It reports whether
// that is news.
func TakeInfrastructure(c *clusterv1.Cluster, obj *unstructured.Unstructured, contractVersion string) (news bool, err error) {
	promises, err := contract.InfraClusterFor(contractVersion)
	if err != nil {
		return false, err
	}
	before := ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false)
	provisioned, _, err := promises.Provisioned.Get(obj)
	if err != nil || (!provisioned && !before) {
		return false, err
	}
	if err := takeEndpoint(c, obj, promises.ControlPlaneEndpoint); err != nil {
		return false, err
	}
	domains, _, err := promises.FailureDomains.Get(obj)
	if err == nil {
		c.Status.FailureDomains = domains // those that are reported no more are gone
	}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	return !before, err
}

// WithoutControlPlane notes, for a Cluster without a control plane object, that
// a control plane Machine has become a Node: so the control plane is initialized.
func WithoutControlPlane(c *clusterv1.Cluster, machines []*clusterv1.Machine) {
	for _, m := range machines {
		if m.Status.NodeRef.IsDefined() {
			c.Status.Initialization.ControlPlaneInitialized = new(true)
		}
	}
}

// ReadControlPlane reads what a control plane object counts; what cannot be read is in
// the error.
func ReadControlPlane(obj *unstructured.Unstructured, contractVersion string) (r contract.Replicas, versions []clusterv1.StatusVersion, err error) {
	promises, err := contract.ControlPlaneFor(contractVersion)
	if err != nil {
		return r, nil, err
	}
	r, uncounted := promises.Counters(obj)
	versions, ok, err := promises.Versions.Get(obj)
	if err != nil || ok {
		return r, versions, errors.Join(uncounted, err)
	}
	lowest, _, err := promises.StatusVersion.Get(obj) // an older provider tells the lowest version alone
	if current := ptr.Deref(r.Current, 0); lowest != "" && (r.Current == nil || current > 0) {
		versions = []clusterv1.StatusVersion{{Version: lowest, Replicas: current}} // without a number where none is told
	}
	return r, versions, errors.Join(uncounted, err)
}

// TakeControlPlane copies what the control plane object says to the Cluster: the
// endpoint, and that it is initialized. It reports whether that is news.
func TakeControlPlane(c *clusterv1.Cluster, obj *unstructured.Unstructured, contractVersion string) (news bool, err error) {
	promises, err := contract.ControlPlaneFor(contractVersion)
	if err != nil {
		return false, err
	}
	before := ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false)
	initialized, _, err := promises.Initialized.Get(obj)
	if err != nil || (!initialized && !before) {
		return false, err
	}
	if err := takeEndpoint(c, obj, promises.ControlPlaneEndpoint); err != nil {
		return false, err
	}
	c.Status.Initialization.ControlPlaneInitialized = new(true)
	return !before, nil
}

// takeEndpoint takes the endpoint of the control plane from whoever knows it
// first. It never changes again.
func takeEndpoint(c *clusterv1.Cluster, obj *unstructured.Unstructured, field contract.Field[clusterv1.APIEndpoint]) error {
	if c.Spec.ControlPlaneEndpoint.IsValid() {
		return nil
	}
	endpoint, _, err := field.Get(obj)
	if err == nil && endpoint.IsValid() {
		c.Spec.ControlPlaneEndpoint = endpoint
	}
	return err
}
