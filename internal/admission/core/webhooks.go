// SPDX-License-Identifier: Apache-2.0

// Package core defaults and validates the kinds of the core provider: those of
// cluster.x-k8s.io except Clusters and ClusterClasses, which are in package topology,
// and those of the groups addons, ipam and runtime. The functions are pure; Webhooks
// and its siblings list when each is called.
package core

import (
	"strings"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// Webhooks returns the webhooks for the kinds of this package. Each is called only
// for writes that it could default or refuse: objects written by controllers are
// complete, and most of those writes do not change spec.
func Webhooks() []webhook.Webhook {
	return []webhook.Webhook{
		webhook.Default(target("Machine", "machines", lacking(machineLacks)), DefaultMachine),
		webhook.Check(target("Machine", "machines", doubtful(machineDoubtful)), ValidateMachine),

		webhook.Default(target("MachineSet", "machinesets", lacking(machineSetLacks)), DefaultMachineSet),
		webhook.Check(target("MachineSet", "machinesets", changedOrAnnotated), ValidateMachineSet),

		webhook.Default(target("MachineDeployment", "machinedeployments", lacking("("+webhook.LacksFinalizer(clusterv1.MachineDeploymentFinalizer)+") || "+machineDeploymentLacks)), DefaultMachineDeployment),
		webhook.Check(target("MachineDeployment", "machinedeployments", changedOrAnnotated), ValidateMachineDeployment),

		webhook.Default(target("MachinePool", "machinepools", lacking(machinePoolLacks)), DefaultMachinePool),
		webhook.Check(target("MachinePool", "machinepools", changedOrAnnotated), ValidateMachinePool),

		webhook.Default(target("MachineHealthCheck", "machinehealthchecks", lacking(healthCheckLacks)), DefaultMachineHealthCheck),
		webhook.Check(target("MachineHealthCheck", "machinehealthchecks", changed), ValidateMachineHealthCheck),

		webhook.Check(target("MachineDrainRule", "machinedrainrules", changed), ValidateMachineDrainRule),
	}
}

// Conditions under which an API server calls a webhook. A test compares each
// condition for defaulting with its function. Any field may be missing, even a
// required one: defaulting is called for objects of an older version before they
// are validated, and a condition that fails refuses the object without a reason.
var (
	changed = map[string]string{"spec-changed": webhook.SpecChanged}

	// changedOrAnnotated is for groups of machines. Those of a MachineDeployment get its
	// annotations: what is refused for them must be refused for it.
	changedOrAnnotated = map[string]string{"spec-or-annotation-changed": webhook.SpecChanged +
		` || ['` + strings.Join(checkedAnnotations, `', '`) + `'].exists(key, object.metadata.?annotations[?key].orValue('')` +
		` != oldObject.metadata.?annotations[?key].orValue(''))`}
)

// doubtful is for kinds with many objects: validation is called for a changed spec
// only if the spec could be invalid.
func doubtful(condition string) map[string]string {
	return map[string]string{"spec-changed": webhook.SpecChanged, "could-be-wrong": condition}
}

func lacking(condition string) map[string]string {
	return map[string]string{"defaults-missing": condition}
}

const (
	lacksLabel = `object.metadata.?labels[?'cluster.x-k8s.io/cluster-name'].orValue('') != object.?spec.?clusterName.orValue('')`

	machineLacks = lacksLabel +
		` || !object.?spec.?deletion.?nodeDeletionTimeoutSeconds.hasValue()` +
		` || !object.?spec.?version.orValue('v').startsWith('v')`

	machineDoubtful = `!object.?spec.?bootstrap.?configRef.hasValue() || object.?spec.?taints.hasValue()` +
		` || !object.?spec.?infrastructureRef.?apiGroup.orValue('').startsWith('infrastructure.')` +
		` || !object.?spec.?bootstrap.?configRef.?apiGroup.orValue('').startsWith('bootstrap.')` +
		` || object.?spec.?infrastructureRef.?kind.orValue('').endsWith('Template')` +
		` || object.?spec.?bootstrap.?configRef.?kind.orValue('').endsWith('Template')` +
		` || !object.?spec.?version.orValue('v1.0.0').matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)$')` +
		` || (oldObject != null && object.?spec.?clusterName != oldObject.?spec.?clusterName)`

	templateLacks = ` || !object.?spec.?replicas.hasValue()` +
		` || !object.?spec.?template.?spec.?version.orValue('v').startsWith('v')`

	machineSetLacks = lacksLabel + templateLacks +
		` || size(object.?spec.?selector.?matchLabels.orValue({})) + size(object.?spec.?selector.?matchExpressions.orValue([])) == 0`

	machineDeploymentLacks = lacksLabel + templateLacks +
		` || object.?spec.?selector.?matchLabels[?'cluster.x-k8s.io/cluster-name'].orValue('') != object.?spec.?clusterName.orValue('')` +
		` || object.?spec.?template.?metadata.?labels[?'cluster.x-k8s.io/cluster-name'].orValue('') != object.?spec.?clusterName.orValue('')` +
		` || object.?spec.?rollout.?strategy.?type.orValue('') == ''` +
		` || (object.spec.rollout.strategy.type == 'RollingUpdate'` +
		` && !(object.spec.rollout.strategy.?rollingUpdate.?maxSurge.hasValue() && object.spec.rollout.strategy.?rollingUpdate.?maxUnavailable.hasValue()))`

	machinePoolLacks = lacksLabel + templateLacks +
		` || !object.?spec.?template.?spec.?deletion.?nodeDeletionTimeoutSeconds.hasValue()`

	healthCheckLacks = lacksLabel + ` || !object.?spec.?checks.?nodeStartupTimeoutSeconds.hasValue()`
)

func target(kind, resource string, when map[string]string) webhook.Target {
	return webhook.Target{Kind: clusterv1.GroupVersion().WithKind(kind), Resource: resource, When: when}
}
