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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func nothing(*one) {}

// dependents makes what objects make beside themselves.
func (o *one) dependents(ctx context.Context) error {
	switch o.obj.GetKind() {
	case "FakeConfig":
		return o.secret(ctx, o.dataSecret(), "Opaque", "value", o.data())
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
	switch {
	case o.is("makes an empty Secret"):
		return ""
	case o.is("leaves no file behind"):
		return "#cloud-config\n"
	}
	return "#cloud-config\nruncmd: [touch /run/cluster-api/bootstrap-success.complete]\n"
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

// secret makes a Secret, if it is not there.
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

// kubeconfig leads nowhere.
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

// controlPlaneMachine makes the one Machine of a control plane, and keeps it as
// it is wanted.
func (o *one) controlPlaneMachine(ctx context.Context) error {
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
			ClusterName: o.cluster.Name, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: groupOf("FakeMachine"), Kind: "FakeMachine", Name: "nowhere"},
		}
		return o.client.Create(ctx, m)
	}
	before := m.DeepCopy()
	wanted, _, err := unstructured.NestedStringMap(o.obj.Object, "spec", "machineTemplate", "metadata", "labels")
	if err != nil {
		return err
	}
	if !o.is("keeps labels to itself") {
		maps.Copy(m.Labels, wanted)
	}
	if !o.is("does not label its Machines") {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	if !maps.Equal(before.Labels, m.Labels) {
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
	selector := "fake=true"
	if o.is("selects nothing") {
		selector = "fake=false"
	}
	o.set(selector, "status", "selector")
}
