// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
	"github.com/capstan-dev/capstan/contract"
)

func infraCluster() *role {
	return &role{
		name: "InfraCluster", page: "infracluster.md", suffix: "Cluster", optional: true,
		of: func(c Config) *Subject { return c.InfraCluster },
		promises: []definition.Promise{
			{Path: "spec.controlPlaneEndpoint", Type: "object", Must: true},
			{Path: "spec.controlPlaneEndpoint.host", Type: "string", Must: true},
			{Path: "spec.controlPlaneEndpoint.port", Type: "integer", Must: true},
			{Path: "status.initialization.provisioned", Type: "boolean", Must: true, In: contract.V1Beta2},
			{Path: "status.ready", Type: "boolean", Must: true, In: contract.V1Beta1},
			{Path: "status.failureDomains", Type: "array", In: contract.V1Beta2},
			{Path: "status.failureDomains.*.name", Type: "string", In: contract.V1Beta2},
			{Path: "status.failureDomains", Type: "object", In: contract.V1Beta1},
			{Path: "status.failureDomains.*.controlPlane", Type: "boolean"},
			{Path: "status.failureDomains.*.attributes", Type: "object"},
		},
		done: func(version string) (contract.Field[bool], error) {
			c, err := contract.InfraClusterFor(version)
			return c.Provisioned, err
		},
		own: func(ctx context.Context, s *subject) error {
			return makeCluster(ctx, s.World, clusterKey.Name, map[string]any{"infrastructureRef": refTo(s.Main)})
		},
		disown: func(ctx context.Context, s *subject) error { return s.World.Delete(ctx, clusterKey) },
		checks: infraClusterChecks,
	}
}

func infraClusterChecks(r *role) []check {
	return slices.Concat(r.definitions(), r.beginning("Cluster", "provisioned"), []check{
		r.finalizer("provisioned"),
		r.say("A provisioned X has the endpoint of the control plane.",
			"spec.controlPlaneEndpoint with a host of at most 512 characters and a port from 1 to 65535, from the moment on in which it is provisioned. A provider that leaves the endpoint to others has it in the example.",
			check{remedy: "Write spec.controlPlaneEndpoint before, or together with, what says that it is provisioned.", live: true, test: endpointThere}),
		r.say("The failure domains of an X have names of their own.",
			"At most 100, each with a name of 1 to 256 characters that no other has. Without failure domains nothing is reported.",
			check{remedy: "Report each failure domain once.", live: true, test: domainsNamed}),
	}, r.middle(contract.ReadyCondition), []check{
		r.say("An X that is managed from elsewhere is left alone.",
			"One with the annotation cluster.x-k8s.io/managed-by: its manager sets its endpoint and reports when it is provisioned.",
			check{Check: advice, remedy: "End the reconcile when the annotation is there, before anything is written.", live: true, test: managedLeftAlone}),
	}, r.end("Cluster"), []check{
		r.say("The endpoint of an X does not change.",
			"Not by a pause or a move either: certificates, Nodes and users know it.",
			check{remedy: "Set spec.controlPlaneEndpoint once.", live: true, test: endpointKept}),
	})
}

// refTo refers to an object, as Clusters and Machines do.
func refTo(t thing) map[string]any {
	return map[string]any{"apiGroup": t.Group, "kind": t.Kind, "name": t.Name}
}

// makeCluster creates a Cluster.
func makeCluster(ctx context.Context, w *testnamespace.World, name string, spec map[string]any) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(clusterv1.GroupVersion().WithKind("Cluster"))
	_, err := w.Make(ctx, obj, name)
	return err
}

func endpointThere(_ context.Context, s *subject) error {
	all, err := s.AtDone()
	if err != nil {
		return err
	}
	c, err := contract.InfraClusterFor(s.kind.Contract)
	if err != nil {
		return err
	}
	at, ok, err := c.ControlPlaneEndpoint.Get(all[0])
	switch {
	case err != nil:
		return err
	case !ok || at.Host == "":
		return fmt.Errorf("%s of %s has no host", c.ControlPlaneEndpoint, s.Main)
	case len(at.Host) > 512:
		return fmt.Errorf("the host of %s has %d characters", s.Main, len(at.Host))
	case at.Port < 1 || at.Port > 65535:
		return fmt.Errorf("the port of %s is %d", s.Main, at.Port)
	}
	return nil
}

var endpointKept = kept("spec.controlPlaneEndpoint", func(obj *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedMap(obj.Object, "spec", "controlPlaneEndpoint")
	return objectchecks.JSON(at)
})

func domainsNamed(_ context.Context, s *subject) error {
	obj, err := s.Now()
	if err != nil {
		return err
	}
	c, err := contract.InfraClusterFor(s.kind.Contract)
	if err != nil {
		return err
	}
	domains, ok, err := c.FailureDomains.Get(obj)
	if err != nil {
		return err
	}
	if !ok || len(domains) == 0 {
		return conformance.Skip("%s reports no failure domains", s.Main)
	}
	if len(domains) > 100 {
		return fmt.Errorf("%s reports %d failure domains, more than 100", s.Main, len(domains))
	}
	seen := map[string]bool{}
	for _, d := range domains {
		if d.Name == "" || len(d.Name) > 256 || seen[d.Name] {
			return fmt.Errorf("%s reports a failure domain %q, which is no name of its own", s.Main, d.Name)
		}
		seen[d.Name] = true
	}
	return nil
}

func managedLeftAlone(ctx context.Context, s *subject) error {
	managed := thing{GroupKind: s.kind.GroupKind, Name: "managed"}
	_, err := s.World.Make(ctx, s.Example, managed.Name, func(obj *unstructured.Unstructured) {
		testnamespace.Annotate(obj, clusterv1.ManagedByAnnotation, testnamespace.BySuite)
	})
	if err != nil {
		return err
	}
	if err := makeCluster(ctx, s.World, managed.Name, map[string]any{"infrastructureRef": refTo(managed)}); err != nil {
		return err
	}
	if err := s.AwaitOwner(ctx, managed); err != nil {
		return conformance.Skip("%w", err)
	}
	if err := s.Unreconciled(ctx, managed); err != nil {
		return err
	}
	if obj := s.World.Latest(managed); obj != nil && len(obj.GetFinalizers()) > 0 {
		return fmt.Errorf("it got the finalizers %s", strings.Join(obj.GetFinalizers(), ", "))
	}
	return s.World.Delete(ctx, thing{GroupKind: clusterKey.GroupKind, Name: managed.Name})
}
