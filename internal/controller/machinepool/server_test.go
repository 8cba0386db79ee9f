// SPDX-License-Identifier: Apache-2.0

package machinepool

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

// TestAPoolOnAServer runs a pool of a fictional provider, which reports only the
// fields of contract v1beta1, from creation to deletion on the real plane: its
// statuses satisfy the schema, and only watches trigger reconciles.
func TestAPoolOnAServer(t *testing.T) {
	env := testenv.Start(t)
	group := env.Namespace + ".example.com"
	env.Define(t, testenv.Kind(group, "HostPool"))
	env.Define(t, testenv.Kind(group, "Host"))
	made := func(kind, name string, content fields) *unstructured.Unstructured {
		u := thing(kind, name, content)
		u.SetAPIVersion(group + "/v1")
		u.SetNamespace(env.Namespace)
		u.SetUID("")
		return u
	}
	create := func(obj client.Object) {
		t.Helper()
		testenv.Eventually(t, func() error { return client.IgnoreAlreadyExists(env.Client.Create(t.Context(), obj)) })
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "demo"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "Host", Name: "net"}
	p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "p"}}
	p.Spec.ClusterName = "demo"
	p.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "demo", Version: "1.36.0", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("mine")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostPool", Name: "p"},
	}
	create(cluster)
	create(p)
	if *p.Spec.Replicas != 1 || p.Spec.Template.Spec.Version != "v1.36.0" || *p.Spec.Template.Spec.Deletion.NodeDeletionTimeoutSeconds != 10 {
		t.Errorf("admission made %+v of the spec", p.Spec)
	}
	sees := func(conditionType, want string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if c := conditions.Get(p, conditionType); c == nil || !strings.Contains(string(c.Status)+" "+c.Reason+" "+c.Message, want) {
				return fmt.Errorf("%s: %v, want %s", conditionType, c, want)
			}
			return nil
		})
	}
	sees("InfrastructureReady", "False ObjectDoesNotExist HostPool p does not exist")

	create(made("HostPool", "p", fields{
		"spec":   fields{"providerIDList": []any{"x://a", "x://a"}},
		"status": fields{"ready": true, "replicas": int64(1), "infrastructureMachineKind": "Host"},
	}))
	sees("InfrastructureReady", "True Ready")
	sees("MachinesReady", "False NotReady * HostPool p lists provider ID x://a 2 times")

	host := made("Host", "a", fields{"spec": fields{"providerID": "x://a"}, "status": fields{"initialization": fields{"provisioned": true}}})
	host.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p"})
	create(host)
	m := &clusterv1.Machine{}
	key := client.ObjectKey{Namespace: env.Namespace, Name: "a"}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), key, m); err != nil {
			return err
		}
		if m.Spec.ProviderID != "x://a" || m.Status.Initialization.InfrastructureProvisioned == nil {
			return fmt.Errorf("Machine %+v", m)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	gone := func(obj client.Object) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is still there: %w", obj, obj.GetName(), err)
			}
			return nil
		})
	}
	gone(m)
	if err := env.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	gone(p)
	gone(made("HostPool", "p", nil))
}
