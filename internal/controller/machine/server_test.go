// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestLifeOnAServer runs a Machine of a fictional provider from creation to
// deletion on the real plane: its statuses satisfy the schema, and only watches
// trigger reconciles.
func TestLifeOnAServer(t *testing.T) {
	env := testenv.Start(t)
	group := env.Namespace + ".example.com"
	env.Define(t, testenv.Kind(group, "Host"))
	ref := func(name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "Host", Name: name}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "demo"}}
	cluster.Spec.InfrastructureRef = ref("net")
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "m0"}}
	machine.Spec = clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.0", InfrastructureRef: ref("m0"), Bootstrap: clusterv1.Bootstrap{DataSecretName: new("mine")},
	}
	for _, o := range []client.Object{cluster, machine} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(phase, conditionType, want string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			m := &clusterv1.Machine{}
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), m); err != nil {
				return err
			}
			c := conditions.Get(m, conditionType)
			if c == nil || m.Status.Phase != phase || !strings.Contains(string(c.Status)+" "+c.Reason+" "+c.Message, want) {
				return fmt.Errorf("phase %s, condition %v; want %s, %s", m.Status.Phase, c, phase, want)
			}
			return nil
		})
	}
	sees("Provisioning", "InfrastructureReady", "False ObjectDoesNotExist Host m0 does not exist")

	host(t, env, group, "net")
	host(t, env, group, "m0")
	sees("Provisioned", "InfrastructureReady", "True Ready")
	sees("Provisioned", "NodeHealthy", "Unknown ConnectionDown Waiting for a connection to the workload cluster of Cluster demo")

	m0 := &unstructured.Unstructured{}
	m0.SetAPIVersion(group + "/v1")
	m0.SetKind("Host")
	key := client.ObjectKey{Namespace: env.Namespace, Name: "m0"}
	if err := env.Client.Get(t.Context(), key, m0); err != nil {
		t.Fatal(err)
	}
	if o := metav1.GetControllerOf(m0); o == nil || o.Kind != "Machine" || o.UID != machine.UID {
		t.Errorf("owner of the host: %v", o)
	}
	if err := env.Client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		for _, o := range []client.Object{machine, m0} {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T is still there: %w", o, err)
			}
		}
		return nil
	})
}

// host creates a provisioned object that serves as infrastructure of both kinds.
func host(t *testing.T, env *testenv.Env, group, name string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"providerID":           "x://" + name,
			"controlPlaneEndpoint": map[string]any{"host": "192.0.2.1", "port": int64(6443)},
		},
		"status": map[string]any{
			"initialization": map[string]any{"provisioned": true}, "failureDomain": "a",
			"addresses":  []any{map[string]any{"type": "InternalIP", "address": "192.0.2.2"}},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, // without reason, as older providers do
		},
	}}
	u.SetAPIVersion(group + "/v1")
	u.SetKind("Host")
	u.SetNamespace(env.Namespace)
	u.SetName(name)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), u.DeepCopy()) })
}
