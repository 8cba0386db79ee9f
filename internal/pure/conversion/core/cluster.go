// SPDX-License-Identifier: Apache-2.0

package core

import (
	"maps"
	"slices"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func cluster() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.Cluster, clusterv1.Cluster]{
		Kind: "Cluster", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: clusterUp, Down: clusterDown,
		Keep: func(c *clusterv1.Cluster) any { return rules.Data(c.TypeMeta, c.Spec, c.Status) },
	})
}

func clusterUp(old *clusterv1beta1.Cluster, hub, kept *clusterv1.Cluster) (err error) {
	from, to, before := &old.Spec, &hub.Spec, rules.Value(kept)
	network := rules.Value(from.ClusterNetwork)
	*to = clusterv1.ClusterSpec{
		Paused: rules.Meant(from.Paused, before.Spec.Paused),
		ClusterNetwork: clusterv1.ClusterNetwork{
			APIServerPort: rules.Value(network.APIServerPort),
			Services:      clusterv1.NetworkRanges(rules.Value(network.Services)),
			Pods:          clusterv1.NetworkRanges(rules.Value(network.Pods)),
			ServiceDomain: network.ServiceDomain,
		},
		ControlPlaneEndpoint: clusterv1.APIEndpoint(from.ControlPlaneEndpoint),
		AvailabilityGates:    availabilityGatesUp(from.AvailabilityGates),
	}
	if from.Topology != nil {
		topologyUp(from.Topology, &to.Topology)
	}
	if to.ControlPlaneRef, err = rules.ReferenceUp("spec.controlPlaneRef", from.ControlPlaneRef); err != nil {
		return err
	}
	if to.InfrastructureRef, err = rules.ReferenceUp("spec.infrastructureRef", from.InfrastructureRef); err != nil {
		return err
	}
	clusterStatusUp(&old.Status, &hub.Status, before.Status.Initialization)
	return nil
}

func clusterStatusUp(from *clusterv1beta1.ClusterStatus, to *clusterv1.ClusterStatus, before clusterv1.ClusterInitializationStatus) {
	*to = clusterv1.ClusterStatus{
		Initialization: clusterv1.ClusterInitializationStatus{
			InfrastructureProvisioned: rules.Meant(from.InfrastructureReady, before.InfrastructureProvisioned),
			ControlPlaneInitialized:   rules.Meant(from.ControlPlaneReady, before.ControlPlaneInitialized),
		},
		Phase:              from.Phase,
		ObservedGeneration: from.ObservedGeneration,
	}
	if from.FailureDomains != nil {
		to.FailureDomains = []clusterv1.FailureDomain{}
		for _, name := range slices.Sorted(maps.Keys(from.FailureDomains)) {
			d := from.FailureDomains[name]
			to.FailureDomains = append(to.FailureDomains, clusterv1.FailureDomain{Name: name, ControlPlane: &d.ControlPlane, Attributes: d.Attributes})
		}
	}
	v := rules.Value(from.V1Beta2)
	to.Conditions, to.ControlPlane, to.Workers = v.Conditions, v.ControlPlane, v.Workers
	to.Deprecated = rules.Pointer(clusterv1.ClusterDeprecatedStatus{V1Beta1: rules.Pointer(clusterv1.ClusterV1Beta1DeprecatedStatus{
		Conditions: from.Conditions, FailureReason: from.FailureReason, FailureMessage: from.FailureMessage,
	})})
}

func clusterDown(hub *clusterv1.Cluster, old *clusterv1beta1.Cluster, lookup rules.Lookup) (err error) {
	from, to := &hub.Spec, &old.Spec
	*to = clusterv1beta1.ClusterSpec{
		Paused:               rules.Value(from.Paused),
		ClusterNetwork:       networkDown(from.ClusterNetwork),
		ControlPlaneEndpoint: clusterv1beta1.APIEndpoint(from.ControlPlaneEndpoint),
		AvailabilityGates:    availabilityGatesDown(from.AvailabilityGates),
	}
	if !rules.IsZero(from.Topology) {
		to.Topology = topologyDown(&from.Topology, hub.Namespace)
	}
	if to.ControlPlaneRef, err = rules.ReferenceDown("spec.controlPlaneRef", from.ControlPlaneRef, hub.Namespace, lookup); err != nil {
		return err
	}
	if to.InfrastructureRef, err = rules.ReferenceDown("spec.infrastructureRef", from.InfrastructureRef, hub.Namespace, lookup); err != nil {
		return err
	}
	clusterStatusDown(&hub.Status, &old.Status)
	return nil
}

func networkDown(from clusterv1.ClusterNetwork) *clusterv1beta1.ClusterNetwork {
	return rules.Pointer(clusterv1beta1.ClusterNetwork{
		APIServerPort: rules.Pointer(from.APIServerPort),
		Services:      rules.Pointer(clusterv1beta1.NetworkRanges(from.Services)),
		Pods:          rules.Pointer(clusterv1beta1.NetworkRanges(from.Pods)),
		ServiceDomain: from.ServiceDomain,
	})
}

func clusterStatusDown(from *clusterv1.ClusterStatus, to *clusterv1beta1.ClusterStatus) {
	*to = clusterv1beta1.ClusterStatus{
		Phase:               from.Phase,
		InfrastructureReady: rules.Value(from.Initialization.InfrastructureProvisioned),
		ControlPlaneReady:   rules.Value(from.Initialization.ControlPlaneInitialized),
		ObservedGeneration:  from.ObservedGeneration,
		V1Beta2: rules.Pointer(clusterv1beta1.ClusterV1Beta2Status{
			V1Beta2Status: clusterv1beta1.V1Beta2Status{Conditions: from.Conditions},
			ControlPlane:  from.ControlPlane,
			Workers:       from.Workers,
		}),
	}
	if from.FailureDomains != nil {
		to.FailureDomains = map[string]clusterv1beta1.FailureDomainSpec{}
		for _, d := range from.FailureDomains {
			to.FailureDomains[d.Name] = clusterv1beta1.FailureDomainSpec{ControlPlane: rules.Value(d.ControlPlane), Attributes: d.Attributes}
		}
	}
	deprecated := rules.Value(rules.Value(from.Deprecated).V1Beta1)
	to.Conditions, to.FailureReason, to.FailureMessage = deprecated.Conditions, deprecated.FailureReason, deprecated.FailureMessage
}
