// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

func lockOf(holder string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-lock", UID: "lock", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
		Data:       map[string]string{"lock-information": `{"machineName":"` + holder + `"}`},
	}
}

func lockHolder(t *testing.T, w *world) string {
	t.Helper()
	cm := &corev1.ConfigMap{}
	if err := w.mgmt.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "demo-lock"}, cm); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return cm.Data["lock-information"]
}

func TestTheFirstControlPlaneMachineInitializes(t *testing.T) {
	t.Parallel()
	m := controlPlane("m1")
	w := newWorld(t, append(certSecrets(), cluster(), m, configFor(m))...)
	if res := w.run("m1"); res.RequeueAfter != 0 {
		t.Errorf("asked for another reconcile in %v, want none", res.RequeueAfter)
	}
	wantWrites := []string{"create ConfigMap", "create Secret", "patch status of KubeadmConfig"}
	if diff := cmp.Diff(wantWrites, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(madeStates, states(w.config("m1"))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if got := w.config("m1").Status; got.DataSecretName != "m1" || !ptr.Deref(got.Initialization.DataSecretCreated, false) || got.ObservedGeneration != 1 {
		t.Errorf("status = %+v", got)
	}
	if got, want := lockHolder(t, w), `{"machineName":"m1"}`; got != want {
		t.Errorf("lock = %s, want %s", got, want)
	}

	s := w.secret("m1")
	if s.Type != certs.SecretType || s.Labels[clusterv1.ClusterNameLabel] != "demo" || string(s.Data["format"]) != "cloud-config" || len(s.Data) != 2 {
		t.Errorf("Secret has type %s, labels %v, format %s and %d keys", s.Type, s.Labels, s.Data["format"], len(s.Data))
	}
	if c := metav1.GetControllerOf(s); c == nil || c.Kind != "KubeadmConfig" || c.Name != "m1" || c.UID != "config" {
		t.Errorf("Secret is controlled by %v, want the config", c)
	}
	doc := w.document("m1")
	wantPaths := []string{
		"0640 /etc/kubernetes/pki/ca.crt", "0600 /etc/kubernetes/pki/ca.key", "0640 /etc/kubernetes/pki/etcd/ca.crt", "0600 /etc/kubernetes/pki/etcd/ca.key",
		"0640 /etc/kubernetes/pki/front-proxy-ca.crt", "0600 /etc/kubernetes/pki/front-proxy-ca.key", "0640 /etc/kubernetes/pki/sa.pub", "0600 /etc/kubernetes/pki/sa.key",
		"0640 /run/kubeadm/kubeadm.yaml", "0640 /run/cluster-api/placeholder",
	}
	if diff := cmp.Diff(wantPaths, doc.paths()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := doc.file("/etc/kubernetes/pki/ca.key"); got != string(pairs()[certs.CA].Key) {
		t.Error("the key of the authority is not the cluster's")
	}
	want := kubeadm.Data{
		KubernetesVersion: "v1.36.3", ClusterName: "demo", ControlPlaneEndpoint: "api.example:6443", DNSDomain: "cluster.local",
		ServiceSubnet: "10.96.0.0/16", PodSubnet: "10.244.0.0/16",
	}
	if diff := cmp.Diff(want, doc.kubeadm(t, kubeadm.InitConfigPath).Data); diff != "" {
		t.Errorf("ClusterConfiguration (-want +got):\n%s", diff)
	}

	w.clock.SetTime(now.Add(time.Hour))
	w.run("m1")
	if len(w.writes) != 0 {
		t.Errorf("a second reconcile wrote %v", w.writes)
	}
}

func TestOneMachineAtATimeInitializes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lock       *corev1.ConfigMap
		holderGone bool
		wantMade   bool
		wantHolder string
		wantErr    string
	}{
		"another machine has the lock":      {lock: lockOf("m0"), wantHolder: "m0"},
		"it has the lock already":           {lock: lockOf("m1"), wantMade: true, wantHolder: "m1"},
		"the machine with the lock crashed": {lock: lockOf("m0"), holderGone: true, wantMade: true, wantHolder: "m1"},
		"the lock holds rubbish": {
			lock:    &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-lock"}, Data: map[string]string{"lock-information": "{"}},
			wantErr: "the init lock, ConfigMap ns/demo-lock, does not say in its key lock-information who holds it: delete it",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := controlPlane("m1")
			objects := append(certSecrets(), cluster(), m, configFor(m), tc.lock)
			if !tc.holderGone {
				objects = append(objects, controlPlane("m0"))
			}
			w := newWorld(t, objects...)
			_, err := w.try("m1")
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("Reconcile = %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if made := w.secret("m1") != nil; made != tc.wantMade {
				t.Errorf("data made: %t, want %t", made, tc.wantMade)
			}
			if got, want := lockHolder(t, w), `{"machineName":"`+tc.wantHolder+`"}`; got != want {
				t.Errorf("lock = %s, want %s", got, want)
			}
			if !tc.wantMade {
				want := []string{
					"Ready=False NotReady: * DataSecretAvailable: Waiting for Machine ns/m0 to initialize the control plane",
					"DataSecretAvailable=False NotAvailable: Waiting for Machine ns/m0 to initialize the control plane",
					"CertificatesAvailable=True Available", "Paused=False NotPaused",
				}
				if diff := cmp.Diff(want, states(w.config("m1"))); diff != "" {
					t.Errorf("conditions (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestTheLockIsReleasedWhenTheDataCannotBeStored(t *testing.T) {
	t.Parallel()
	m := controlPlane("m1")
	w := newWorld(t, append(certSecrets(), cluster(), m, configFor(m))...)
	w.fail["create Secret"] = errors.New("quota exceeded")
	_, err := w.try("m1")
	const want = "bootstrap data: write Secret ns/m1: quota exceeded"
	if err == nil || err.Error() != want {
		t.Errorf("Reconcile = %v, want %s", err, want)
	}
	if got := lockHolder(t, w); got != "" {
		t.Errorf("lock = %s, want none", got)
	}
	wantStates := []string{
		"Ready=False NotReady: * DataSecretAvailable: " + want, "DataSecretAvailable=False NotAvailable: " + want,
		"CertificatesAvailable=True Available", "Paused=False NotPaused",
	}
	if diff := cmp.Diff(wantStates, states(w.config("m1"))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if got := w.config("m1").Status.ObservedGeneration; got != 0 {
		t.Errorf("observedGeneration = %d after an error, want 0", got)
	}
}

func TestCertificatesAreMadeOnlyWithoutAControlPlaneObject(t *testing.T) {
	t.Parallel()
	m := controlPlane("m1")
	alone := cluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} })
	own := certSecret(certs.Etcd)
	w := newWorld(t, alone, m, own, configFor(m, func(c *bootstrapv1.KubeadmConfig) {
		c.Spec.ClusterConfiguration.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP384
		c.Spec.ClusterConfiguration.CACertificateValidityPeriodDays = 10
	}))
	w.run("m1")
	ca, err := certs.FromSecret(w.secret("demo-ca"), certs.CA)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := certs.ParseCertificate(ca.Cert); err != nil || !cert.NotAfter.Equal(now.Add(10*24*time.Hour)) {
		t.Errorf("the authority is %v, %v, want it to expire in ten days", cert, err)
	}
	if refs := w.secret("demo-ca").OwnerReferences; len(refs) != 1 || refs[0].Kind != "Cluster" {
		t.Errorf("the authority's Secret is owned by %v, want the Cluster: it outlives the machine", refs)
	}
	doc := w.document("m1")
	if doc.file("/etc/kubernetes/pki/etcd/ca.crt") != string(pairs()[certs.Etcd].Cert) {
		t.Error("the authority of etcd is not the one that was there")
	}
	if doc.file("/etc/kubernetes/pki/ca.key") != string(ca.Key) {
		t.Error("the machine does not get the authority that was stored")
	}

	m2 := controlPlane("m1")
	w = newWorld(t, cluster(), m2, certSecret(certs.CA), configFor(m2))
	w.run("m1")
	want := []string{
		"Ready=False NotReady: * DataSecretAvailable: Waiting for Secret ns/demo-etcd with certificates of the cluster",
		"DataSecretAvailable=False NotAvailable: Waiting for Secret ns/demo-etcd with certificates of the cluster", "Paused=False NotPaused",
	}
	if diff := cmp.Diff(want, states(w.config("m1"))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"patch status of KubeadmConfig"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeMadeIsSaid(t *testing.T) {
	t.Parallel()
	broken := certSecret(certs.Etcd)
	broken.Data[certs.PrivateKeyKey] = []byte("secret-word")
	tests := map[string]struct {
		version string
		spec    bootstrapv1.KubeadmConfigSpec
		etcd    *corev1.Secret
		want    string
	}{
		"more than Ignition can":  {spec: bootstrapv1.KubeadmConfigSpec{Format: bootstrapv1.Ignition, BootCommands: []string{"a"}}, want: "spec.bootCommands: Forbidden: Ignition runs no commands at each boot: add a unit by ignition.containerLinuxConfig.additionalConfig"},
		"a machine of no version": {version: "-", want: "Machine ns/m1 has no spec.version: set the version of Kubernetes"},
		"a version too old":       {version: "v1.21.0", want: "the configuration for kubeadm init cannot be made: kubernetes before v1.22 cannot be set up: its kubeadm does not know kubeadm.k8s.io/v1beta3"},
		"a certificate of rubbish": {
			etcd: broken,
			want: `bootstrap data: secret ns/demo-etcd, key "tls.key": it holds no PEM block of the expected kind; put the PEM encoded private key of the certificate in tls.crt there, or remove it if etcd is external`,
		},
		"a file from no Secret": {
			spec: bootstrapv1.KubeadmConfigSpec{Files: []bootstrapv1.File{{Path: "/f", ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "none", Key: "k"}}}}},
			want: `bootstrap data: spec.files[0].contentFrom: get Secret ns/none: secrets "none" not found`,
		},
		"a password from no key": {
			spec: bootstrapv1.KubeadmConfigSpec{Users: []bootstrapv1.User{{Name: "u", PasswdFrom: bootstrapv1.PasswdSource{Secret: bootstrapv1.SecretPasswdSource{Name: "demo-ca", Key: "k"}}}}},
			want: `bootstrap data: spec.users[0].passwdFrom: secret ns/demo-ca has no key "k"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := controlPlane("m1")
			if tc.version != "" {
				m.Spec.Version = strings.Trim(tc.version, "-")
			}
			etcd := tc.etcd
			if etcd == nil {
				etcd = certSecret(certs.Etcd)
			}
			w := newWorld(t, cluster(), m, etcd, certSecret(certs.CA), certSecret(certs.FrontProxy), certSecret(certs.ServiceAccount),
				configFor(m, func(c *bootstrapv1.KubeadmConfig) { c.Spec = tc.spec }))
			_, err := w.try("m1")
			if err == nil {
				t.Fatal("Reconcile gave no error")
			}
			var message string
			for _, c := range w.config("m1").Status.Conditions {
				if c.Type == bootstrapv1.KubeadmConfigDataSecretAvailableCondition {
					message = c.Message
				}
			}
			if message != tc.want {
				t.Errorf("DataSecretAvailable says %q, want %q", message, tc.want)
			}
			if all := err.Error() + strings.Join(states(w.config("m1")), ""); strings.Contains(all, "secret-word") {
				t.Errorf("a secret shows: %s", all)
			}
			if w.secret("m1") != nil || lockHolder(t, w) != "" {
				t.Error("there is data, or a lock, anyway")
			}
		})
	}
}
