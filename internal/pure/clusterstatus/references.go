// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

// WithoutInfrastructure records that a Cluster without its own infrastructure has
// nothing to wait for, unless its topology will create infrastructure.
func WithoutInfrastructure(c *clusterv1.Cluster) {
	if !c.Spec.Topology.IsDefined() {
		c.Status.Initialization.InfrastructureProvisioned = new(true)
	}
}

// TakeInfrastructure copies the status of the infrastructure object to the Cluster: the
// endpoint, failure domains, and that it is provisioned. It returns whether the Cluster
// was provisioned just now.
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
		c.Status.FailureDomains = domains // domains that are no longer reported are removed
	}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	return !before, err
}

// WithoutControlPlane records, for a Cluster without a control plane object, that the
// control plane is initialized, once a control plane Machine has a Node.
func WithoutControlPlane(c *clusterv1.Cluster, machines []*clusterv1.Machine) {
	for _, m := range machines {
		if m.Status.NodeRef.IsDefined() {
			c.Status.Initialization.ControlPlaneInitialized = new(true)
		}
	}
}

// ReadControlPlane reads the counters of a control plane object; the error holds those
// that cannot be read.
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
	lowest, _, err := promises.StatusVersion.Get(obj) // an older provider reports only the lowest version
	if current := ptr.Deref(r.Current, 0); lowest != "" && (r.Current == nil || current > 0) {
		versions = []clusterv1.StatusVersion{{Version: lowest, Replicas: current}} // without a count if none is reported
	}
	return r, versions, errors.Join(uncounted, err)
}

// TakeControlPlane copies the status of the control plane object to the Cluster: the
// endpoint, and that it is initialized. It returns whether the Cluster was initialized
// just now.
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

// takeEndpoint sets the endpoint of the control plane from the first object that reports
// one. It never changes again.
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
