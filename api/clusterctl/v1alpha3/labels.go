// SPDX-License-Identifier: Apache-2.0

package v1alpha3

const (
	// CertManagerVersionAnnotation on cert-manager's namespace is the version
	// that clusterctl installed.
	CertManagerVersionAnnotation = "cert-manager.clusterctl.cluster.x-k8s.io/version"

	// SkipCRDNamePreflightCheckAnnotation on a CRD lets its name differ from
	// what the contract computes.
	SkipCRDNamePreflightCheckAnnotation = "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check"

	// DeleteForMoveAnnotation marks an object that move is about to delete at
	// its source.
	DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

	// BlockMoveAnnotation makes move wait until the object's controller removes
	// it.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
)

const (
	// ClusterctlLabel marks what clusterctl installed.
	ClusterctlLabel = "clusterctl.cluster.x-k8s.io"

	// ClusterctlCoreLabel marks what clusterctl itself needs.
	ClusterctlCoreLabel = "clusterctl.cluster.x-k8s.io/core"

	// ClusterctlCoreLabelInventoryValue is the value of ClusterctlCoreLabel
	// for the inventory.
	ClusterctlCoreLabelInventoryValue = "inventory"

	// ClusterctlCoreLabelCertManagerValue is the value of ClusterctlCoreLabel
	// for cert-manager.
	ClusterctlCoreLabelCertManagerValue = "cert-manager"

	// ClusterctlMoveLabel on a CRD or object makes move include the objects, or
	// the object, although nothing links them to a Cluster.
	ClusterctlMoveLabel = "clusterctl.cluster.x-k8s.io/move"

	// ClusterctlMoveHierarchyLabel is as ClusterctlMoveLabel and takes along
	// everything that they own too.
	ClusterctlMoveHierarchyLabel = "clusterctl.cluster.x-k8s.io/move-hierarchy"
)
