// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/contract"
)

// poolKey is the MachinePool of the main object.
var poolKey = thing{GroupKind: clusterv1.GroupVersion().WithKind("MachinePool").GroupKind(), Name: "conformance"}

func infraMachinePool() *role {
	return &role{
		name: "InfraMachinePool", page: "inframachinepool.md", suffix: "MachinePool", optional: true,
		of: func(c Config) *Subject { return c.InfraMachinePool },
		promises: []definition.Promise{
			{Path: "spec.providerIDList", Type: "array", Must: true},
			{Path: "spec.providerID", Type: "string"},
			{Path: "status.ready", Type: "boolean", Must: true, Or: "status.initialization.provisioned"},
			{Path: "status.initialization.provisioned", Type: "boolean"},
			{Path: "status.replicas", Type: "integer", Must: true},
			{Path: "status.infrastructureMachineKind", Type: "string"},
			{Path: "status.instances", Type: "array"},
			{Path: "status.instances.*.providerID", Type: "string"},
			{Path: "status.instances.*.instanceName", Type: "string"},
			{Path: "status.instances.*.addresses", Type: "array"},
			{Path: "status.instances.*.version", Type: "string"},
			{Path: "status.instances.*.ready", Type: "boolean"},
		},
		done: func(version string) (contract.Field[bool], error) {
			c, err := contract.InfraMachinePoolFor(version)
			return c.Provisioned, err
		},
		either: contract.InfraMachinePool{}.IsProvisioned,
		own:    ownPool,
		disown: func(ctx context.Context, s *subject) error { return s.World.Delete(ctx, poolKey) },
		checks: infraMachinePoolChecks,
	}
}

func infraMachinePoolChecks(r *role) []check {
	return slices.Concat(r.definitions(), r.beginning("MachinePool", "provisioned"), []check{
		r.finalizer("provisioned"),
		r.say("A provisioned X reports it in the fields of both versions of the contract.",
			"status.ready and status.initialization.provisioned are true: core controllers of either kind are about.",
			check{Check: advice, remedy: "Set both fields together.", live: true, test: saidTwice}),
		r.say("An X lists the provider IDs of its instances.",
			"spec.providerIDList comes to have as many IDs as the MachinePool has replicas; none is empty, none is there twice.",
			check{remedy: "Write the list again when instances are created or deleted.", live: true, test: idsListed}),
		r.say("An X counts its instances.",
			"status.replicas comes to be the replicas of the MachinePool.",
			check{remedy: "Count the instances that there are at each reconcile, and report zero too.", live: true, test: instancesCounted}),
		r.say("The instances that an X reports are those of its list.",
			"Each of status.instances has a provider ID of spec.providerIDList, and addresses of types that there are. An X without status.instances need not.",
			check{remedy: "Fill list and instances from the same observation.", live: true, test: instancesListed}),
		r.say("An X that names a kind of machines has one for each instance.",
			"Objects of the kind in status.infrastructureMachineKind, with the labels cluster.x-k8s.io/cluster-name and cluster.x-k8s.io/pool-name. Without the field it has none.",
			check{remedy: "Create an infrastructure machine when an instance comes, and delete it when it has gone.", live: true, test: machinesMade}),
	}, r.middle(contract.ReadyCondition), []check{
		r.rehearsal(),
		r.say("An X follows the replicas of its MachinePool.",
			"To one more and back, with its list, its count, and its objects for machines if it has any.",
			check{remedy: "Watch the MachinePool, and compare its replicas with the instances.", live: true, test: replicasFollowed}),
	}, r.end("MachinePool"))
}

// ownPool creates a MachinePool of a Cluster, whose control plane is that of the
// config if it has one, so that instances can join it.
func ownPool(ctx context.Context, s *subject) error {
	makeCluster := s.provisionedCluster
	if cp := s.config.ControlPlane; cp != nil && cp.Example != nil {
		makeCluster = func(ctx context.Context) error { return s.initialized(ctx, clusterKey.Name) }
	}
	if err := makeCluster(ctx); err != nil {
		return err
	}
	bootstrap, err := s.bootstrap(ctx, s.Main.Name)
	if err != nil {
		return err
	}
	pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": clusterKey.Name, "replicas": int64(1),
		"template": map[string]any{"spec": map[string]any{
			"clusterName": clusterKey.Name, "version": s.config.KubernetesVersion, "infrastructureRef": refTo(s.Main), "bootstrap": bootstrap,
		}},
	}}}
	pool.SetGroupVersionKind(clusterv1.GroupVersion().WithKind(poolKey.Kind))
	if _, err := s.World.Make(ctx, pool, poolKey.Name); err != nil {
		return err
	}
	return s.World.Await(ctx, func() error {
		if objectchecks.Text(s.World.Latest(poolKey), "spec", "template", "spec", "bootstrap", "dataSecretName") == "" {
			return errors.New("there is no bootstrap data for the MachinePool")
		}
		return nil
	})
}

func saidTwice(ctx context.Context, s *subject) error {
	return s.World.Within(ctx, s.World.Limits.Soon, func() error {
		obj := objectOf(s.World.Latest(s.Main))
		ready, _, _ := unstructured.NestedBool(obj, "status", "ready")
		provisioned, _, _ := unstructured.NestedBool(obj, "status", "initialization", "provisioned")
		if !ready || !provisioned {
			return fmt.Errorf("status.ready is %t, status.initialization.provisioned is %t", ready, provisioned)
		}
		return nil
	})
}

// wantedInstances are the replicas of the MachinePool.
func (s *subject) wantedInstances() int64 {
	n, _, _ := unstructured.NestedInt64(objectOf(s.World.Latest(poolKey)), "spec", "replicas")
	return n
}

func (s *subject) listed() error {
	ids, _, err := unstructured.NestedStringSlice(objectOf(s.World.Latest(s.Main)), "spec", "providerIDList")
	if err != nil {
		return err
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(ids)))
	if want := s.wantedInstances(); int64(len(ids)) != want || len(distinct) != len(ids) || slices.Contains(ids, "") {
		return fmt.Errorf("spec.providerIDList is %q, and the MachinePool has %d replicas", ids, want)
	}
	return nil
}

func (s *subject) counted() error {
	n, ok, err := unstructured.NestedInt64(objectOf(s.World.Latest(s.Main)), "status", "replicas")
	if want := s.wantedInstances(); err != nil || !ok || n != want {
		return errors.Join(err, fmt.Errorf("status.replicas is %d, and the MachinePool has %d replicas", n, want))
	}
	return nil
}

func idsListed(ctx context.Context, s *subject) error        { return s.World.Await(ctx, s.listed) }
func instancesCounted(ctx context.Context, s *subject) error { return s.World.Await(ctx, s.counted) }

func instancesListed(ctx context.Context, s *subject) error {
	if _, ok, err := unstructured.NestedSlice(objectOf(s.World.Latest(s.Main)), "status", "instances"); err != nil || !ok {
		return errors.Join(err, conformance.Skip("%s reports no instances", s.Main))
	}
	return s.World.Within(ctx, s.World.Limits.Soon, s.instancesInList) // spec and status are two writes
}

func (s *subject) instancesInList() error {
	obj := objectOf(s.World.Latest(s.Main))
	instances, _, err := unstructured.NestedSlice(obj, "status", "instances")
	if err != nil {
		return err
	}
	ids, _, _ := unstructured.NestedStringSlice(obj, "spec", "providerIDList")
	for _, one := range instances {
		i, _ := one.(map[string]any)
		if id, ok := i["providerID"].(string); ok && !slices.Contains(ids, id) {
			return fmt.Errorf("the instance %s is not in spec.providerIDList %q", objectchecks.JSON(one), ids)
		}
		addresses, _, err := unstructured.NestedSlice(i, "addresses")
		if err := errors.Join(err, addressTypes(addresses)); err != nil {
			return fmt.Errorf("the instance %s: %w", objectchecks.JSON(one), err)
		}
	}
	return nil
}

func machinesMade(ctx context.Context, s *subject) error {
	mapping, err := s.kindOfMachines()
	if err != nil {
		return err
	}
	return s.World.Await(ctx, func() error { return s.eachHasMachine(ctx, mapping.GroupVersionKind) })
}

// kindOfMachines is what the pool names as the kind of its machines.
func (s *subject) kindOfMachines() (*meta.RESTMapping, error) {
	kind := objectchecks.Text(s.World.Latest(s.Main), "status", "infrastructureMachineKind")
	if kind == "" {
		return nil, conformance.Skip("%s names no kind of machines", s.Main)
	}
	mapping, err := s.World.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: s.kind.Group, Kind: kind})
	if err != nil {
		return nil, fmt.Errorf("status.infrastructureMachineKind: %w", err)
	}
	s.World.Follow(mapping.GroupVersionKind)
	return mapping, nil
}

func (s *subject) eachHasMachine(ctx context.Context, kind schema.GroupVersionKind) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := s.World.Client.List(ctx, list, client.InNamespace(s.World.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterKey.Name, clusterv1.MachinePoolNameLabel: poolKey.Name,
	}); err != nil {
		return fmt.Errorf("list the machines of the pool: %w", err)
	}
	if want := s.wantedInstances(); int64(len(list.Items)) != want {
		return fmt.Errorf("there are %d objects of kind %s with the labels of the pool, and the MachinePool has %d replicas", len(list.Items), kind.Kind, want)
	}
	return nil
}

func replicasFollowed(ctx context.Context, s *subject) error {
	if err := errors.Join(s.listed(), s.counted()); err != nil {
		return conformance.Skip("%w", err)
	}
	followed := func() error { return errors.Join(s.listed(), s.counted()) }
	if machines, err := s.kindOfMachines(); err == nil && s.eachHasMachine(ctx, machines.GroupVersionKind) == nil {
		followed = func() error {
			return errors.Join(s.listed(), s.counted(), s.eachHasMachine(ctx, machines.GroupVersionKind))
		}
	}
	for _, n := range []int64{2, 1} {
		if err := s.World.Change(ctx, poolKey, func(obj *unstructured.Unstructured) { set(obj, n, "spec", "replicas") }); err != nil {
			return err
		}
		if err := s.World.Await(ctx, followed); err != nil {
			return err
		}
	}
	return nil
}
