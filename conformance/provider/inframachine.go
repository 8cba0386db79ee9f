// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
	"github.com/capstan-dev/capstan/contract"
)

func infraMachine() *role {
	return &role{
		name: "InfraMachine", page: "inframachine.md", suffix: "Machine",
		of: func(c Config) *Subject { return c.InfraMachine },
		promises: []definition.Promise{
			{Path: "spec.providerID", Type: "string", Must: true},
			{Path: "status.initialization.provisioned", Type: "boolean", Must: true, In: contract.V1Beta2},
			{Path: "status.ready", Type: "boolean", Must: true, In: contract.V1Beta1},
			{Path: "status.addresses", Type: "array"},
			{Path: "status.addresses.*.type", Type: "string"},
			{Path: "status.addresses.*.address", Type: "string"},
			{Path: "status.failureDomain", Type: "string"},
			{Path: "spec.failureDomain", Type: "string", In: contract.V1Beta1},
			{Path: "status.interruptible", Type: "boolean"},
		},
		done: func(version string) (contract.Field[bool], error) {
			c, err := contract.InfraMachineFor(version)
			return c.Provisioned, err
		},
		own:    ownMachine,
		disown: func(ctx context.Context, s *subject) error { return s.World.Delete(ctx, machineNamed(s.Main.Name)) },
		checks: infraMachineChecks,
	}
}

func infraMachineChecks(r *role) []check {
	return slices.Concat(r.definitions(), r.beginning("Machine", "provisioned"), []check{
		r.finalizer("provisioned"),
		r.say("A provisioned X has a provider ID.",
			"spec.providerID, of 1 to 512 characters, from the moment on in which it is provisioned.",
			check{remedy: "Write spec.providerID before, or together with, what says that it is provisioned.", live: true, test: providerIDThere}),
		r.say("The provider ID of an X is that of its Node.",
			"spec.providerID of the Node, letter by letter: this is how the Node is found. It can be seen when a machine becomes a Node, so with bootstrap data from a bootstrap config of the config.",
			check{remedy: "Have the cloud provider, or the kubelet, set the same ID.", live: true, test: providerIDOfNode}),
		r.say("No two Xs have the same provider ID.",
			"Seen by a second Machine of the Cluster.",
			check{remedy: "Make the ID of what identifies the machine for the infrastructure.", live: true, test: providerIDUnique}),
		r.say("The addresses of an X are of types that there are.",
			"Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS, each with an address. Without addresses nothing is reported.",
			check{remedy: "Report only addresses that are known, with one of these types.", live: true, test: addressesTyped}),
		r.say("An X is in the failure domain of its Machine.",
			"What it reports in status.failureDomain is spec.failureDomain of the Machine. It can be seen with an InfraCluster in the config that reports failure domains.",
			check{remedy: "Place the machine where spec.failureDomain of the Machine says.", live: true, test: domainHonoured}),
	}, r.middle(contract.ReadyCondition), []check{
		r.say("An X waits for the infrastructure of its Cluster.",
			"As long as status.initialization.infrastructureProvisioned of the Cluster is not true.",
			check{remedy: "Check the status of the Cluster before the machine is created.", live: true, test: waitsForInfrastructure}),
		r.say("An X waits for bootstrap data.",
			"As long as spec.bootstrap.dataSecretName of its Machine is not set.",
			check{remedy: "Look for the name of the Secret before the machine is made.", live: true, test: waitsForData}),
		r.say("An X that waits for bootstrap data can be deleted.",
			"With its Machine: the data may never come.",
			check{remedy: "Look whether the object is being deleted before anything is waited for.", live: true, test: goesWithoutData}),
		r.rehearsal(),
		r.say("A change of an X makes no other machine of it.",
			"An update in place changes the spec of the X of a machine that is there, and is made by the extension for it: what it is provisioned as, its provider ID and its addresses stay. It can be seen with a change in the config.",
			check{Check: advice, remedy: "Read the spec when the machine is made, and not again.", live: true, test: machineKept}),
		r.say("An autoscaler can read what an XTemplate reports about its machines.",
			"status.capacity has quantities that are not negative; status.nodeInfo an architecture, one of amd64, arm64, s390x and ppc64le, and an operating system. Without them nothing scales from zero.",
			check{remedy: "Report capacity by the names of resources of Nodes, and nodeInfo by those of Go.", live: true, test: capacityReadable}),
	}, r.end("Machine"), []check{
		r.say("The provider ID of an X does not change.",
			"Not by a pause or a move either: a Node belongs to it.",
			check{remedy: "Set spec.providerID once.", live: true, test: providerIDKept}),
	})
}

func ownMachine(ctx context.Context, s *subject) error {
	if err := s.provisionedCluster(ctx); err != nil {
		return err
	}
	bootstrap, err := s.bootstrap(ctx, s.Main.Name)
	if err != nil {
		return err
	}
	spec := map[string]any{"infrastructureRef": refTo(s.Main), "bootstrap": bootstrap}
	if domains, _, _ := unstructured.NestedSlice(objectOf(s.World.Latest(clusterKey)), "status", "failureDomains"); len(domains) > 0 {
		first, _ := domains[len(domains)-1].(map[string]any)
		spec["failureDomain"] = first["name"]
	}
	if err := s.makeMachine(ctx, s.Main.Name, clusterKey.Name, spec, clusterv1.MachineControlPlaneLabel); err != nil {
		return err
	}
	return s.World.Await(ctx, func() error {
		if objectchecks.Text(s.World.Latest(machineNamed(s.Main.Name)), "spec", "bootstrap", "dataSecretName") == "" {
			return errors.New("there is no bootstrap data for the Machine")
		}
		return nil
	})
}

func providerIDThere(_ context.Context, s *subject) error {
	all, err := s.AtDone()
	if err != nil {
		return err
	}
	if id := objectchecks.Text(all[0], "spec", "providerID"); id == "" || len(id) > 512 {
		return fmt.Errorf("spec.providerID of %s was %q when it was provisioned", s.Main, id)
	}
	return nil
}

func providerIDUnique(ctx context.Context, s *subject) error {
	obj, err := s.Now()
	if err != nil {
		return err
	}
	if objectchecks.Text(obj, "spec", "providerID") == "" {
		return conformance.Skip("%s has none", s.Main)
	}
	second := thing{GroupKind: s.kind.GroupKind, Name: "second"}
	if err := s.secondMachine(ctx, second); err != nil {
		return conformance.Skip("a second machine does not get so far: %w", err)
	}
	if id := objectchecks.Text(obj, "spec", "providerID"); id == objectchecks.Text(s.World.Latest(second), "spec", "providerID") {
		return fmt.Errorf("%s and %s have the provider ID %q", s.Main, second, id)
	}
	return nil
}

// secondMachine creates another machine of the Cluster, a worker, and waits for
// it.
func (s *subject) secondMachine(ctx context.Context, t thing) error {
	if _, err := s.World.Make(ctx, s.Example, t.Name); err != nil {
		return err
	}
	bootstrap, err := s.bootstrap(ctx, t.Name)
	if err != nil {
		return err
	}
	if err := s.makeMachine(ctx, t.Name, clusterKey.Name, map[string]any{"infrastructureRef": refTo(t), "bootstrap": bootstrap}); err != nil {
		return err
	}
	return s.AwaitDoneOf(ctx, t)
}

// machineKept changes the spec as an update in place does.
func machineKept(ctx context.Context, s *subject) error {
	obj, err := s.Now()
	if err != nil {
		return err
	}
	is := func(obj *unstructured.Unstructured) map[string]any {
		addresses, _, _ := unstructured.NestedSlice(obj.Object, "status", "addresses")
		done, err := s.IsDone(obj)
		return map[string]any{"spec.providerID": objectchecks.Text(obj, "spec", "providerID"), "status.addresses": addresses, "provisioned": done && err == nil}
	}
	before := is(obj)
	return s.changed(ctx, func() error {
		now, err := s.Now()
		if err != nil {
			return err
		}
		if is := is(now); !reflect.DeepEqual(before, is) {
			return fmt.Errorf("%s is another now: %s", s.Main, strings.Join(objectchecks.Differences(before, is, ""), ", "))
		}
		return nil
	})
}

var providerIDKept = kept("the provider ID", func(obj *unstructured.Unstructured) string {
	return strconv.Quote(objectchecks.Text(obj, "spec", "providerID"))
})

// providerIDOfNode compares with the Node that the Machine controller finds, or
// with the Nodes themselves.
func providerIDOfNode(ctx context.Context, s *subject) error {
	if objectchecks.Text(s.World.Latest(s.Main), "spec", "providerID") == "" {
		return conformance.Skip("%s has none", s.Main)
	}
	var others []string
	err := s.World.Await(ctx, func() error {
		if objectchecks.Text(s.World.Latest(machineNamed(s.Main.Name)), "status", "nodeRef", "name") != "" {
			return nil
		}
		id := objectchecks.Text(s.World.Latest(s.Main), "spec", "providerID")
		nodes, err := s.config.nodes(ctx, s.World)
		if err != nil {
			return err
		}
		others = nil
		for _, node := range nodes {
			if node.Spec.ProviderID == id {
				return nil
			}
			others = append(others, fmt.Sprintf("%q of %s", node.Spec.ProviderID, node.Name))
		}
		return fmt.Errorf("no Node has the provider ID %q", id)
	})
	if err != nil && len(others) == 0 {
		return conformance.Skip("the machine does not become a Node: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w; there are %s", err, strings.Join(others, ", "))
	}
	return nil
}

// nodesOf lists the Nodes of the Cluster, by the kubeconfig that is kept for it.
func nodesOf(ctx context.Context, w *testnamespace.World) ([]corev1.Node, error) {
	secret := &corev1.Secret{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: clusterKey.Name + "-kubeconfig"}, secret); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", secret.Name, err)
	}
	cfg.Timeout = w.Limits.Timeout
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	c, err := client.New(cfg, client.Options{Scheme: w.Client.Scheme(), Mapper: mapper})
	if err != nil {
		return nil, err
	}
	var list corev1.NodeList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return list.Items, nil
}

func addressesTyped(_ context.Context, s *subject) error {
	obj, err := s.Now()
	if err != nil {
		return err
	}
	list, ok, err := unstructured.NestedSlice(obj.Object, "status", "addresses")
	if err != nil || !ok || len(list) == 0 {
		return errors.Join(err, conformance.Skip("%s reports no addresses", s.Main))
	}
	if err := addressTypes(list); err != nil {
		return fmt.Errorf("%s: %w", s.Main, err)
	}
	return nil
}

func addressTypes(list []any) error {
	types := []any{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}
	for _, one := range list {
		a, _ := one.(map[string]any)
		if at, _ := a["address"].(string); !slices.Contains(types, a["type"]) || at == "" {
			return fmt.Errorf("the address %s has no type or address that there is", objectchecks.JSON(one))
		}
	}
	return nil
}

func domainHonoured(_ context.Context, s *subject) error {
	want := objectchecks.Text(s.World.Latest(machineNamed(s.Main.Name)), "spec", "failureDomain")
	got := objectchecks.Text(s.World.Latest(s.Main), "status", "failureDomain")
	switch {
	case want == "":
		return conformance.Skip("the Machine has no failure domain")
	case got == "":
		return conformance.Skip("%s reports no failure domain", s.Main)
	case got != want:
		return fmt.Errorf("%s is in failure domain %q, and the desired one of its Machine is %q", s.Main, got, want)
	}
	return nil
}

func waitsForInfrastructure(ctx context.Context, s *subject) error {
	return s.waits(ctx, "waiting", func(t thing) error {
		if err := s.waitingCluster(ctx); err != nil {
			return err
		}
		bootstrap, err := s.data(ctx, t.Name)
		if err != nil {
			return err
		}
		return s.makeMachine(ctx, t.Name, t.Name, map[string]any{"infrastructureRef": refTo(t), "bootstrap": bootstrap})
	})
}

// dataless is the machine whose bootstrap data never exists.
const dataless = "dataless"

func waitsForData(ctx context.Context, s *subject) error {
	return s.waits(ctx, dataless, func(t thing) error {
		return s.makeMachine(ctx, t.Name, clusterKey.Name, map[string]any{"infrastructureRef": refTo(t), "bootstrap": s.noBootstrap()})
	})
}

func goesWithoutData(ctx context.Context, s *subject) error {
	t := thing{GroupKind: s.kind.GroupKind, Name: dataless}
	if s.World.Latest(t) == nil {
		return conformance.Skip("%s is not there", t)
	}
	if err := s.World.Delete(ctx, machineNamed(t.Name)); err != nil {
		return err
	}
	return s.AwaitGone(ctx, t)
}
