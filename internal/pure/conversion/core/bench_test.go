// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
)

// usual is a Machine as a running cluster has it: ten conditions, and the
// records of three managers.
func usual() *clusterv1.Machine {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo-md-0-abcde-fghij", Namespace: "default", UID: "8d6a4f0e-6d0f-4b4c-9d3b-1f8b6f3f0c11", ResourceVersion: "4711", CreationTimestamp: at,
			Labels:          map[string]string{"cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/deployment-name": "demo-md-0", "machine-template-hash": "12345"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "demo-md-0-abcde", UID: "1"}},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName:       "demo",
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("demo-md-0-abcde-fghij")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.capstan.dev", Kind: "LocalMachine", Name: "demo-md-0-abcde-fghij"},
			Version:           "v1.36.0", ProviderID: "local:///demo-md-0-abcde-fghij", MinReadySeconds: new(int32(0)),
		},
		Status: clusterv1.MachineStatus{
			Initialization: clusterv1.MachineInitializationStatus{InfrastructureProvisioned: new(true), BootstrapDataSecretCreated: new(true)},
			NodeRef:        clusterv1.MachineNodeReference{Name: "demo-md-0-abcde-fghij"},
			Addresses:      clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.7"}},
			Phase:          "Running", LastUpdated: at, ObservedGeneration: 3,
		},
	}
	for i := range 10 {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: fmt.Sprint("Condition", i), Status: metav1.ConditionTrue, Reason: "AsItShallBe", LastTransitionTime: at, ObservedGeneration: 3,
		})
	}
	for i := range 3 {
		m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprint("manager-", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "cluster.x-k8s.io/v1beta2", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{` + strings.Repeat(`"f:field":{},`, 20) + `"f:last":{}}}`)},
		})
	}
	return m
}

// BenchmarkMachine must stay below 100 µs each way: an old client's request causes up to
// nine conversions.
func BenchmarkMachine(b *testing.B) {
	k := machine()
	hub := usual()
	old, err := k.Down(hub, conversiontests.Lookup)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("down", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Down(hub, conversiontests.Lookup); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("up", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Up(old); err != nil {
				b.Fatal(err)
			}
		}
	})
}
