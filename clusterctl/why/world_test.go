// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// memory returns a client of an API server in memory.
func memory(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), addonsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).WithObjects(objects...).
		WithIndex(&corev1.Event{}, "type", func(obj client.Object) []string { return []string{obj.(*corev1.Event).Type} }).Build()
}

// rawClient returns a client of the paths of a server.
func rawClient(t *testing.T, url string) rest.Interface {
	t.Helper()
	raw, err := rest.UnversionedRESTClientFor(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "fleet", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
}

// cluster is a Cluster of n machines, each with its infrastructure.
func cluster(n int) []client.Object {
	group := infrav1.GroupVersion().Group
	demo := &clusterv1.Cluster{ObjectMeta: named("demo")}
	demo.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LocalCluster", Name: "demo"}
	objects := []client.Object{demo, &infrav1.LocalCluster{ObjectMeta: named("demo")}}
	for i := range n {
		name := fmt.Sprintf("m-%03d", i)
		m, local := &clusterv1.Machine{ObjectMeta: named(name)}, &infrav1.LocalMachine{ObjectMeta: named(name)}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LocalMachine", Name: name}
		local.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: name, UID: m.UID}}
		objects = append(objects, m, local)
	}
	return objects
}
