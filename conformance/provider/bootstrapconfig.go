// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/contract"
)

func bootstrapConfig() *role {
	return &role{
		name: "BootstrapConfig", page: "bootstrapconfig.md", suffix: "Config",
		of: func(c Config) *Subject { return c.BootstrapConfig },
		promises: []definition.Promise{
			{Path: "status.dataSecretName", Type: "string", Must: true},
			{Path: "status.initialization.dataSecretCreated", Type: "boolean", Must: true, In: contract.V1Beta2},
			{Path: "status.ready", Type: "boolean", Must: true, In: contract.V1Beta1},
		},
		done: func(version string) (contract.Field[bool], error) {
			c, err := contract.BootstrapConfigFor(version)
			return c.DataSecretCreated, err
		},
		own: func(ctx context.Context, s *subject) error {
			if err := s.provisionedCluster(ctx); err != nil {
				return err
			}
			return s.bootstrapped(ctx, s.Main, clusterKey.Name, clusterv1.MachineControlPlaneLabel)
		},
		disown: func(ctx context.Context, s *subject) error { return s.World.Delete(ctx, machineNamed(s.Main.Name)) },
		checks: bootstrapConfigChecks,
	}
}

func bootstrapConfigChecks(r *role) []check {
	return slices.Concat(r.definitions(), r.beginning("Machine", "ready"), []check{
		r.say("A ready X names the Secret with its data.",
			"status.dataSecretName, of 1 to 253 characters; the Secret is in its namespace, and its key value is not empty.",
			check{remedy: "Create the Secret before the status reports it.", live: true, vital: true, test: ofSecret(dataThere)}),
		r.say("The Secret of an X has the name of the Cluster on it.",
			"In the label cluster.x-k8s.io/cluster-name, by which a move takes it along.",
			check{remedy: "Set the label when the Secret is created.", live: true, test: ofSecret(dataLabelled)}),
		r.say("The Secret of an X belongs to it.",
			"By an owner reference that is the controller's, so that it goes when the X goes.",
			check{remedy: "Set the owner reference when the Secret is created.", live: true, test: ofSecret(dataOwned)}),
		r.say("The Secret of an X holds its data and their format alone.",
			"The keys are value and, if need be, format.",
			check{remedy: "Keep what else there is in a Secret of its own.", live: true, test: ofSecret(dataAlone)}),
		r.say("The data of an X leave a file behind when they have been run.",
			"/run/cluster-api/bootstrap-success.complete, or C:\\run\\cluster-api\\bootstrap-success.complete: infrastructure that can look into its machines sees by it that the bootstrap went well.",
			check{Check: advice, remedy: "Write the file as the last command.", live: true, test: ofSecret(sentinelLeft)}),
	}, r.middle(contract.ReadyCondition), []check{
		r.say("An X waits for the infrastructure of its Cluster.",
			"As long as status.initialization.infrastructureProvisioned of the Cluster is not true: before, the endpoint need not be known.",
			check{Check: advice, remedy: "Check the status of the Cluster before data are created.", live: true, test: configWaits}),
		r.say("The Nodes of workers are registered with a taint by an X.",
			"node.cluster.x-k8s.io/uninitialized:NoSchedule, which is taken away when they have their labels: before, Pods could be put where they must not be. It can be seen with a control plane in the config.",
			check{Check: advice, remedy: "Add the taint to what the kubelet of a worker registers with.", live: true, test: workersTainted}),
		r.rehearsal(),
		r.say("A change of an X makes no new data.",
			"An update in place changes the spec of the X of a machine that is there, and is made by the extension for it. It can be seen with a change in the config.",
			check{remedy: "Make data once, and leave them.", live: true, test: dataKept}),
	}, r.end("Machine"), []check{
		r.say("An X finds its Secret again.",
			"After its status was lost, status.dataSecretName is what it was, and the machine does not wait for other data.",
			check{remedy: "Compute the name of the Secret from that of the object.", live: true, test: dataFound}),
	})
}

// bootstrapped creates a Machine for a bootstrap config, whose infrastructure is
// never ready.
func (s *subject) bootstrapped(ctx context.Context, t thing, cluster string, labels ...string) error {
	return s.makeMachine(ctx, t.Name, cluster, map[string]any{"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MissingMachine", "name": missing}, "bootstrap": map[string]any{"configRef": refTo(t)}}, labels...)
}

// secret reads the Secret that the main object named when it was ready.
func (s *subject) secret(ctx context.Context) (*corev1.Secret, error) {
	all, err := s.AtDone()
	if err != nil {
		return nil, err
	}
	return s.secretNamed(ctx, all[0])
}

// secretNamed reads the Secret that a version of an object names.
func (s *subject) secretNamed(ctx context.Context, obj *unstructured.Unstructured) (*corev1.Secret, error) {
	name := objectchecks.Text(obj, "status", "dataSecretName")
	if name == "" || len(name) > 253 {
		return nil, fmt.Errorf("status.dataSecretName of %s is %q while it is ready", s.Main, name)
	}
	secret := &corev1.Secret{}
	if err := s.World.Client.Get(ctx, client.ObjectKey{Namespace: s.World.Namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("get the Secret that %s names: %w", s.Main, err)
	}
	return secret, nil
}

// ofSecret is a test of the Secret that the main object named when it was ready.
func ofSecret(test func(*subject, *corev1.Secret) error) func(context.Context, *subject) error {
	return func(ctx context.Context, s *subject) error {
		secret, err := s.secret(ctx)
		if err != nil {
			return err
		}
		return test(s, secret)
	}
}

func dataThere(_ *subject, secret *corev1.Secret) error {
	if len(secret.Data["value"]) == 0 {
		return fmt.Errorf("the key value of Secret %s is empty", secret.Name)
	}
	return nil
}

func dataLabelled(_ *subject, secret *corev1.Secret) error {
	if got := secret.Labels[clusterv1.ClusterNameLabel]; got != clusterKey.Name {
		return fmt.Errorf("the label %s of Secret %s is %q, want %q", clusterv1.ClusterNameLabel, secret.Name, got, clusterKey.Name)
	}
	return nil
}

func dataOwned(s *subject, secret *corev1.Secret) error {
	if o := metav1.GetControllerOf(secret); o == nil || o.Kind != s.Main.Kind || o.Name != s.Main.Name {
		return fmt.Errorf("the controller of Secret %s is not %s", secret.Name, s.Main)
	}
	return nil
}

func dataAlone(_ *subject, secret *corev1.Secret) error {
	for key := range secret.Data {
		if key != "value" && key != "format" {
			return fmt.Errorf("Secret %s has the keys %s", secret.Name, strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", "))
		}
	}
	return nil
}

func sentinelLeft(_ *subject, secret *corev1.Secret) error {
	return dataName(secret, "bootstrap-success.complete", "a file")
}

// dataName searches for a name in data of a known format.
func dataName(secret *corev1.Secret, name, what string) error {
	if format := string(secret.Data["format"]); format != "" && format != "cloud-config" {
		return conformance.Skip("the suite does not read data of format %s", format)
	}
	if !strings.Contains(string(secret.Data["value"]), name) {
		return fmt.Errorf("the data in Secret %s do not name %s %s", secret.Name, what, name)
	}
	return nil
}

func configWaits(ctx context.Context, s *subject) error {
	return s.waits(ctx, "waiting", func(t thing) error {
		if err := s.waitingCluster(ctx); err != nil {
			return err
		}
		return s.bootstrapped(ctx, t, t.Name, clusterv1.MachineControlPlaneLabel)
	})
}

// workersTainted creates a worker of a Cluster with a control plane, and reads
// its data.
func workersTainted(ctx context.Context, s *subject) error {
	const workers, taint = "workers", "node.cluster.x-k8s.io/uninitialized"
	if cp := s.config.ControlPlane; cp == nil || cp.Example == nil {
		return conformance.Skip("the config has no control plane")
	}
	if err := s.initialized(ctx, workers); err != nil {
		return conformance.Skip("the control plane does not get so far: %w", err)
	}
	t := thing{GroupKind: s.kind.GroupKind, Name: "worker"}
	if _, err := s.World.Make(ctx, s.Example, t.Name); err != nil {
		return err
	}
	if err := s.bootstrapped(ctx, t, workers); err != nil {
		return err
	}
	if err := s.AwaitDoneOf(ctx, t); err != nil {
		return conformance.Skip("there are no data for a worker: %w", err)
	}
	secret, err := s.secretNamed(ctx, s.World.Latest(t))
	if err != nil {
		return err
	}
	return dataName(secret, taint, "the taint")
}

// dataKept changes the spec as an update in place does.
func dataKept(ctx context.Context, s *subject) error {
	before, err := s.secret(ctx)
	if err != nil {
		return err
	}
	return s.changed(ctx, func() error {
		now, err := s.secretNamed(ctx, s.World.Latest(s.Main))
		if err == nil && (now.Name != before.Name || !maps.EqualFunc(now.Data, before.Data, bytes.Equal)) {
			err = fmt.Errorf("there are other data for it, in Secret %s", now.Name)
		}
		return err
	})
}

var dataFound = kept("status.dataSecretName", func(obj *unstructured.Unstructured) string {
	if name := objectchecks.Text(obj, "status", "dataSecretName"); name != "" {
		return strconv.Quote(name)
	}
	return ""
})
