// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestInitOnAServer renders the data of a first control plane machine on the real
// plane: the statuses satisfy the schema, and only watches trigger reconciles.
func TestInitOnAServer(t *testing.T) {
	env := testenv.Start(t)
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: env.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: meta("demo")}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion().Group, Kind: "KubeadmControlPlane", Name: "not-there"}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	machine := &clusterv1.Machine{ObjectMeta: meta("m1")}
	machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
	machine.Spec = clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.3",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.capstan.dev", Kind: "LocalMachine", Name: "not-there"},
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion().Group, Kind: "KubeadmConfig", Name: "m1",
		}},
	}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: meta("m1")}
	config.Spec.InitConfiguration.NodeRegistration.Taints = &[]corev1.Taint{}
	for _, o := range []client.Object{cluster, machine, config} {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(want string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			c := &bootstrapv1.KubeadmConfig{}
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(config), c); err != nil {
				return err
			}
			got := conditions.Get(c, bootstrapv1.KubeadmConfigDataSecretAvailableCondition)
			if got == nil || string(got.Status)+": "+got.Message != want {
				return fmt.Errorf("condition %v, want %s", got, want)
			}
			return nil
		})
	}
	sees("False: Waiting for Secret " + env.Namespace + "/demo-ca with certificates of the cluster")

	for _, p := range []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount} {
		pair, err := certs.New(p, certs.ECDSAP256, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Client.Create(t.Context(), pair.Secret(client.ObjectKeyFromObject(cluster), p, nil)); err != nil {
			t.Fatal(err)
		}
	}
	sees("True: ")
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		if machine.Spec.Bootstrap.DataSecretName == nil {
			return errors.New("the Machine has no data Secret")
		}
		return nil
	})

	data := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(config), data); err != nil {
		t.Fatal(err)
	}
	if o := metav1.GetControllerOf(data); o == nil || o.UID != config.UID || data.Type != certs.SecretType {
		t.Errorf("Secret of type %s is controlled by %v", data.Type, o)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Status.Conditions {
		if c.ObservedGeneration != config.Generation {
			t.Errorf("condition %s is of generation %d, want %d", c.Type, c.ObservedGeneration, config.Generation)
		}
	}
}
