// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/evidence"
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
			return s.bootstrapped(ctx, s.main, clusterKey.Name, clusterv1.MachineControlPlaneLabel)
		},
		disown: func(ctx context.Context, s *subject) error { return s.world.Delete(ctx, machineNamed(s.main.Name)) },
		checks: bootstrapConfigChecks,
	}
}

func bootstrapConfigChecks(r *role) []check {
	return slices.Concat(r.definitions(), r.beginning("Machine", "ready"), []check{
		r.say("A ready X names the Secret with its data.",
			"status.dataSecretName, of 1 to 253 characters; the Secret is in its namespace, and its key value is not empty.",
			check{remedy: "Create the Secret before the status says so.", live: true, vital: true, test: dataThere}),
		r.say("The Secret of an X has the name of the Cluster on it.",
			"In the label cluster.x-k8s.io/cluster-name, by which a move takes it along.",
			check{remedy: "Set the label when the Secret is created.", live: true, test: dataLabelled}),
		r.say("The Secret of an X belongs to it.",
			"By an owner reference that is the controller's, so that it goes when the X goes.",
			check{remedy: "Set the owner reference when the Secret is created.", live: true, test: dataOwned}),
		r.say("The Secret of an X holds its data and their format alone.",
			"The keys are value and, if need be, format.",
			check{remedy: "Keep what else there is in a Secret of its own.", live: true, test: dataAlone}),
		r.say("The data of an X leave a file behind when they have been run.",
			"/run/cluster-api/bootstrap-success.complete, or C:\\run\\cluster-api\\bootstrap-success.complete: infrastructure that can look into its machines sees by it that the bootstrap went well.",
			check{Check: advice, remedy: "Write the file as the last command.", live: true, test: sentinelLeft}),
	}, r.middle(contract.ReadyCondition), []check{
		r.say("An X waits for the infrastructure of its Cluster.",
			"As long as status.initialization.infrastructureProvisioned of the Cluster is not true: before, the endpoint need not be known.",
			check{remedy: "Look at the status of the Cluster before data are made.", live: true, test: configWaits}),
		r.rehearsal(),
	}, r.end("Machine"), []check{
		r.say("An X finds its Secret again.",
			"After its status was lost, status.dataSecretName is what it was, and the machine does not wait for other data.",
			check{remedy: "Compute the name of the Secret from that of the object.", live: true, test: dataFound}),
	})
}

// bootstrapped makes a Machine for a bootstrap config, whose infrastructure never
// comes.
func (s *subject) bootstrapped(ctx context.Context, t thing, cluster string, labels ...string) error {
	return s.makeMachine(ctx, t.Name, cluster, map[string]any{"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MissingMachine", "name": missing}, "bootstrap": map[string]any{"configRef": refTo(t)}}, labels...)
}

// secret reads the Secret that the main object named when it was ready.
func (s *subject) secret(ctx context.Context) (*corev1.Secret, error) {
	all, err := s.atDone()
	if err != nil {
		return nil, err
	}
	name := evidence.Text(all[0], "status", "dataSecretName")
	if name == "" || len(name) > 253 {
		return nil, fmt.Errorf("status.dataSecretName of %s was %q when it was ready", s.main, name)
	}
	secret := &corev1.Secret{}
	if err := s.world.Client.Get(ctx, client.ObjectKey{Namespace: s.world.Namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("get the Secret that %s names: %w", s.main, err)
	}
	return secret, nil
}

func dataThere(ctx context.Context, s *subject) error {
	secret, err := s.secret(ctx)
	if err != nil {
		return err
	}
	if len(secret.Data["value"]) == 0 {
		return fmt.Errorf("the key value of Secret %s is empty", secret.Name)
	}
	return nil
}

func dataLabelled(ctx context.Context, s *subject) error {
	secret, err := s.secret(ctx)
	if err != nil {
		return err
	}
	return labelledSecret(secret)
}

func labelledSecret(secret *corev1.Secret) error {
	if got := secret.Labels[clusterv1.ClusterNameLabel]; got != clusterKey.Name {
		return fmt.Errorf("the label %s of Secret %s is %q, want %q", clusterv1.ClusterNameLabel, secret.Name, got, clusterKey.Name)
	}
	return nil
}

func dataOwned(ctx context.Context, s *subject) error {
	secret, err := s.secret(ctx)
	if err != nil {
		return err
	}
	if o := metav1.GetControllerOf(secret); o == nil || o.Kind != s.main.Kind || o.Name != s.main.Name {
		return fmt.Errorf("the controller of Secret %s is not %s", secret.Name, s.main)
	}
	return nil
}

func dataAlone(ctx context.Context, s *subject) error {
	secret, err := s.secret(ctx)
	if err != nil {
		return err
	}
	for key := range secret.Data {
		if key != "value" && key != "format" {
			return fmt.Errorf("Secret %s has the keys %s", secret.Name, strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", "))
		}
	}
	return nil
}

func sentinelLeft(ctx context.Context, s *subject) error {
	secret, err := s.secret(ctx)
	if err != nil {
		return err
	}
	const file = "bootstrap-success.complete"
	if format := string(secret.Data["format"]); format != "" && format != "cloud-config" {
		return conformance.Skip("the suite does not read data of format %s", format)
	}
	if !strings.Contains(string(secret.Data["value"]), file) {
		return fmt.Errorf("the data in Secret %s do not name a file %s", secret.Name, file)
	}
	return nil
}

func configWaits(ctx context.Context, s *subject) error {
	waiting := thing{GroupKind: s.kind.GroupKind, Name: "waiting"}
	if _, err := s.world.Make(ctx, s.example, waiting.Name); err != nil {
		return err
	}
	if err := s.waitingCluster(ctx); err != nil {
		return err
	}
	if err := s.bootstrapped(ctx, waiting, waiting.Name, clusterv1.MachineControlPlaneLabel); err != nil {
		return err
	}
	if err := s.awaitOwner(ctx, waiting); err != nil {
		return conformance.Skip("%w", err)
	}
	return s.stillWaits(ctx, waiting)
}

func dataFound(_ context.Context, s *subject) error {
	all, err := s.atDone()
	if err != nil {
		return err
	}
	first := evidence.Text(all[0], "status", "dataSecretName")
	for _, obj := range all {
		if now := evidence.Text(obj, "status", "dataSecretName"); now != "" && now != first {
			return fmt.Errorf("status.dataSecretName of %s was %q, and is %q in version %s", s.main, first, now, obj.GetResourceVersion())
		}
	}
	return nil
}
