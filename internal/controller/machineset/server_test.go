// SPDX-License-Identifier: Apache-2.0

package machineset_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestServerTriggersSetsWaitingForControlPlane uses a control plane that reports only
// its version, so that no change of its Cluster triggers a reconcile.
func TestServerTriggersSetsWaitingForControlPlane(t *testing.T) {
	env := testenv.Start(t)
	group := env.Namespace + ".example.com"
	for _, kind := range []string{"Plane", "Host", "HostTemplate"} {
		env.Define(t, testenv.Kind(group, kind))
	}
	ref := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: "x"}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "demo"}}
	cluster.Spec.ControlPlaneRef = ref("Plane")
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "ms"}}
	set.Spec.ClusterName, set.Spec.Replicas = "demo", new(int32(1))
	set.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.0", InfrastructureRef: ref("HostTemplate"), Bootstrap: clusterv1.Bootstrap{DataSecretName: new("mine")},
	}
	template := object(env, group, "HostTemplate", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}})
	plane := object(env, group, "Plane", map[string]any{"spec": map[string]any{"version": "v1.36.0"}})
	for _, o := range []client.Object{template, plane, cluster, set} {
		testenv.Eventually(t, func() error { return client.IgnoreAlreadyExists(env.Client.Create(t.Context(), o)) })
	}
	sees := func(want string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			if c := conditions.Get(set, clusterv1.MachineSetScalingUpCondition); c == nil || !strings.Contains(string(c.Status)+" "+c.Message, want) {
				return fmt.Errorf("condition %v, want %s", c, want)
			}
			return nil
		})
	}
	sees("True Scaling up from 0 to 1 replicas is blocked because:\n* Plane x is provisioning (\"ControlPlaneIsStable\" preflight check failed)")
	if err := env.Client.Patch(t.Context(), plane, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"version":"v1.36.0"}}`))); err != nil {
		t.Fatal(err)
	}
	sees("False ")
}

func object(env *testenv.Env, group, kind string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(group + "/v1")
	u.SetKind(kind)
	u.SetNamespace(env.Namespace)
	u.SetName("x")
	return u
}
