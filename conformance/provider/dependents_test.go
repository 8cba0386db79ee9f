// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
)

func nothing(*one) {}

// dependents creates the objects that objects create in addition to their status.
func (o *one) dependents(ctx context.Context) error {
	switch o.obj.GetKind() {
	case "FakeMachinePool":
		return o.poolMachines(ctx)
	case "FakeConfig":
		data := o.data()
		if size, _, _ := unstructured.NestedInt64(o.obj.Object, "spec", "size"); size > 0 && o.is("replaces data after a change") {
			data += "# again\n"
			old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.obj.GetNamespace(), Name: o.dataSecret()}}
			if err := o.client.Delete(ctx, old); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return o.secret(ctx, o.dataSecret(), "Opaque", "value", data)
	case "FakeControlPlane":
		if !o.is("keeps no kubeconfig") {
			text, err := o.kubeconfig()
			if err != nil {
				return err
			}
			if err := o.secret(ctx, o.cluster.Name+"-kubeconfig", clusterv1.ClusterSecretType, "value", text); err != nil {
				return err
			}
		}
		if err := o.secret(ctx, o.cluster.Name+"-ca", clusterv1.ClusterSecretType, "tls.crt", "certificate"); err != nil {
			return err
		}
		return o.controlPlaneMachine(ctx)
	}
	return nil
}

func (o *one) dataSecret() string {
	if o.obj.GetAnnotations()["example.com/again"] != "" {
		return o.obj.GetName() + "-again"
	}
	return o.obj.GetName()
}

func (o *one) data() string {
	if o.is("makes an empty Secret") {
		return ""
	}
	data := "#cloud-config\n"
	if !o.is("leaves no file behind") {
		data += "runcmd: [touch /run/cluster-api/bootstrap-success.complete]\n"
	}
	if _, controlPlane := o.machine.Labels[clusterv1.MachineControlPlaneLabel]; !controlPlane && !o.is("does not taint workers") {
		data += "# taint node.cluster.x-k8s.io/uninitialized:NoSchedule\n"
	}
	return data
}

// poolMachines creates a FakeMachine for each instance of a pool, and deletes the
// surplus.
func (o *one) poolMachines(ctx context.Context) error {
	want := int(*o.pool.Spec.Replicas)
	switch {
	case o.is("has no machines"):
		want = 0
	case o.is("leaves its machines as they are"):
		want = 1
	}
	for i := range 3 {
		m := &unstructured.Unstructured{}
		m.SetGroupVersionKind(gvk("FakeMachine"))
		m.SetNamespace(o.obj.GetNamespace())
		m.SetName(fmt.Sprintf("%s-%d", o.obj.GetName(), i))
		m.SetLabels(map[string]string{clusterv1.ClusterNameLabel: o.cluster.Name, clusterv1.MachinePoolNameLabel: o.pool.Name})
		err := o.client.Get(ctx, client.ObjectKeyFromObject(m), m.DeepCopy())
		switch {
		case client.IgnoreNotFound(err) != nil:
			return err
		case err != nil && i < want:
			err = o.client.Create(ctx, m)
		case err == nil && i >= want:
			err = o.client.Delete(ctx, m)
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func configStatus(o *one) {
	if !o.is("names no Secret") {
		o.set(o.dataSecret(), "status", "dataSecretName")
	}
}

// mine is an owner reference to the object.
func (o *one) mine() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o.obj, o.obj.GroupVersionKind())}
}

// secret creates a Secret, if it does not exist.
func (o *one) secret(ctx context.Context, name string, kind corev1.SecretType, key, value string) error {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.obj.GetNamespace(), Name: name, OwnerReferences: o.mine(), Labels: map[string]string{clusterv1.ClusterNameLabel: o.cluster.Name}},
		Type:       kind, Data: map[string][]byte{key: []byte(value)},
	}
	if o.is("does not label its Secrets") && key != "value" || o.is("does not label its Secrets") && o.obj.GetKind() == "FakeConfig" {
		s.Labels = nil
	}
	if o.is("does not own its Secrets") {
		s.OwnerReferences = nil
	}
	if o.is("has a key too many") {
		s.Data["password"] = []byte("x")
	}
	return client.IgnoreAlreadyExists(o.client.Create(ctx, s))
}

// kubeconfig is valid but its server does not exist.
func (o *one) kubeconfig() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	years := 1
	if o.is("has a client for ten years") {
		years = 10
	}
	begin := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(time.Duration(years) * 365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	encode := func(kind string, b []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {client-certificate-data: %s, client-key-data: %s}}]}`,
		encode("CERTIFICATE", der), encode("PRIVATE KEY", private)), nil
}

// controlPlaneMachine creates the one Machine of a control plane, and maintains its
// desired state.
func (o *one) controlPlaneMachine(ctx context.Context) error {
	if o.is("has no Machines and does not say why") {
		return nil
	}
	m := &clusterv1.Machine{}
	m.Namespace, m.Name = o.obj.GetNamespace(), o.obj.GetName()+"-0"
	err := o.client.Get(ctx, client.ObjectKeyFromObject(m), m)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		m.OwnerReferences = o.mine()
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: o.cluster.Name, "fake": "true"}
		if !o.is("does not label its Machines") {
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		}
		m.Spec = clusterv1.MachineSpec{
			ClusterName: o.cluster.Name, FailureDomain: o.domain(), Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: groupOf("FakeMachine"), Kind: "FakeMachine", Name: "nowhere"},
		}
		return o.client.Create(ctx, m)
	}
	before := m.DeepCopy()
	wanted, _, _ := unstructured.NestedStringMap(o.obj.Object, "spec", "machineTemplate", "metadata", "labels")
	if !o.is("keeps labels to itself") {
		maps.Copy(m.Labels, wanted)
	}
	if !o.is("keeps annotations to itself") {
		m.Annotations, _, _ = unstructured.NestedStringMap(o.obj.Object, "spec", "machineTemplate", "metadata", "annotations")
	}
	version := contract.V1Beta2
	if o.older {
		version = contract.V1Beta1
	}
	promises, err := contract.ControlPlaneFor(version)
	if err != nil {
		return err
	}
	if timeout, ok, _ := promises.MachineTemplate.NodeDrainSeconds.Get(o.obj); ok && !o.is("keeps timeouts to itself") {
		m.Spec.Deletion.NodeDrainTimeoutSeconds = &timeout
	}
	if !equality.Semantic.DeepEqual(before, m) {
		if err := o.client.Patch(ctx, m, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	if o.is("does not say what is up to date") || conditions.IsTrue(m, clusterv1.MachineUpToDateCondition) {
		return nil
	}
	before = m.DeepCopy()
	conditions.Set(m, time.Now(), metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: "UpToDate"})
	return o.client.Status().Patch(ctx, m, client.MergeFrom(before))
}

// domain is the failure domain of its Machine.
func (o *one) domain() string {
	if len(o.cluster.Status.FailureDomains) == 0 {
		return ""
	}
	if o.is("puts Machines anywhere") {
		return "b"
	}
	return "a"
}

func controlPlaneSpec(o *one) {
	if !o.is("has no endpoint") {
		o.set(map[string]any{"host": "10.0.0.1", "port": int64(6443)}, "spec", "controlPlaneEndpoint")
	}
}

func controlPlaneStatus(o *one) {
	if !o.is("reports no version") {
		o.set("v1.36.0", "status", "version")
	}
	for _, counter := range []string{"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"} {
		if counter != "readyReplicas" || !o.is("does not count") {
			o.set(int64(1), "status", counter)
		}
	}
	if o.older {
		o.set(int64(1), "status", "updatedReplicas")
		o.set(int64(0), "status", "unavailableReplicas")
	}
	selector := "fake=true"
	if o.is("selects nothing") {
		selector = "fake=false"
	}
	o.set(selector, "status", "selector")
}
