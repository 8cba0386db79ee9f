// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// ClusterResourceSetResourcesAppliedCondition is True while every resource is
// applied to every selected Cluster. The ClusterResourceSet controller sets
// it.
const ClusterResourceSetResourcesAppliedCondition = "ResourcesApplied"

// Reasons of ResourcesApplied.
const (
	// ClusterResourceSetResourcesAppliedReason means that all is applied.
	ClusterResourceSetResourcesAppliedReason = "Applied"

	// ClusterResourceSetResourcesNotAppliedReason means that something is not
	// applied yet.
	ClusterResourceSetResourcesNotAppliedReason = "NotApplied"

	// ClusterResourceSetResourcesAppliedWrongSecretTypeReason means that a
	// Secret is not of type addons.cluster.x-k8s.io/resource-set.
	ClusterResourceSetResourcesAppliedWrongSecretTypeReason = "WrongSecretType"

	// ClusterResourceSetResourcesAppliedInternalErrorReason means that the
	// controller had an internal error.
	ClusterResourceSetResourcesAppliedInternalErrorReason = clusterv1.InternalErrorReason
)

// ResourcesAppliedV1Beta1Condition is the v1beta1 form of ResourcesApplied.
const ResourcesAppliedV1Beta1Condition clusterv1.ConditionType = "ResourcesApplied"

// Reasons of the v1beta1 form of ResourcesApplied.
const (
	// RemoteClusterClientFailedV1Beta1Reason means that the workload cluster
	// could not be reached.
	RemoteClusterClientFailedV1Beta1Reason = "RemoteClusterClientFailed"

	// ClusterMatchFailedV1Beta1Reason means that Clusters could not be
	// selected.
	ClusterMatchFailedV1Beta1Reason = "ClusterMatchFailed"

	// ApplyFailedV1Beta1Reason means that the workload cluster refused a
	// resource.
	ApplyFailedV1Beta1Reason = "ApplyFailed"

	// RetrievingResourceFailedV1Beta1Reason means that a Secret or ConfigMap
	// could not be read.
	RetrievingResourceFailedV1Beta1Reason = "RetrievingResourceFailed"

	// WrongSecretTypeV1Beta1Reason means that a Secret has the wrong type.
	WrongSecretTypeV1Beta1Reason = "WrongSecretType"
)
