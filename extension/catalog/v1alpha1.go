// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"sync"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// The tags of the published hooks.
const (
	TagDiscovery        = "Discovery"
	TagLifecycle        = "Lifecycle Hooks"
	TagTopologyMutation = "Topology Mutation Hooks"
	TagInPlaceUpdate    = "In-Place Update Hooks"
	TagUpgradePlan      = "Upgrade Plan Hooks"
)

// V1Alpha1 are the hooks of hooks.runtime.cluster.x-k8s.io/v1alpha1.
func V1Alpha1() Version {
	return Version{
		GroupVersion: hooksv1.GroupVersion(),
		Hooks:        slices.Concat(discovery(), creation(), upgrade(), deletion(), mutation(), inPlace(), plan()),
	}
}

// Default is the catalog of all published hooks. There is one for all callers.
func Default() *Catalog { return published() }

var published = sync.OnceValue(func() *Catalog {
	c, err := New(V1Alpha1())
	if err != nil {
		panic("the catalog of the published hooks is broken: " + err.Error())
	}
	return c
})

const (
	howToBlock = "This hook blocks: as long as `retryAfterSeconds` is more than 0, nothing continues, and the extension is called again after that time, or sooner. With 0 the Cluster continues. If there are several extensions, none of them may block for it to continue, and the shortest of their times counts. "

	onlyTopology = "The hook is called for Clusters with `spec.topology` only. "

	asSent = "The Cluster is sent in its v1beta2 form, without `status`, `metadata.managedFields` and the annotations that only repeat it."

	onFailure = "The status `Failure`, too, holds it up: the call is repeated, with growing pauses, and `message` is shown to the user. "

	pendingPlans = "`controlPlaneUpgrades` and `workersUpgrades` list the versions still ahead, in order; each ends with the version the user asked for, and is empty when nothing is ahead. "
)

func discovery() []Hook {
	return []Hook{{
		Func: hooksv1.Discovery, Singleton: true, Tags: []string{TagDiscovery},
		Summary: "Asks an extension which hooks it handles, and how.",
		Description: "Called when an ExtensionConfig is created or changed, and from time to time after that. " +
			"Each handler in the answer has a name, unique in the extension and a lower-case DNS label; the hook and version it speaks; " +
			"and, if it wants others than 10 seconds and `Fail`, its timeout and failure policy. " +
			"The handler is then called at the path of its hook, followed by its name. " +
			"The request is empty and has no settings, so the answer must not depend on who asks; it should be the same as long as the extension is.",
	}}
}

func creation() []Hook {
	return []Hook{{
		Func: hooksv1.BeforeClusterCreate, Tags: []string{TagLifecycle},
		Summary: "Called before the objects of a new Cluster are created.",
		Description: "The Cluster exists, and nothing else: no infrastructure, no control plane, no machines. " +
			"The extension can prepare what the Cluster will need, or ask something else whether there may be one. " +
			howToBlock + "The hook is no longer called once the infrastructure cluster or the control plane exist. " +
			onFailure + onlyTopology + asSent,
	}, {
		Func: hooksv1.AfterControlPlaneInitialized, Tags: []string{TagLifecycle},
		Summary: "Called once the control plane of a Cluster answers for the first time.",
		Description: "The API server of the workload cluster can be reached; workers may be missing, and so may be Nodes that are ready. " +
			"The extension can install what needs an API server, such as a network plugin. " +
			"This hook does not block. It is called until all extensions have answered with `Success`, and then never again for this Cluster. " +
			onlyTopology + asSent,
	}}
}

func upgrade() []Hook {
	return []Hook{{
		Func: hooksv1.BeforeClusterUpgrade, Tags: []string{TagLifecycle},
		Summary: "Called before an upgrade of a Cluster begins.",
		Description: "The user has changed `spec.topology.version`; control plane and workers still have the version in `fromKubernetesVersion`, and all of them are stable. " +
			"`toKubernetesVersion` is where the whole upgrade ends, however many steps it takes. " + pendingPlans +
			howToBlock + "While it blocks, control plane and workers keep their version; other changes to them wait, so that no machine is replaced twice. " +
			"The hook is called once for each upgrade, not for each step, and not again until AfterClusterUpgrade let the upgrade end. " +
			onFailure + onlyTopology + asSent,
	}, {
		Func: hooksv1.BeforeControlPlaneUpgrade, Tags: []string{TagLifecycle},
		Summary: "Called before each step of an upgrade of the control plane.",
		Description: "`fromKubernetesVersion` and `toKubernetesVersion` are those of this step, not of the whole upgrade. " +
			"The control plane has the first one everywhere and does not know the second. " + pendingPlans +
			howToBlock + "While it blocks, control plane and workers keep their versions. " +
			onFailure + onlyTopology + asSent,
	}, {
		Func: hooksv1.AfterControlPlaneUpgrade, Tags: []string{TagLifecycle},
		Summary: "Called after each step of an upgrade of the control plane, before workers follow.",
		Description: "All of the control plane has the version in `kubernetesVersion`; no worker has it because of this upgrade. " + pendingPlans +
			howToBlock + "While it blocks, workers keep their version, and the control plane does not take its next step. " +
			onFailure + onlyTopology + asSent,
	}, {
		Func: hooksv1.BeforeWorkersUpgrade, Tags: []string{TagLifecycle},
		Summary: "Called before each step of an upgrade of the workers.",
		Description: "The control plane has the version in `toKubernetesVersion`; all workers have the one in `fromKubernetesVersion`. " +
			"Steps that workers skip, because they may be older than the control plane, are not announced. " + pendingPlans +
			howToBlock + "While it blocks, MachineDeployments and MachinePools keep their version, and changes to them wait, so that no machine is replaced twice. " +
			onFailure + onlyTopology + asSent,
	}, {
		Func: hooksv1.AfterWorkersUpgrade, Tags: []string{TagLifecycle},
		Summary: "Called after each step of an upgrade of the workers.",
		Description: "All MachineDeployments and MachinePools have the version in `kubernetesVersion`, and are stable. " + pendingPlans +
			howToBlock + "While it blocks, neither the next step nor the end of the upgrade comes. " +
			onFailure + onlyTopology + asSent,
	}, {
		Func: hooksv1.AfterClusterUpgrade, Tags: []string{TagLifecycle},
		Summary: "Called when an upgrade of a Cluster is complete.",
		Description: "Control plane and workers have the version in `kubernetesVersion`, and nothing is being rolled out. " +
			"The extension can update what runs in the Cluster, or test it. " +
			howToBlock + "While it blocks, the Cluster works as it should; only another upgrade cannot begin. " +
			onFailure + onlyTopology + asSent,
	}}
}

func deletion() []Hook {
	return []Hook{{
		Func: hooksv1.BeforeClusterDelete, Tags: []string{TagLifecycle},
		Summary: "Called before anything of a Cluster is deleted.",
		Description: "The user has deleted the Cluster: it has a `metadata.deletionTimestamp`, and all that belongs to it still runs. " +
			"The extension can take back what it made, or save data. " +
			howToBlock + "While it blocks, nothing is deleted. After all extensions have answered without blocking, the hook is not called again for this Cluster. " +
			onFailure + onlyTopology + asSent,
	}}
}

func mutation() []Hook {
	return []Hook{{
		Func: hooksv1.GeneratePatches, Cacheable: true, Tags: []string{TagTopologyMutation},
		Summary: "Called to patch the templates of a ClusterClass for one Cluster.",
		Description: "`items` are the templates, each with the object and field that use it in `holderReference`; patches of the ClusterClass listed before this one are applied. " +
			"`variables` hold for the whole Cluster, those of an item for it alone and before the others; `builtin` describes Cluster, control plane and workers. " +
			"An item of the answer names by `uid` the item it patches; items without a patch are left out. " +
			"Only `spec` may change. The hook is called when the Cluster is reconciled; the answer to a request is kept for some minutes, and given again: the same request must have the same answer, and no effects. " +
			"The status `Failure` stops the reconciliation and is shown to the user.",
	}, {
		Func: hooksv1.ValidateTopology, Tags: []string{TagTopologyMutation},
		Summary: "Called to check the templates of a Cluster after all patches.",
		Description: "`items` and `variables` are as in GeneratePatches, with every patch applied. " +
			"With the status `Failure` nothing of it is written, and `message` gives the reason to the user. " +
			"The hook is called each time the Cluster is reconciled: the same request must have the same answer, and no effects.",
	}, {
		Func: hooksv1.DiscoverVariables, Cacheable: true, Tags: []string{TagTopologyMutation},
		Summary: "Called to learn which variables an extension defines for a ClusterClass.",
		Description: "The definitions are like those in the ClusterClass: a name, whether the variable is required, and a schema with which values are checked and filled with defaults. " +
			"The answer may depend on the settings alone, and is kept until they or the ExtensionConfig change. " +
			"The status `Failure` keeps the ClusterClass from being used and is shown to the user.",
	}}
}

func inPlace() []Hook {
	const one = "Only one extension may handle this hook. "
	return []Hook{{
		Func: hooksv1.CanUpdateMachine, Cacheable: true, Tags: []string{TagInPlaceUpdate},
		Summary: "Called to learn what of a change to a control plane machine can be made in place.",
		Description: "`current` is the Machine with its infrastructure and bootstrap objects as they are, `desired` as they should be; a Machine may have no bootstrap object. " +
			"The answer patches `current` by what the extension can change on the running machine; an empty patch changes nothing. " +
			"If current and patches make up desired, in `spec`, the machine is updated through UpdateMachine, otherwise replaced. The extension must not change anything yet. " + one +
			"The objects are sent without `status`.",
	}, {
		Func: hooksv1.CanUpdateMachineSet, Cacheable: true, Tags: []string{TagInPlaceUpdate},
		Summary: "Called to learn what of a change to the machines of a MachineSet can be made in place.",
		Description: "`current` is an old MachineSet with the templates of its machines, `desired` the new one; there may be no bootstrap template. " +
			"The answer patches `current` by what the extension can change on running machines; an empty patch changes nothing. " +
			"If current and patches make up desired, in `spec`, machines are moved to the new MachineSet and updated through UpdateMachine, otherwise replaced. The extension must not change anything yet. " + one +
			"The objects are sent without `status`.",
	}, {
		Func: hooksv1.UpdateMachine, MustAnswer: true, Tags: []string{TagInPlaceUpdate},
		Summary: "Called again and again to update a machine in place, until it is done.",
		Description: "`desired` is the Machine with its infrastructure and bootstrap objects as they should be, as agreed in CanUpdateMachine or CanUpdateMachineSet. " +
			"The first call starts the update; with `retryAfterSeconds` of more than 0 it continues, and the extension is called again after that time. With 0 it is complete. " +
			"A call must therefore be quick, and find an update that has started. " +
			"The status `Failure` means that the update failed permanently: the Machine is marked, and may be replaced. " + one +
			"The objects are sent without `status`.",
	}}
}

func plan() []Hook {
	return []Hook{{
		Func: hooksv1.GenerateUpgradePlan, Cacheable: true, Tags: []string{TagUpgradePlan},
		Summary: "Called to learn which versions an upgrade goes through.",
		Description: "The ClusterClass names the handler in `spec.upgrade.external`. " +
			"The answer lists the versions the control plane goes through, in order, one minor version at a time, up to `toKubernetesVersion`; and those among them that the workers go through, the last being the same. " +
			"`fromWorkersKubernetesVersion` is the oldest among the workers, or empty if there are none; then there are no steps for them. " +
			"The answer is kept for some minutes: it must depend only on the request. " +
			"With the status `Failure` the upgrade does not start, and `message` gives the reason to the user. " + asSent,
	}}
}
