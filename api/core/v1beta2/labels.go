// SPDX-License-Identifier: Apache-2.0

package v1beta2

import corev1 "k8s.io/api/core/v1"

const (
	// ClusterNameLabel holds the name of the Cluster that an object belongs to.
	ClusterNameLabel = "cluster.x-k8s.io/cluster-name"
	// ClusterTopologyOwnedLabel marks objects that the topology controller manages.
	ClusterTopologyOwnedLabel = "topology.cluster.x-k8s.io/owned"
	// ClusterTopologyMachineDeploymentNameLabel holds the name that the topology
	// gives to a group kept by a MachineDeployment.
	ClusterTopologyMachineDeploymentNameLabel = "topology.cluster.x-k8s.io/deployment-name"
	// ClusterTopologyUpgradeStepAnnotation on objects of a topology holds the
	// version of the upgrade step under way. Internal.
	ClusterTopologyUpgradeStepAnnotation = "topology.internal.cluster.x-k8s.io/upgrade-step"
	// ClusterTopologyHoldUpgradeSequenceAnnotation on a MachineDeployment of a
	// topology holds back its upgrade and all later ones.
	ClusterTopologyHoldUpgradeSequenceAnnotation = "topology.cluster.x-k8s.io/hold-upgrade-sequence"
	// ClusterTopologyDeferUpgradeAnnotation on a MachineDeployment of a topology
	// defers its upgrade; the upgrades of others continue.
	ClusterTopologyDeferUpgradeAnnotation = "topology.cluster.x-k8s.io/defer-upgrade"
	// ClusterTopologyUpgradeConcurrencyAnnotation on a Cluster sets how many groups
	// of workers are upgraded at a time; 1 without it.
	ClusterTopologyUpgradeConcurrencyAnnotation = "topology.cluster.x-k8s.io/upgrade-concurrency"
	// ClusterTopologyMachinePoolNameLabel holds the name that the topology gives to
	// a group kept by a MachinePool.
	ClusterTopologyMachinePoolNameLabel = "topology.cluster.x-k8s.io/pool-name"
	// ClusterTopologyUnsafeUpdateClassNameAnnotation on a Cluster turns off the
	// checks on a change of class.
	ClusterTopologyUnsafeUpdateClassNameAnnotation = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check"
	// ClusterTopologyUnsafeUpdateVersionAnnotation on a Cluster turns off the checks
	// on a change of version.
	ClusterTopologyUnsafeUpdateVersionAnnotation = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check"
	// ProviderNameLabel on the components of a provider holds its name.
	ProviderNameLabel = "cluster.x-k8s.io/provider"
	// ClusterNameAnnotation on a Node holds the name of its Cluster.
	ClusterNameAnnotation = "cluster.x-k8s.io/cluster-name"
	// ClusterNamespaceAnnotation on a Node holds the namespace of its Cluster.
	ClusterNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	// MachineAnnotation on a Node holds the name of its Machine.
	MachineAnnotation = "cluster.x-k8s.io/machine"
	// OwnerKindAnnotation on a Node holds the kind of the owner of its Machine.
	OwnerKindAnnotation = "cluster.x-k8s.io/owner-kind"
	// LabelsFromMachineAnnotation on a Node lists the labels that were copied from
	// its Machine, so that they can be removed later.
	LabelsFromMachineAnnotation = "cluster.x-k8s.io/labels-from-machine"
	// AnnotationsFromMachineAnnotation on a Node lists the annotations that were
	// copied from its Machine.
	AnnotationsFromMachineAnnotation = "cluster.x-k8s.io/annotations-from-machine"
	// TaintsFromMachineAnnotation on a Node lists the taints that were copied from
	// its Machine.
	TaintsFromMachineAnnotation = "cluster.x-k8s.io/taints-from-machine"
	// OwnerNameAnnotation on a Node holds the name of the owner of its Machine.
	OwnerNameAnnotation = "cluster.x-k8s.io/owner-name"
	// PausedAnnotation stops controllers from acting on an object. Its value does
	// not matter.
	PausedAnnotation = "cluster.x-k8s.io/paused"
	// RemediationModeAnnotation on a MachineHealthCheck selects what happens to
	// unhealthy Machines: with RemediationModeReport, they are only reported.
	RemediationModeAnnotation = "capstan.dev/remediation"
	// RemediationModeReport is the only value of RemediationModeAnnotation.
	RemediationModeReport = "report"
	// DisableMachineCreateAnnotation stops a MachineSet from creating Machines, when
	// its value is true.
	DisableMachineCreateAnnotation = "cluster.x-k8s.io/disable-machine-create"
	// WatchLabel limits the managers that act on an object to those started with
	// this value as --watch-filter.
	WatchLabel = "cluster.x-k8s.io/watch-filter"
	// DeleteMachineAnnotation makes a Machine one of the first to be deleted when
	// its owner scales down. Its value does not matter.
	DeleteMachineAnnotation = "cluster.x-k8s.io/delete-machine"
	// TemplateClonedFromNameAnnotation holds the name of the template that an object
	// was created from.
	TemplateClonedFromNameAnnotation = "cluster.x-k8s.io/cloned-from-name"
	// TemplateClonedFromGroupKindAnnotation holds kind and group, as Kind.group, of
	// the template that an object was created from.
	TemplateClonedFromGroupKindAnnotation = "cluster.x-k8s.io/cloned-from-groupkind"
	// MachineSkipRemediationAnnotation keeps a Machine from being remediated.
	MachineSkipRemediationAnnotation = "cluster.x-k8s.io/skip-remediation"
	// RemediateMachineAnnotation requests the remediation of a Machine regardless of
	// its health.
	RemediateMachineAnnotation = "cluster.x-k8s.io/remediate-machine"
	// MachineSetSkipPreflightChecksAnnotation on a MachineSet lists, separated by
	// commas, checks to skip before Machines are created.
	MachineSetSkipPreflightChecksAnnotation = "machineset.cluster.x-k8s.io/skip-preflight-checks"
	// ClusterSecretType is the type of the Secrets that hold the keys and
	// kubeconfigs of clusters.
	ClusterSecretType corev1.SecretType = "cluster.x-k8s.io/secret"
	// InterruptibleLabel marks Nodes on infrastructure machines that can be
	// reclaimed at any time.
	InterruptibleLabel = "cluster.x-k8s.io/interruptible"
	// ManagedByAnnotation on an infrastructure cluster means that an external system
	// manages it and that its provider does not change it.
	ManagedByAnnotation = "cluster.x-k8s.io/managed-by"
	// TopologyDryRunAnnotation marks a request as a rehearsal by the topology
	// controller, for webhooks.
	TopologyDryRunAnnotation = "topology.cluster.x-k8s.io/dry-run"
	// ReplicasManagedByAnnotation on a MachinePool means that an external system
	// sets the number of its machines.
	ReplicasManagedByAnnotation = "cluster.x-k8s.io/replicas-managed-by"
	// AutoscalerMinSizeAnnotation on a group of Machines is the lower bound for the
	// cluster autoscaler.
	AutoscalerMinSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	// AutoscalerMaxSizeAnnotation on a group of Machines is the upper bound for the
	// cluster autoscaler.
	AutoscalerMaxSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	// CRDMigrationObservedGenerationAnnotation on a CustomResourceDefinition holds
	// the generation whose stored objects were migrated.
	CRDMigrationObservedGenerationAnnotation = "crd-migration.cluster.x-k8s.io/observed-generation"
	// BeforeClusterUpgradeHookAnnotationPrefix is the prefix of annotations on a Cluster that
	// hold back an upgrade.
	BeforeClusterUpgradeHookAnnotationPrefix = "before-upgrade.hook.cluster.cluster.x-k8s.io"
	// TemplateSuffix is the suffix of the kind of a template, after the kind of the
	// objects created from it.
	TemplateSuffix = "Template"
)
