// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// fakeKinds are what the provider of these tests reconciles.
var fakeKinds = []string{"FakeCluster", "FakeMachine", "FakeConfig", "FakeControlPlane", "FakeMachinePool"}

// made is the goal of an object of a kind.
type made struct {
	done   []string // the field that reports it
	spec   func(o *one)
	status func(o *one)
}

// kind is the goal of the object's kind.
func (o *one) kind() made {
	field := func(now, before string) []string {
		if o.older {
			return []string{"status", before}
		}
		return []string{"status", "initialization", now}
	}
	return map[string]made{
		"FakeCluster":      {field("provisioned", "ready"), clusterSpec, clusterStatus},
		"FakeMachine":      {field("provisioned", "ready"), machineSpec, machineStatus},
		"FakeConfig":       {field("dataSecretCreated", "ready"), nothing, configStatus},
		"FakeControlPlane": {field("controlPlaneInitialized", "initialized"), controlPlaneSpec, controlPlaneStatus},
		"FakeMachinePool":  {field("provisioned", "ready"), poolSpec, poolStatus},
	}[o.obj.GetKind()]
}

// doneBefore is on what was done once.
const doneBefore = "example.com/done"

// live reconciles an object of the kind.
func (o *one) live(ctx context.Context) error {
	if ready, err := o.ready(ctx); !ready || err != nil {
		return err
	}
	const lost = "example.com/lost"
	kind := o.kind()
	was := o.obj.GetAnnotations()[doneBefore] != ""
	now, _, _ := unstructured.NestedBool(o.obj.Object, kind.done...)
	if was && !now && o.is("loses its status") {
		return nil
	}
	if err := o.save(ctx, func() {
		kind.spec(o)
		if was && !now && o.is("names another Secret") {
			o.annotate("example.com/again")
		}
		if was && !now && o.is("changes its provider ID") {
			o.set("fake://another", "spec", "providerID")
		}
		if was && !now && o.is("changes its endpoint") {
			o.set("10.0.0.2", "spec", "controlPlaneEndpoint", "host")
		}
	}); err != nil {
		return err
	}
	if err := errors.Join(o.dependents(ctx), o.meddle(ctx)); err != nil {
		return err
	}
	if err := o.saveStatus(ctx, func() {
		o.set(true, kind.done...)
		kind.status(o)
		name := clusterv1.ReadyCondition
		if o.obj.GetKind() == "FakeControlPlane" {
			name = clusterv1.AvailableCondition
		}
		switch {
		case o.is("has no condition"):
		case o.is("has a condition that says Yes"):
			o.conditionSays(name, "Yes")
		default:
			o.condition(name, true)
		}
	}); err != nil {
		return err
	}
	if err := o.save(ctx, func() { o.annotate(doneBefore) }); err != nil || o.obj.GetAnnotations()[lost] != "" || !o.is("takes it back") {
		return err
	}
	if err := o.save(ctx, func() { o.annotate(lost) }); err != nil {
		return err
	}
	return o.saveStatus(ctx, func() {
		o.set(false, kind.done...)
		unstructured.RemoveNestedField(o.obj.Object, "status", "ready")
	})
}

// meddle writes to objects that do not belong to the provider.
func (o *one) meddle(ctx context.Context) error {
	if o.is("writes to its owner") && len(o.cluster.Labels) > 0 {
		before := o.cluster.DeepCopy()
		o.cluster.Labels = nil
		return o.client.Patch(ctx, o.cluster, client.MergeFrom(before))
	}
	return nil
}

// ready reports whether everything that the object waits for exists.
func (o *one) ready(context.Context) (bool, error) {
	infra := o.cluster.Status.Initialization.InfrastructureProvisioned
	if o.machine == nil {
		return o.obj.GetKind() != "FakeControlPlane" || infra != nil, nil
	}
	if (infra == nil || !*infra) && !o.is("does not wait for infrastructure") {
		return false, nil
	}
	return o.obj.GetKind() == "FakeConfig" || o.machine.Spec.Bootstrap.DataSecretName != nil || o.is("does not wait for data"), nil
}

func clusterSpec(o *one) {
	switch {
	case o.is("has no endpoint"):
	case o.is("has an endpoint without a port"):
		o.set(map[string]any{"host": "10.0.0.1"}, "spec", "controlPlaneEndpoint")
	default:
		o.set(map[string]any{"host": "10.0.0.1", "port": int64(6443)}, "spec", "controlPlaneEndpoint")
	}
}

func clusterStatus(o *one) {
	if o.older {
		o.set(map[string]any{"a": map[string]any{"controlPlane": true}}, "status", "failureDomains")
		return
	}
	domains := []any{map[string]any{"name": "a", "controlPlane": true}, map[string]any{"name": "b"}}
	if o.is("names a failure domain twice") {
		domains[1] = domains[0]
	}
	o.set(domains, "status", "failureDomains")
}

func providerID(obj client.Object) string {
	return "fake://" + obj.GetNamespace() + "/" + obj.GetName()
}

func machineSpec(o *one) {
	id := providerID(o.obj)
	switch {
	case text(o.obj, "spec", "providerID") != "":
		return
	case o.is("has no provider ID"):
		return
	case o.is("has the provider ID of all"):
		id = sameID
	case o.is("has another provider ID than its Node"):
		id += "-other"
	}
	o.set(id, "spec", "providerID")
}

func machineStatus(o *one) {
	address := "InternalIP"
	if o.is("has an address of no type") {
		address = "Street"
	}
	at := "10.0.0.9"
	if size, _, _ := unstructured.NestedInt64(o.obj.Object, "spec", "size"); size > 0 && o.is("is replaced after a change") {
		at = "10.0.0.10"
	}
	o.set([]any{map[string]any{"type": address, "address": at}}, "status", "addresses")
	domain := o.machine.Spec.FailureDomain
	if o.is("is in another failure domain") {
		domain = "nowhere"
	}
	if domain != "" {
		o.set(domain, "status", "failureDomain")
	}
}

func poolIDs(o *one) (ids []any) {
	n := *o.pool.Spec.Replicas
	if o.is("does not follow") {
		n = 1
	}
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s/%d", providerID(o.obj), i))
	}
	return ids
}

func poolSpec(o *one) {
	ids := poolIDs(o)
	if o.is("lists an instance twice") {
		ids = append(ids, ids[0])
	}
	o.set(ids, "spec", "providerIDList")
}

func poolStatus(o *one) {
	ids := poolIDs(o)
	if !o.is("says it in one way") {
		o.set(true, "status", "ready")
	}
	if !o.is("does not count") {
		o.set(int64(len(ids)), "status", "replicas")
	}
	if o.is("reports a foreign instance") {
		ids = append(ids, "fake://foreign")
	}
	var instances []any
	for _, id := range ids {
		instances = append(instances, map[string]any{"providerID": id})
	}
	o.set(instances, "status", "instances")
	o.set("FakeMachine", "status", "infrastructureMachineKind")
}

func text(obj *unstructured.Unstructured, path ...string) string {
	if obj == nil {
		return ""
	}
	v, _, _ := unstructured.NestedString(obj.Object, path...)
	return v
}
