// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"

	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/infrastructure/kind"
)

// Names of upstream's test extension.
const (
	extensionNamespace = "test-extension-system"
	extensionService   = "test-extension-webhook-service"
)

var both = Label(local, inMemory)

// quickStart runs upstream's QuickStartSpec with a flavor, and runs the checks once its machines
// exist.
func quickStart(flavor string, change func(*e2e.QuickStartSpecInput), checks ...check) {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		in := e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management,
			ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep, Flavor: &flavor,
			PostMachinesProvisioned: func(proxy framework.ClusterProxy, namespace, cluster string) {
				for _, check := range checks {
					check(proxy, namespace, cluster)
				}
			},
		}
		if flags.setup == inMemory {
			in.ExtensionServiceNamespace, in.ExtensionServiceName = extensionNamespace, extensionService
		}
		if change != nil {
			change(&in)
		}
		return in
	})
}

var _ = Describe("quick-start", Label(local, "quick-start"), func() {
	Context("without topology", func() {
		quickStart("", nil, owners(false), ownerVersions(false), finalizers, stable("quick-start"))
	})
	Context("without topology, three and three machines", func() {
		quickStart("", func(in *e2e.QuickStartSpecInput) {
			in.ControlPlaneMachineCount, in.WorkerMachineCount = ptr.To[int64](3), ptr.To[int64](3)
		}, owners(false), ownerVersions(false), finalizers, stable("quick-start"))
	})
	Context("machine pool", func() {
		// Upstream's framework expects the owners of a pool of a topology, which the Cluster
		// owns as well.
		quickStart("machine-pool", nil, finalizers, stable("quick-start"))
	})
	Context("topology", func() {
		quickStart("topology", nil, owners(true), ownerVersions(true), finalizers, stable("quick-start"))
	})
	Context("taints", func() { quickStart("topology-taints", nil, stable("quick-start")) })
	Context("control plane alone", func() {
		quickStart("topology-kcp-only", withoutWorkers, stable("quick-start"))
	})
	Context("no workers", func() { quickStart("topology-no-workers", withoutWorkers, stable("quick-start")) })
	Context("class in another namespace", func() {
		quickStart("topology", func(in *e2e.QuickStartSpecInput) { in.DeployClusterClassInSeparateNamespace = true }, stable("quick-start"))
	})
	Context("Ignition", func() { quickStart("ignition", nil) })
	Context("IPv6", func() { quickStart("ipv6", nil) })
	Context("IPv4 before IPv6", func() { quickStart("topology-dualstack-ipv4-primary", nil) })
	Context("IPv6 before IPv4", func() { quickStart("topology-dualstack-ipv6-primary", nil) })
})

func withoutWorkers(in *e2e.QuickStartSpecInput) { in.WorkerMachineCount = ptr.To[int64](0) }

var _ = Describe("quick-start with an extension", Label(inMemory, "quick-start"), func() {
	Context("topology", func() {
		quickStart("in-memory-topology", nil, owners(true), ownerVersions(true), finalizers, stable("quick-start"))
	})
	Context("v1beta1", func() { quickStart("topology-runtimesdk-v1beta1", nil, stable("quick-start")) })
})

var _ = Describe("md-scale", Label(local, "md-scale"), func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep}
	})
})

var _ = Describe("rollout", Label(local, "rollout"), func() {
	e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
		return e2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: "kcp-md-taints",
		}
	})
})

var _ = Describe("md-remediation", Label(local, "md-remediation"), func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep}
	})
})

var _ = Describe("kcp-remediation", Label(local, "kcp-remediation"), func() {
	e2e.KCPRemediationSpec(ctx, func() e2e.KCPRemediationSpecInput {
		return e2e.KCPRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			PostNamespaceCreated: bootWhenSignalled,
		}
	})
})

var _ = Describe("kcp-adoption", Label(local, "kcp-adoption"), func() {
	e2e.KCPAdoptionSpec(ctx, func() e2e.KCPAdoptionSpecInput {
		return e2e.KCPAdoptionSpecInput{E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep}
	})
})

var _ = Describe("machine-pool", Label(local, "machine-pool"), func() {
	e2e.MachinePoolSpec(ctx, func() e2e.MachinePoolInput {
		return e2e.MachinePoolInput{E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep}
	})
})

// upgrade runs upstream's ClusterUpgradeConformanceSpec without the conformance tests.
func upgrade(controlPlane, workers int64, flavor string, change func(*e2e.ClusterUpgradeConformanceSpecInput)) {
	e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
		in := e2e.ClusterUpgradeConformanceSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: &flavor, ControlPlaneMachineCount: &controlPlane, WorkerMachineCount: &workers, SkipConformanceTests: true,
		}
		if change != nil {
			change(&in)
		}
		return in
	})
}

var _ = Describe("upgrade", Label(local, "upgrade"), func() {
	Context("topology", func() { upgrade(1, 2, "topology", nil) })
	Context("topology, highly available, pre-drain hook", func() {
		upgrade(3, 1, "kcp-pre-drain", func(in *e2e.ClusterUpgradeConformanceSpecInput) {
			in.PreWaitForControlPlaneToBeUpgraded = releasePreDrainHooks(3)
		})
	})
	Context("topology, highly available, scale in", func() { upgrade(3, 1, "kcp-scale-in", nil) })
	Context("without topology", func() { upgrade(3, 2, "", nil) })
})

// upgradeWithExtension runs upstream's ClusterUpgradeWithRuntimeSDKSpec.
func upgradeWithExtension(name string, change func(*e2e.ClusterUpgradeWithRuntimeSDKSpecInput)) {
	e2e.ClusterUpgradeWithRuntimeSDKSpec(ctx, func() e2e.ClusterUpgradeWithRuntimeSDKSpecInput {
		in := e2e.ClusterUpgradeWithRuntimeSDKSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: ptr.To("in-memory-topology"), ExtensionConfigName: name,
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extensionService,
			PostUpgrade: stable("k8s-upgrade-with-runtimesdk"),
		}
		if change != nil {
			change(&in)
		}
		return in
	})
}

var _ = Describe("upgrade with an extension", Label(inMemory, "upgrade"), func() {
	Context("topology", func() { upgradeWithExtension("", nil) })
	Context("class in another namespace", func() {
		upgradeWithExtension("k8s-upgrade-with-runtimesdk-cross-ns", func(in *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
			in.DeployClusterClassInSeparateNamespace = true
		})
	})
	Context("over several versions", func() {
		upgradeWithExtension("k8s-chained-upgrade-with-runtimesdk-cross-ns", func(in *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
			in.DeployClusterClassInSeparateNamespace = true
			in.KubernetesVersionFrom = config.MustGetVariable("KUBERNETES_VERSION_CHAINED_UPGRADE_FROM")
			in.KubernetesVersions = kind.GetKubernetesVersions()
		})
	})
})

var _ = Describe("in-place update", Label(inMemory, "in-place"), func() {
	e2e.ClusterInPlaceUpdateSpec(ctx, func() e2e.ClusterInPlaceUpdateSpecInput {
		return e2e.ClusterInPlaceUpdateSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: ptr.To("in-memory-topology"), ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extensionService,
			ClusterctlVariables: map[string]string{"KUBEADM_CONTROL_PLANE_MAX_SURGE": "0", "MD_MAX_SURGE": "1", "MD_MAX_UNAVAILABLE": "1"},
		}
	})
})

var _ = Describe("class changes", both, Label("class-changes"), func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		in := e2e.ClusterClassChangesSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor:                   "in-memory-topology",
			ModifyControlPlaneFields: map[string]any{"spec.kubeadmConfigSpec.verbosity": int64(4)},
			ModifyMachineDeploymentBootstrapConfigTemplateFields:       map[string]any{"spec.template.spec.verbosity": int64(4)},
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{"spec.template.spec.backend.inMemory.vm.provisioning.startupDuration": "3s"},
			ExtensionServiceNamespace:                                  extensionNamespace, ExtensionServiceName: extensionService,
		}
		if flags.setup == local {
			in.Flavor, in.ExtensionServiceNamespace, in.ExtensionServiceName = "topology", "", ""
			in.ModifyMachineDeploymentInfrastructureMachineTemplateFields = map[string]any{"spec.template.spec.simulated.vm.startupMilliseconds": int64(900)}
			in.ModifyMachinePoolBootstrapConfigTemplateFields = map[string]any{"spec.template.spec.verbosity": int64(4)}
			in.ModifyMachinePoolInfrastructureMachinePoolTemplateFields = map[string]any{"spec.template.spec.template.simulated.vm.startupMilliseconds": int64(900)}
		}
		return in
	})
})

var _ = Describe("class rollout", both, Label("class-rollout"), func() {
	e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
		in := e2e.ClusterClassRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: "in-memory-topology", ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extensionService,
			FilterMetadataBeforeValidation: withoutBackendMetadata,
		}
		if flags.setup == local {
			in.Flavor, in.ExtensionServiceNamespace, in.ExtensionServiceName = "topology-taints", "", ""
		}
		return in
	})
})

var _ = Describe("deletion", Label(local, "deletion"), func() {
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			ControlPlaneMachineCount: ptr.To[int64](3), Flavor: ptr.To("topology"), ClusterDeletionPhases: deletionPhases(),
		}
	})
})

var _ = Describe("node drain", Label(local, "drain"), func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: ptr.To("topology"), VerifyNodeVolumeDetach: true, CreateAdditionalResources: attachVolumes,
		}
	})
})

var _ = Describe("scale", Label(inMemory, "scale"), func() {
	e2e.ScaleSpec(ctx, func() e2e.ScaleSpecInput {
		return e2e.ScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: configPath, BootstrapClusterProxy: management, ArtifactFolder: flags.artifacts, SkipCleanup: flags.keep,
			Flavor: ptr.To("in-memory-scale"), ClusterClassName: "in-memory", ClusterCount: ptr.To[int64](10), Concurrency: ptr.To[int64](5),
			ControlPlaneMachineCount: ptr.To[int64](1), MachineDeploymentCount: ptr.To[int64](1), WorkerPerMachineDeploymentCount: ptr.To[int64](3),
			AdditionalClusterClassCount:       ptr.To[int64](4),
			DeployClusterInSeparateNamespaces: ptr.To(false), UseCrossNamespaceClusterClass: ptr.To(false),
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extensionService,
		}
	})
})
