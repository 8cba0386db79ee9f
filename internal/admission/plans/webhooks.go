// SPDX-License-Identifier: Apache-2.0

// Package plans has the webhooks by which a PlanGuard keeps Machines: a deletion, an
// update in place or a smaller MachinePool is admitted only if the plan has it.
//
// They read the guard past the cache: it holds from the moment it is stored.
package plans

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// purpose distinguishes these webhooks from those that default and validate.
const purpose = "plan"

// Conditions of the calls, in CEL.
const (
	exists       = `!oldObject.metadata.?deletionTimestamp.hasValue()`
	ofMachines   = `oldObject.metadata.?ownerReferences.orValue([]).exists(o, o.kind in ['Machine', 'MachinePool'])`
	shrinks      = `object.?spec.?replicas.orValue(0) < oldObject.?spec.?replicas.orValue(0)`
	fixed        = `!('` + clusterv1.ReplicasManagedByAnnotation + `' in object.metadata.?annotations.orValue({}))`
	users        = `!('` + clusterv1.ClusterTopologyOwnedLabel + `' in object.metadata.?labels.orValue({}))`
	requires     = `object.metadata.?annotations[?'` + planv1.RequirePlanAnnotation + `'].orValue('') == 'true'`
	updateBegins = `'` + clusterv1.UpdateInProgressAnnotation + `' in object.metadata.?annotations.orValue({}) && !('` + clusterv1.UpdateInProgressAnnotation + `' in oldObject.metadata.?annotations.orValue({}))`
)

// admission decides with the PlanGuards of a management cluster.
type admission struct {
	live client.Client // past the cache
	now  func() time.Time
}

// Webhooks returns the webhooks. live reads and writes the management cluster past the
// cache.
func Webhooks(live client.Client) []webhook.Webhook {
	a := &admission{live: live, now: time.Now}
	all := []webhook.Webhook{
		webhook.Validate(writes(on(planv1.GroupVersion().WithKind("PlanGuard"), "planguards", nil)), a.validate),
		webhook.Guard(writes(on(planv1.GroupVersion().WithKind("PlanGuard"), "planguards", nil)), a.release),
		webhook.Guard(writes(on(core("Machine"), "machines", map[string]string{"exists": exists})), a.deleteMachine),
		webhook.Validate(updates(on(core("Machine"), "machines", map[string]string{"update-begins": updateBegins})), a.updateMachine),
		webhook.Validate(updates(on(core("MachinePool"), "machinepools", map[string]string{"shrinks": shrinks, "fixed": fixed})), a.shrinkPool),
		webhook.Validate(updates(on(core("MachinePool"), "machinepools/scale", map[string]string{"shrinks": shrinks})), a.scalePool),
	}
	// Machines of providers of other groups are deleted by their controllers alone, after
	// the Machine.
	for _, of := range []struct {
		kind     schema.GroupVersionKind
		resource string
	}{
		{infrav1.GroupVersion().WithKind("LocalMachine"), "localmachines"},
		{infrav1.GroupVersion().WithKind("LocalMachinePool"), "localmachinepools"},
		{schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Kind: "Any"}, webhook.AnyResource},
	} {
		all = append(all, webhook.Guard(writes(on(of.kind, of.resource, map[string]string{"exists": exists, "of-machines": ofMachines})), a.deleteInfrastructure))
	}
	for _, of := range []struct {
		kind     schema.GroupVersionKind
		resource string
	}{
		{core("Cluster"), "clusters"}, {core("MachineDeployment"), "machinedeployments"}, {core("MachineSet"), "machinesets"}, {core("MachinePool"), "machinepools"},
		{controlplanev1.GroupVersion().WithKind("KubeadmControlPlane"), "kubeadmcontrolplanes"},
	} {
		all = append(all, webhook.Guard(writes(on(of.kind, of.resource, map[string]string{"exists": exists})), a.deleteOwner(of.kind.Kind)))
		if of.kind.Kind == "MachineSet" {
			continue // a MachineDeployment scales them
		}
		who := map[string]string{"spec-changed": webhook.SpecChanged, "users": users}
		if of.kind.Kind == "Cluster" {
			who = map[string]string{"spec-changed": webhook.SpecChanged, "required": requires}
		}
		target := on(of.kind, of.resource, who)
		target.Purpose = "required-plan"
		target.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
		all = append(all, webhook.Validate(target, a.change(of.kind.Kind)))
		if of.kind.Kind != "Cluster" {
			target.Resource += "/scale"
			target.When = map[string]string{"shrinks": shrinks}
			all = append(all, webhook.Validate(target, a.scale(of.kind)))
		}
	}
	return all
}

func core(kind string) schema.GroupVersionKind { return clusterv1.GroupVersion().WithKind(kind) }

func on(kind schema.GroupVersionKind, resource string, when map[string]string) webhook.Target {
	return webhook.Target{Kind: kind, Resource: resource, Purpose: purpose, When: when}
}

// writes is a target whose webhook records what it refuses.
func writes(t webhook.Target) webhook.Target {
	t.Writes = true
	return t
}

func updates(t webhook.Target) webhook.Target {
	t = writes(t)
	t.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	return t
}
