// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/secrets"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

func TestAWorkerJoinsByToken(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m), lockOf("m1"))
	if res := w.run("w1"); res.RequeueAfter != 5*time.Minute {
		t.Errorf("checks the token again in %v, want 5m", res.RequeueAfter)
	}
	wantWrites := []string{"delete ConfigMap", "patch KubeadmConfig", "create Secret", "patch status of KubeadmConfig"}
	if diff := cmp.Diff(wantWrites, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(madeStates, states(w.config("w1"))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	hashes, err := certs.PinHashes(pairs()[certs.CA].Cert)
	if err != nil {
		t.Fatal(err)
	}
	found := bootstrapv1.BootstrapTokenDiscovery{Token: testToken, APIServerEndpoint: "api.example:6443", CACertHashes: hashes}
	if diff := cmp.Diff(found, w.config("w1").Spec.JoinConfiguration.Discovery.BootstrapToken); diff != "" {
		t.Errorf("discovery in the spec (-want +got):\n%s", diff)
	}
	if taints := w.config("w1").Spec.JoinConfiguration.NodeRegistration.Taints; taints != nil {
		t.Errorf("the taint is in the spec: %v", taints)
	}
	doc := w.document("w1")
	if diff := cmp.Diff([]string{"0640 /run/kubeadm/kubeadm-join-config.yaml", "0640 /run/cluster-api/placeholder"}, doc.paths()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	want := &bootstrapv1.JoinConfiguration{
		Discovery:        bootstrapv1.Discovery{BootstrapToken: found},
		NodeRegistration: bootstrapv1.NodeRegistrationOptions{Taints: &[]corev1.Taint{nodesync.Uninitialized}},
	}
	if diff := cmp.Diff(want, doc.kubeadm(t, kubeadm.JoinConfigPath).Join); diff != "" {
		t.Errorf("JoinConfiguration (-want +got):\n%s", diff)
	}
	token := read(t, w.workload, "kube-system", "bootstrap-token-abcdef")
	if token == nil || token.Type != kubeadm.TokenSecretType || string(token.Data["expiration"]) != "2026-08-01T12:15:00Z" {
		t.Errorf("token in the workload cluster = %v", token)
	}
	w.reads = 0
	w.run("w1")
	if len(w.writes) != 0 || w.reads != 0 {
		t.Errorf("a second reconcile wrote %v and read the token %d times", w.writes, w.reads)
	}
	if got := w.config("w1"); got.Generation != 2 || got.Status.ObservedGeneration != 2 {
		t.Errorf("generation %d, observed %d, want 2: the status counts the write of the spec", got.Generation, got.Status.ObservedGeneration)
	}
}

func TestAControlPlaneMachineJoinsWithTheCertificates(t *testing.T) {
	t.Parallel()
	m := controlPlane("m2")
	m.Spec.Version = "v1.30.4"
	w := newWorld(t, append(certSecrets(), cluster(initialized), m, configFor(m))...)
	w.run("m2")
	doc := w.document("m2")
	if doc.file("/etc/kubernetes/pki/sa.key") != string(pairs()[certs.ServiceAccount].Key) {
		t.Error("the service account key is not there")
	}
	got := doc.kubeadm(t, kubeadm.JoinConfigPath)
	if got.APIVersion != kubeadm.V1Beta3 || got.Join.ControlPlane == nil || got.Join.NodeRegistration.Taints != nil {
		t.Errorf("kubeadm reads %s, controlPlane %v, taints %v", got.APIVersion, got.Join.ControlPlane, got.Join.NodeRegistration.Taints)
	}
	if !slices.Contains(doc.Commands, "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success > /run/cluster-api/bootstrap-success.complete") {
		t.Errorf("commands = %q", doc.Commands)
	}
	if diff := cmp.Diff([]string{"patch KubeadmConfig", "create Secret", "patch status of KubeadmConfig"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAMachineWaitsForWhatIsNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		machine *clusterv1.Machine
		down    bool
		noCA    bool
		spec    bootstrapv1.KubeadmConfigSpec
		want    string
		again   time.Duration // it requeues itself: no watch shows a Secret that a user did not label
	}{
		"the infrastructure":        {cluster: cluster(func(c *clusterv1.Cluster) { c.Status = clusterv1.ClusterStatus{} }), machine: controlPlane("m"), want: "Waiting for the infrastructure of Cluster demo to be provisioned"},
		"a worker for kubeadm init": {cluster: cluster(), machine: worker("m"), want: "Waiting for the control plane of Cluster demo to be initialized"},
		"the endpoint":              {cluster: cluster(initialized, noEndpoint), machine: worker("m"), want: "Waiting for Cluster demo to have a spec.controlPlaneEndpoint"},
		"the endpoint, with a file": {cluster: cluster(initialized, noEndpoint), machine: worker("m"), spec: byFile(), want: "Waiting for Cluster demo to have a spec.controlPlaneEndpoint"},
		"the connection":            {cluster: cluster(initialized), machine: worker("m"), down: true, want: "Waiting for the connection to the workload cluster of Cluster demo"},
		"the certificate authority": {cluster: cluster(initialized), machine: worker("m"), noCA: true, want: "Waiting for Secret ns/demo-ca with certificates of the cluster", again: secrets.Interval},
		"an external etcd's client": {
			cluster: cluster(initialized), machine: controlPlane("m"), want: "Waiting for Secret ns/demo-apiserver-etcd-client with certificates of the cluster", again: secrets.Interval,
			spec: bootstrapv1.KubeadmConfigSpec{ClusterConfiguration: bootstrapv1.ClusterConfiguration{Etcd: bootstrapv1.Etcd{External: bootstrapv1.ExternalEtcd{Endpoints: []string{"https://e:2379"}}}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{tc.cluster, tc.machine, configFor(tc.machine, func(c *bootstrapv1.KubeadmConfig) { c.Spec = tc.spec })}
			if !tc.noCA {
				objects = append(objects, certSecrets()...)
			}
			w := newWorld(t, objects...)
			w.down = tc.down
			if res := w.run("m"); res.RequeueAfter != tc.again {
				t.Errorf("requeues in %v, want %v: else a watch must trigger a reconcile", res.RequeueAfter, tc.again)
			}
			if got := states(w.config("m"))[1]; got != "DataSecretAvailable=False NotAvailable: "+tc.want {
				t.Errorf("condition %q, want %q", got, tc.want)
			}
			if diff := cmp.Diff([]string{"patch status of KubeadmConfig"}, w.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			w.run("m")
			if len(w.writes) != 0 {
				t.Errorf("waiting on wrote %v", w.writes)
			}
		})
	}
}

func noEndpoint(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} }

func byFile() (spec bootstrapv1.KubeadmConfigSpec) {
	spec.JoinConfiguration.Discovery.File = bootstrapv1.FileDiscovery{
		KubeConfigPath: "/etc/kubernetes/discovery.conf",
		KubeConfig:     bootstrapv1.FileDiscoveryKubeConfig{User: bootstrapv1.KubeConfigUser{Exec: bootstrapv1.KubeConfigAuthExec{Command: "/bin/login"}}},
	}
	return spec
}

func TestDiscoveryOfTheUserIsRespected(t *testing.T) {
	t.Parallel()
	t.Run("by file", func(t *testing.T) {
		t.Parallel()
		m := worker("w1")
		w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m, func(c *bootstrapv1.KubeadmConfig) { c.Spec = byFile() }))
		if res := w.run("w1"); res.RequeueAfter != 0 {
			t.Errorf("looks after a token in %v: there is none", res.RequeueAfter)
		}
		if diff := cmp.Diff([]string{"create Secret", "patch status of KubeadmConfig"}, w.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		kubeconfig := w.document("w1").file("/etc/kubernetes/discovery.conf")
		if !strings.Contains(kubeconfig, "server: https://api.example:6443") || !strings.Contains(kubeconfig, "command: /bin/login") {
			t.Errorf("kubeconfig for discovery:\n%s", kubeconfig)
		}
		if list := (&corev1.SecretList{}); w.workload.List(t.Context(), list) != nil || len(list.Items) != 0 {
			t.Errorf("a token was made: %d", len(list.Items))
		}
	})
	t.Run("by token", func(t *testing.T) {
		t.Parallel()
		m := worker("w1")
		own := bootstrapv1.BootstrapTokenDiscovery{Token: "ghijkl.0123456789abcdef", APIServerEndpoint: "10.0.0.1:6443", UnsafeSkipCAVerification: new(true)}
		w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m, func(c *bootstrapv1.KubeadmConfig) { c.Spec.JoinConfiguration.Discovery.BootstrapToken = own }))
		w.down = true // not needed
		w.run("w1")
		if diff := cmp.Diff(own, w.document("w1").kubeadm(t, kubeadm.JoinConfigPath).Join.Discovery.BootstrapToken); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestAWorkerMayNotJoinAsControlPlane(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m, func(c *bootstrapv1.KubeadmConfig) {
		c.Spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	}))
	_, err := w.try("w1")
	if err == nil {
		t.Error("Reconcile gave no error")
	}
	const want = "DataSecretAvailable=False NotAvailable: spec.joinConfiguration.controlPlane is set, but the machine is a worker: remove it, or label the machine cluster.x-k8s.io/control-plane"
	if got := states(w.config("w1"))[1]; got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
	if read(t, w.workload, "kube-system", "bootstrap-token-abcdef") != nil {
		t.Error("a token was made for nothing")
	}
}

// TestATokenIsMadeOnce makes the write of the data Secret fail: the next attempt
// uses the token that is in the spec by then.
func TestATokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m))
	w.fail["create Secret"] = errors.New("quota exceeded")
	if _, err := w.try("w1"); err == nil {
		t.Fatal("Reconcile gave no error")
	}
	if got := w.config("w1").Spec.JoinConfiguration.Discovery.BootstrapToken.Token; got != testToken {
		t.Fatalf("token in the spec = %q", got)
	}
	for _, state := range states(w.config("w1")) {
		if strings.Contains(state, "0123456789abcdef") {
			t.Errorf("the token shows in %s", state)
		}
	}
	clear(w.fail)
	w.r.NewToken = func() (bootstrapv1.BootstrapTokenString, error) {
		return bootstrapv1.BootstrapTokenString{}, errors.New("a second token was asked for")
	}
	w.run("w1")
	if got := w.document("w1").kubeadm(t, kubeadm.JoinConfigPath).Join.Discovery.BootstrapToken.Token; got != testToken {
		t.Errorf("token in the data = %q, want %q", got, testToken)
	}
}

func TestNoFileComesFromASecretOfAnotherCluster(t *testing.T) {
	t.Parallel()
	theirs := dataSecret("prod-ca", func(s *corev1.Secret) { s.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"} })
	m := worker("w1")
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), theirs, configFor(m, func(c *bootstrapv1.KubeadmConfig) {
		c.Spec.Files = []bootstrapv1.File{{Path: "/raw", ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "prod-ca", Key: "value"}}}}
	}))
	const want = "secret ns/prod-ca is held by Cluster prod, by its label cluster.x-k8s.io/cluster-name: name another Secret, or remove that owner or label"
	if _, err := w.try("w1"); err == nil || !strings.Contains(err.Error(), want) || count(w.writes, "create Secret") > 0 {
		t.Errorf("error %v, writes %v, want %s", err, w.writes, want)
	}
}

func TestFilesAndPasswordsComeFromWhereTheyAreKept(t *testing.T) {
	t.Parallel()
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "kept"}, Data: map[string][]byte{"file": []byte("cp={{ .controlPlane.version }}"), "hash": []byte("$6$x")}}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp"}, Spec: controlplanev1.KubeadmControlPlaneSpec{Version: "1.36.4"}}
	crd := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"}},
	}
	from := bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "kept", Key: "file"}}
	m := worker("w1")
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), kept, kcp, crd, configFor(m, func(c *bootstrapv1.KubeadmConfig) {
		c.Spec.Files = []bootstrapv1.File{
			{Path: "/raw", ContentFrom: from, Permissions: "0600"},
			{Path: "/template", ContentFrom: from, ContentFormat: bootstrapv1.FileContentFormatTemplate},
		}
		c.Spec.Users = []bootstrapv1.User{{Name: "ops", PasswdFrom: bootstrapv1.PasswdSource{Secret: bootstrapv1.SecretPasswdSource{Name: "kept", Key: "hash"}}}}
	}))
	w.run("w1")
	doc := w.document("w1")
	got := []string{doc.file("/raw"), doc.file("/template"), doc.Users[0].Passwd}
	if diff := cmp.Diff([]string{"cp={{ .controlPlane.version }}\n", "cp=v1.36.4\n", "$6$x"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if stored := w.config("w1").Spec; stored.Files[0].Content != "" || stored.Users[0].Passwd != "" {
		t.Error("what the Secret holds was copied into the spec")
	}
}

func TestSecretsWithoutALabelAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	config := configFor(controlPlane("m"), func(c *bootstrapv1.KubeadmConfig) {
		c.Spec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"https://e:2379"}, CAFile: "/ca", CertFile: "/crt", KeyFile: "/key"}
	})
	w := newWorld(t, cluster(initialized), controlPlane("m"), config)
	// The cache shows only objects with the label.
	w.r.Mgmt = interceptor.NewClient(w.mgmt.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, obj, opts...)
		if _, ok := obj.(*corev1.Secret); ok && err == nil && obj.GetLabels()[clusterv1.ClusterNameLabel] == "" {
			return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
		}
		return err
	}})
	w.r.Live = w.mgmt
	for _, o := range certSecrets() {
		o.SetLabels(nil)
		if s := o.(*corev1.Secret); s.Name == "demo-etcd" {
			delete(s.Data, "tls.key") // the operator of an external etcd keeps it
		}
		if err := w.mgmt.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if res := w.run("m"); res.RequeueAfter != secrets.Interval {
		t.Errorf("looks for its etcd's client again in %v, want %v", res.RequeueAfter, secrets.Interval)
	}
	pair, err := certs.NewCA(certs.ECDSAP256, "x", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	brought := pair.Secret(types.NamespacedName{Namespace: "ns", Name: "demo"}, certs.APIServerEtcdClient, nil)
	brought.Labels = nil
	if err := w.mgmt.Create(t.Context(), brought); err != nil {
		t.Fatal(err)
	}
	w.run("m")
	if got := states(w.config("m"))[1]; got != "DataSecretAvailable=True Available" {
		t.Errorf("condition %q", got)
	}
	for _, name := range []string{"demo-ca", "demo-etcd", "demo-proxy", "demo-sa", "demo-apiserver-etcd-client"} {
		if got := w.secret(name).Labels[clusterv1.ClusterNameLabel]; got != "demo" {
			t.Errorf("Secret %s has the label %q: its changes trigger no reconcile", name, got)
		}
	}
}
