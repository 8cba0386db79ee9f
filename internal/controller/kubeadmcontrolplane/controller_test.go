// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

func TestFinalizerIsStoredBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) { kcp.Finalizers = nil })
	if _, err := l.once(); err != nil || l.writes != 1 || len(l.controlPlane().Finalizers) != 1 {
		t.Errorf("%d writes, finalizers %v, %v", l.writes, l.controlPlane().Finalizers, err)
	}
}

func TestNothingIsMadeBeforeTheInfrastructure(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(c *clusterv1.Cluster, _ *controlplanev1.KubeadmControlPlane) {
		c.Status.Initialization.InfrastructureProvisioned = nil
	})
	l.settle()
	var secrets corev1.SecretList
	l.must(l.Mgmt.List(t.Context(), &secrets))
	if len(secrets.Items) != 0 || len(l.machines()) != 0 {
		t.Errorf("%d Secrets, %d machines", len(secrets.Items), len(l.machines()))
	}
	l.want(l.controlPlane(), "Initialized False NotInitialized", "Available False NotAvailable", "CertificatesAvailable False NotAvailable", "ScalingUp True ScalingUp", "Paused False NotPaused")
}

func TestFirstMachineComesWithEverything(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"team": "a"}
		kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.Name = "j"
		kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.Name = "i"
	})
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	m := l.machines()[0]
	want := map[string]string{"team": "a", "cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "cp"}
	if diff := cmp.Diff(want, m.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; !held || m.Finalizers[0] != clusterv1.MachineFinalizer || !metav1.IsControlledBy(m, l.controlPlane()) {
		t.Errorf("metadata %+v", m.ObjectMeta)
	}
	var config bootstrapv1.KubeadmConfig
	var infra infrav1.LocalMachine
	l.must(errors.Join(l.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(m), &config), l.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(m), &infra)))
	if config.Spec.InitConfiguration.NodeRegistration.Name != "i" || config.Spec.JoinConfiguration.NodeRegistration.Name != "" || m.Spec.Bootstrap.ConfigRef.Name != m.Name {
		t.Errorf("config %+v", config.Spec)
	}
	if infra.Annotations["cluster.x-k8s.io/cloned-from-name"] != "small" || infra.Annotations["cluster.x-k8s.io/cloned-from-groupkind"] != "LocalMachineTemplate.infrastructure.capstan.dev" || m.Spec.InfrastructureRef.Kind != "LocalMachine" {
		t.Errorf("infrastructure %+v", infra.ObjectMeta)
	}
	for _, name := range []string{"demo-ca", "demo-etcd", "demo-proxy", "demo-sa", "demo-kubeconfig"} {
		var s corev1.Secret
		l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s))
		if !metav1.IsControlledBy(&s, l.controlPlane()) || s.Type != clusterv1.ClusterSecretType || s.Labels[clusterv1.ClusterNameLabel] != "demo" {
			t.Errorf("Secret %s: %+v", name, s.ObjectMeta)
		}
	}
	// five Secrets, three objects of the machine, the template's owner, one status
	if l.writes != 10 {
		t.Errorf("%d writes, want 10", l.writes)
	}
	before := l.writes
	if _, err := l.once(); err != nil || l.writes != before {
		t.Errorf("%d writes that change nothing, %v", l.writes-before, err)
	}
}

func TestFailedCreationLeavesNothingAndIsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.refuse = func(obj client.Object) error {
		if _, ok := obj.(*clusterv1.Machine); ok {
			return errors.New("quota")
		}
		return nil
	}
	_, err := l.once()
	if err == nil || !strings.Contains(err.Error(), "create the first machine: have 0, want 1: create Machine ns/cp-1: quota") {
		t.Errorf("error %v", err)
	}
	var configs bootstrapv1.KubeadmConfigList
	var infra infrav1.LocalMachineList
	l.must(errors.Join(l.Mgmt.List(t.Context(), &configs), l.Mgmt.List(t.Context(), &infra)))
	if len(configs.Items) != 0 || len(infra.Items) != 0 {
		t.Errorf("left behind: %d configs, %d machines", len(configs.Items), len(infra.Items))
	}
	kcp := l.controlPlane()
	l.want(kcp, "ScalingUp True ScalingUp", "CertificatesAvailable True Available")
	if kcp.Status.ObservedGeneration != 0 {
		t.Errorf("observed generation %d after a failure", kcp.Status.ObservedGeneration)
	}
}

func TestMachinesJoinOneAtATime(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	want := []string{
		"create the first machine: have 0, want 3",
		"create a machine that joins: have 1, want 3",
		"create a machine that joins: have 2, want 3",
	}
	if diff := cmp.Diff(want, l.said); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	kcp := l.controlPlane()
	l.want(kcp, "Available True Available", "Initialized True Initialized", "EtcdClusterHealthy True Healthy", "ControlPlaneComponentsHealthy True Healthy",
		"MachinesReady True Ready", "MachinesUpToDate True UpToDate", "RollingOut False NotRollingOut", "ScalingUp False NotScalingUp", "Deleting False NotDeleting")
	st := kcp.Status
	if *st.Replicas != 3 || *st.ReadyReplicas != 3 || *st.AvailableReplicas != 3 || *st.UpToDateReplicas != 3 || st.Version != "v1.35.0" ||
		st.Selector != "cluster.x-k8s.io/cluster-name=demo,cluster.x-k8s.io/control-plane" || st.ObservedGeneration != 1 {
		t.Errorf("status %+v", st)
	}
	for _, m := range l.machines() {
		l.want(m, "APIServerPodHealthy True Running", "EtcdMemberHealthy True Healthy", "NodeKubeadmLabelsAndTaintsSet True Set", "UpToDate True UpToDate")
	}
}

func TestReconcileDoesNotCallEtcdInSteadyState(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	asked, writes := l.etcd.asked.Load(), l.writes
	l.clock.Step(time.Minute)
	if _, err := l.once(); err != nil || l.etcd.asked.Load() != asked || l.writes != writes {
		t.Errorf("asked %d times, wrote %d times, %v", l.etcd.asked.Load()-asked, l.writes-writes, err)
	}
	l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"}) // a restart
	res, err := l.once()
	if err != nil || l.etcd.asked.Load() != asked+3 || l.writes != writes {
		t.Errorf("after a restart: asked %d times, wrote %d times, %v", l.etcd.asked.Load()-asked, l.writes-writes, err)
	}
	if res.RequeueAfter != controlplane.InspectionLasts {
		t.Errorf("requeues after %s, want %s", res.RequeueAfter, controlplane.InspectionLasts)
	}
}

func TestScalingDownRemovesMembersBeforeMachines(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.said = nil
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = new(int32(1)) })
	l.settle()
	if diff := cmp.Diff([]string{"delete cp-1: have 3, want 1", "delete cp-2: have 2, want 1"}, l.said); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lead node-cp-3", "remove node-cp-1", "remove node-cp-2"}, l.etcd.log); diff != "" {
		t.Errorf("etcd (-want +got)\n%s", diff)
	}
	if len(l.machines()) != 1 || len(l.etcd.list) != 1 {
		t.Errorf("%d machines, %d members", len(l.machines()), len(l.etcd.list))
	}
	l.want(l.controlPlane(), "Available True Available", "ScalingDown False NotScalingDown")
}

func TestUpgradeReplacesOneAtATime(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.settle()
	l.said = nil
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.36.0" })
	l.settle()
	want := []string{"create a machine that joins: 1 of 1 are not up to date", "delete cp-1: 1 of 2 are not up to date"}
	if diff := cmp.Diff(want, l.said); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	var config corev1.ConfigMap
	var proxy appsv1.DaemonSet
	l.must(errors.Join(l.inside.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kubeadm-config"}, &config),
		l.inside.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kube-proxy"}, &proxy)))
	if !strings.Contains(config.Data["ClusterConfiguration"], "kubernetesVersion: v1.36.0") {
		t.Errorf("kubeadm-config: %s", config.Data["ClusterConfiguration"])
	}
	if got := proxy.Spec.Template.Spec.Containers[0].Image; got != "registry.k8s.io/kube-proxy:v1.36.0" {
		t.Errorf("kube-proxy %s", got)
	}
	l.want(l.controlPlane(), "RollingOut False NotRollingOut", "MachinesUpToDate True UpToDate", "Available True Available")
}

func TestControlPlaneReportsBlockedUpdateOfCoreDNS(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}
	dns := &appsv1.Deployment{ObjectMeta: meta}
	dns.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coredns", Image: "registry.k8s.io/coredns/coredns:v1.12.0"}}
	l.must(errors.Join(l.inside.Create(t.Context(), dns), l.inside.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"Corefile": ".:53 {\n    errors\n}\n"}})))
	l.settle()
	blocked := func() *metav1.Condition {
		return conditions.Get(l.controlPlane(), controlplanev1.KubeadmControlPlaneAddonsUpToDateCondition)
	}
	kubeadm := func() string {
		var config corev1.ConfigMap
		l.must(l.inside.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kubeadm-config"}, &config))
		return config.Data["ClusterConfiguration"]
	}
	before := kubeadm()
	for _, fix := range []func(*controlplanev1.KubeadmControlPlane){
		func(kcp *controlplanev1.KubeadmControlPlane) { // back
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = ""
		},
		func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Annotations = map[string]string{controlplanev1.SkipCoreDNSAnnotation: ""}
		},
	} {
		if c := blocked(); c != nil {
			t.Errorf("condition %v, want none", c)
		}
		l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v9.0.0"
		})
		l.settle() // which fails after an error
		if c := blocked(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "UpdateBlocked" || !strings.Contains(c.Message, "cannot migrate up to '9.0.0' from '1.12.0'") {
			t.Errorf("condition %v", c)
		}
		if got := kubeadm(); got != before {
			t.Errorf("kubeadm-config %s, want %s", got, before)
		}
		l.change(fix)
		l.settle()
	}
	if c := blocked(); c != nil {
		t.Errorf("condition %v, want none", c)
	}
}

func TestLabelsAndTimeoutsFollowInPlace(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"old": "x"}
	})
	l.settle()
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"new": "y"}
		kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(7))
	})
	l.settle()
	m := l.machines()[0]
	var infra infrav1.LocalMachine
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(m), &infra))
	for _, labels := range []map[string]string{m.Labels, infra.Labels} {
		if _, still := labels["old"]; still || labels["new"] != "y" {
			t.Errorf("labels %v", labels)
		}
	}
	if *m.Spec.Deletion.NodeDrainTimeoutSeconds != 7 || m.Name != "cp-1" {
		t.Errorf("spec %+v", m.Spec)
	}
}

func TestLabelsThatCouldNotBePassedOnArePassedOnLater(t *testing.T) {
	t.Parallel()
	quota := errors.New("quota")
	for name, tc := range map[string]struct{ config, infrastructure bool }{
		"to the config":         {config: true},
		"to the infrastructure": {infrastructure: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
				kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"old": "x"}
			})
			l.settle()
			l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
				kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"new": "y"}
			})
			l.reject = func(obj client.Object) error {
				kind := obj.GetObjectKind().GroupVersionKind().Kind
				if kind == "KubeadmConfig" && tc.config || kind == "LocalMachine" && tc.infrastructure {
					return quota
				}
				return nil
			}
			if _, err := l.once(); !errors.Is(err, quota) {
				t.Errorf("error %v, want %v", err, quota)
			}
			if got := l.machines()[0].Labels; got["new"] != "" {
				t.Errorf("the Machine is ahead of what it refers to: %v", got)
			}
			l.reject = nil
			l.settle()
			m := l.machines()[0]
			var config bootstrapv1.KubeadmConfig
			var infra infrav1.LocalMachine
			l.must(errors.Join(l.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(m), &config), l.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(m), &infra)))
			for _, obj := range []client.Object{m, &config, &infra} {
				if labels := obj.GetLabels(); labels["new"] != "y" || labels["old"] != "" {
					t.Errorf("labels of %T: %v", obj, labels)
				}
			}
		})
	}
}

func TestRubbishInASecretIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.settle()
	var s corev1.Secret
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo-ca"}, &s))
	s.Data["tls.crt"] = []byte("hunter2")
	l.must(l.Mgmt.Update(t.Context(), &s))
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	kcp := l.controlPlane()
	l.want(kcp, "CertificatesAvailable False NotAvailable", "Available False NotAvailable")
	message := conditions.Message(kcp, "CertificatesAvailable")
	if !strings.HasPrefix(message, `secret ns/demo-ca, key "tls.crt": it holds no PEM block`) || strings.Contains(message, "hunter2") {
		t.Errorf("message %q", message)
	}
}

func TestKeysAreOfTheAlgorithmThatIsChosen(t *testing.T) {
	t.Parallel()
	for algorithm, want := range map[bootstrapv1.EncryptionAlgorithmType]string{"": "*rsa.PrivateKey 2048", bootstrapv1.EncryptionAlgorithmECDSAP256: "*ecdsa.PrivateKey 256"} {
		l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.EncryptionAlgorithm = algorithm
		})
		l.settle()
		keys := map[string][]byte{}
		for _, name := range []string{"demo-ca", "demo-etcd", "demo-proxy", "demo-sa", "demo-kubeconfig"} {
			var s corev1.Secret
			l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s))
			keys[name] = s.Data["tls.key"]
			if name == "demo-kubeconfig" {
				cfg, err := kubeconfig.FromSecret(&s)
				l.must(err)
				keys[name] = cfg.KeyData
			}
		}
		for name, data := range keys {
			key, err := certs.ParseKey(data)
			l.must(err)
			got := fmt.Sprintf("%T", key)
			switch k := key.(type) {
			case *rsa.PrivateKey:
				got += fmt.Sprintf(" %d", k.N.BitLen())
			case *ecdsa.PrivateKey:
				got += fmt.Sprintf(" %d", k.Curve.Params().BitSize)
			}
			if got != want {
				t.Errorf("%q: the key of %s is a %s, want %s", algorithm, name, got, want)
			}
		}
	}
}

func TestKeyOfTheAuthorityIsNeeded(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]bool{"an empty key": true, "no key": false} {
		l := newLab(t, 1)
		l.settle()
		var s corev1.Secret
		l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo-ca"}, &s))
		if delete(s.Data, "tls.key"); empty {
			s.Data["tls.key"] = nil
		}
		l.must(l.Mgmt.Update(t.Context(), &s))
		if _, err := l.once(); err != nil {
			t.Fatal(err)
		}
		kcp := l.controlPlane()
		l.want(kcp, "CertificatesAvailable False NotAvailable")
		want := `secret ns/demo-ca, key "tls.key": it is missing or empty; put the PEM encoded private key of the certificate in tls.crt there`
		if got := conditions.Message(kcp, "CertificatesAvailable"); got != want {
			t.Errorf("%s: message %q", name, got)
		}
		l.clock.Step(200 * 24 * time.Hour) // the kubeconfig should be renewed, and is still valid
		if _, err := l.once(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExternalEtcdsSecretsAreAwaitedAndFoundWithoutALabel(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"https://e:2379"}}
	})
	res, err := l.once()
	if err != nil || res.RequeueAfter != repairInterval {
		t.Errorf("requeues in %v, %v; want %v", res.RequeueAfter, err, repairInterval)
	}
	l.want(l.controlPlane(), "CertificatesAvailable False NotAvailable")
	pair, err := certs.NewCA(certs.ECDSAP256, "etcd", l.clock.Now(), 0)
	l.must(err)
	for purpose, pair := range map[certs.Purpose]certs.Pair{certs.Etcd: {Cert: pair.Cert}, certs.APIServerEtcdClient: pair} {
		s := pair.Secret(types.NamespacedName{Namespace: namespace, Name: "demo"}, purpose, nil)
		s.Labels = nil
		l.must(l.Mgmt.Create(t.Context(), s))
	}
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	l.want(l.controlPlane(), "CertificatesAvailable True Available")
	var s corev1.Secret
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo-etcd"}, &s))
	if s.Labels[clusterv1.ClusterNameLabel] != "demo" || len(s.OwnerReferences) != 0 {
		t.Errorf("labels %v, owners %v", s.Labels, s.OwnerReferences)
	}
}

// TestSecretsWhoseOwnersWereLostAreOwnedAgain covers a restore by a tool that drops
// references: no other controller would renew the kubeconfig.
func TestSecretsWhoseOwnersWereLostAreOwnedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.settle()
	for _, purpose := range []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount, certs.Kubeconfig} {
		key := client.ObjectKey{Namespace: namespace, Name: certs.SecretName("demo", purpose)}
		var s corev1.Secret
		l.must(l.Mgmt.Get(t.Context(), key, &s))
		s.OwnerReferences = nil
		l.must(l.Mgmt.Update(t.Context(), &s))
		if _, err := l.once(); err != nil {
			t.Fatal(err)
		}
		l.must(l.Mgmt.Get(t.Context(), key, &s))
		if !metav1.IsControlledBy(&s, l.controlPlane()) {
			t.Errorf("%s: owners %v", key, s.OwnerReferences)
		}
	}
}

func TestAKubeconfigIsReadAgainWhenItsSecretChanges(t *testing.T) {
	t.Parallel()
	authority, err := certs.New(certs.CA, certs.ECDSAP256, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(version string, validity time.Duration) *corev1.Secret {
		data, err := kubeconfig.New(kubeconfig.Options{Cluster: "demo", Server: "https://127.0.0.1:1", CA: authority, Now: time.Now(), Validity: validity})
		if err != nil {
			t.Fatal(err)
		}
		s := kubeconfig.Secret(client.ObjectKey{Namespace: namespace, Name: "demo"}, data, nil)
		s.ResourceVersion = version
		return s
	}
	var r Reconciler
	kcp := &controlplanev1.KubeadmControlPlane{}
	read := func(s *corev1.Secret) time.Time {
		t.Helper()
		due, err := r.renewal(kcp, s)
		if err != nil || !due.renewed {
			t.Fatalf("renewed: %v, %v", due.renewed, err)
		}
		return due.at
	}
	first := read(secret("1", time.Hour))
	if again := read(secret("1", 10*time.Hour)); !again.Equal(first) {
		t.Error("read again although it did not change")
	}
	if changed := read(secret("2", 10*time.Hour)); !changed.After(first) {
		t.Errorf("renewed at %s, as before the change", changed)
	}
	other := secret("2", 20*time.Hour)
	other.UID = "made-again"
	if replaced := read(other); !replaced.After(first.Add(5 * time.Hour)) {
		t.Errorf("renewed at %s, as that which it replaces", replaced)
	}
	for range 2 {
		if _, err := r.renewal(kcp, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "3"}}); err == nil {
			t.Error("a Secret without a kubeconfig passes")
		}
	}
}

func TestKubeconfigIsRenewedAfterARestoreWithNewUIDs(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.settle()
	key := client.ObjectKey{Namespace: namespace, Name: "demo-kubeconfig"}
	var before, after corev1.Secret
	l.must(l.Mgmt.Get(t.Context(), key, &before))
	before.OwnerReferences[0].UID = "from-before-the-restore"
	l.must(l.Mgmt.Update(t.Context(), &before))
	l.clock.Step(200 * 24 * time.Hour)
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	l.must(l.Mgmt.Get(t.Context(), key, &after))
	if string(after.Data["value"]) == string(before.Data["value"]) || after.OwnerReferences[0].UID != l.controlPlane().UID {
		t.Errorf("not renewed: owners %+v", after.OwnerReferences)
	}
}

func TestMissingTemplateIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.must(l.Mgmt.Delete(t.Context(), &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"}}))
	l.settle()
	want := "Scaling up from 0 to 1 replica is blocked because:\n* LocalMachineTemplate small, named by spec.machineTemplate.spec.infrastructureRef, does not exist: create it, or correct the reference"
	if got := conditions.Message(l.controlPlane(), "ScalingUp"); got != want {
		t.Errorf("message %q", got)
	}
}

func TestATemplateOfAnotherClusterIsNotUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	template := &infrav1.LocalMachineTemplate{}
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "small"}, template))
	template.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "prod", UID: "p"}}
	l.must(l.Mgmt.Update(t.Context(), template))
	l.settle()
	want := "Scaling up from 0 to 1 replica is blocked because:\n* spec.machineTemplate.spec.infrastructureRef: LocalMachineTemplate ns/small is held by Cluster prod: refer to another object, or remove that owner or label"
	if got := conditions.Message(l.controlPlane(), "ScalingUp"); got != want {
		t.Errorf("message %q", got)
	}
}

func TestAClusterThatDoesNotReferToTheControlPlaneHasNone(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	cluster := &clusterv1.Cluster{}
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, cluster))
	cluster.Spec.ControlPlaneRef.Name = "another"
	l.must(l.Mgmt.Update(t.Context(), cluster))
	l.settle()
	if got := l.controlPlane(); len(got.Status.Conditions) > 0 {
		t.Errorf("conditions %v: want it left alone", got.Status.Conditions)
	}
}

func TestLostConnectionIsReportedAfterAWhile(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.down, l.lost = true, l.clock.Now()
	res, err := l.once()
	if err != nil || res.RequeueAfter != controlplane.ConnectionGrace {
		t.Errorf("result %v, %v", res, err)
	}
	l.want(l.controlPlane(), "Available True Available", "EtcdClusterHealthy True Healthy")
	l.clock.Step(controlplane.ConnectionGrace + time.Second)
	l.settle()
	l.want(l.controlPlane(), "Available Unknown InspectionFailed", "EtcdClusterHealthy Unknown ConnectionDown", "ControlPlaneComponentsHealthy Unknown ConnectionDown")
	l.want(l.machines()[0], "APIServerPodHealthy Unknown ConnectionDown")
	l.down = false
	l.settle()
	l.want(l.controlPlane(), "Available True Available", "EtcdClusterHealthy True Healthy")
}

func TestUnhealthyMachineIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.said = nil
	l.etcd.sick = map[string]bool{"node-cp-2": true}
	l.markForRemediation("cp-2")
	l.Forget(client.ObjectKey{Namespace: namespace, Name: "cp"})
	l.settle()
	want := []string{"delete cp-2: it is unhealthy", "create a machine that joins: have 2, want 3"}
	if diff := cmp.Diff(want, l.said); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	kcp := l.controlPlane()
	if _, still := kcp.Annotations[controlplanev1.RemediationInProgressAnnotation]; still || kcp.Status.LastRemediation.Machine != "cp-2" {
		t.Errorf("annotations %v, status %+v", kcp.Annotations, kcp.Status.LastRemediation)
	}
	newest := l.machines()[2]
	if !strings.Contains(newest.Annotations[controlplanev1.RemediationForAnnotation], `"machine":"cp-2"`) {
		t.Errorf("annotations of %s: %v", newest.Name, newest.Annotations)
	}
}

func TestAReplacementThatIsNotWantedAnyMoreHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	l := newLab(t, 5)
	l.settle()
	l.markForRemediation("cp-2")
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = new(int32(3)) })
	l.settle()
	l.said = nil
	l.markForRemediation("cp-3")
	l.settle()
	if diff := cmp.Diff([]string{"delete cp-3: it is unhealthy", "create a machine that joins: have 2, want 3"}, l.said); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

func TestAReplacementWaitsForTheWorkloadCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	l.markForRemediation("cp-2")
	for range 2 { // the first deletes it, the second removes it
		if _, err := l.once(); err != nil {
			t.Fatal(err)
		}
		l.live()
	}
	l.down, l.lost = true, l.clock.Now()
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = "v1.36.0" })
	l.said = nil
	if _, err := l.once(); err != nil || len(l.said) != 0 {
		t.Errorf("error %v, events %q", err, l.said)
	}
	want := "Scaling up from 2 to 3 replicas is blocked because:\n* waiting for a connection to the workload cluster"
	if got := conditions.Message(l.controlPlane(), "ScalingUp"); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	l.down = false
	l.settle()
	if len(l.said) == 0 || l.said[0] != "create a machine that joins: 2 of 2 are not up to date" {
		t.Errorf("events %q", l.said)
	}
}

func TestDeletionWaitsForWorkersAndThenTakesAll(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "w", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}, Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: clusterv1.MachinePoolSpec{ClusterName: "demo"}}
	l.must(errors.Join(l.Mgmt.Create(t.Context(), worker), l.Mgmt.Create(t.Context(), pool)))
	l.must(l.Mgmt.Delete(t.Context(), l.controlPlane()))
	for _, step := range []struct {
		by   string
		last client.Object
	}{{"1 worker Machine: w; 1 MachinePool: p", worker}, {"1 MachinePool: p", pool}} {
		l.settle()
		kcp := l.controlPlane()
		l.want(kcp, "Deleting True WaitingForWorkersDeletion", "Available False NotAvailable")
		if got := conditions.Message(kcp, "Deleting"); got != "KubeadmControlPlane deletion blocked by "+step.by || len(l.machines()) != 3 {
			t.Fatalf("%d machines while there is a worker: %s", len(l.machines()), got)
		}
		l.must(l.Mgmt.Delete(t.Context(), step.last))
	}
	if _, err := l.once(); err != nil {
		t.Fatal(err)
	}
	l.want(l.controlPlane(), "Deleting True WaitingForMachineDeletion")
	for _, m := range l.machines() {
		// Otherwise each would first report that it waits for its hook.
		if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; held || !m.DeletionTimestamp.IsZero() {
			t.Errorf("Machine %s: held %v, deleted %v; want its hook removed before it is deleted", m.Name, held, m.DeletionTimestamp)
		}
	}
	l.settle()
	err := l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cp"}, &controlplanev1.KubeadmControlPlane{})
	if !apierrors.IsNotFound(err) || len(l.machines()) != 0 || len(l.etcd.log) != 0 {
		t.Errorf("%v, %d machines, etcd %v", err, len(l.machines()), l.etcd.log)
	}
}

// TestADeletionThatOrphansKeepsTheMachines is kubectl delete --cascade=orphan: another
// control plane can adopt the machines.
func TestADeletionThatOrphansKeepsTheMachines(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	kcp := l.controlPlane()
	kcp.Finalizers = append(kcp.Finalizers, metav1.FinalizerOrphanDependents)
	l.must(l.Mgmt.Update(t.Context(), kcp))
	l.must(l.Mgmt.Delete(t.Context(), kcp))
	l.settle()
	if got := l.controlPlane().Finalizers; len(got) != 1 {
		t.Errorf("finalizers %v", got)
	}
	for _, m := range l.machines() {
		if _, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]; !held || !m.DeletionTimestamp.IsZero() {
			t.Errorf("Machine %s: held %v, deleted %v", m.Name, held, m.DeletionTimestamp)
		}
	}
	if len(l.machines()) != 3 {
		t.Errorf("%d machines", len(l.machines()))
	}
}

func TestPausedControlPlaneIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(c *clusterv1.Cluster, _ *controlplanev1.KubeadmControlPlane) { c.Spec.Paused = new(true) })
	l.settle()
	if l.writes != 1 || len(l.machines()) != 0 {
		t.Errorf("%d writes, %d machines", l.writes, len(l.machines()))
	}
	l.want(l.controlPlane(), "Paused True Paused")
}

func TestANewPausedControlPlaneHasItsFinalizer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*clusterv1.Cluster, *controlplanev1.KubeadmControlPlane){
		"paused by its Cluster": func(c *clusterv1.Cluster, _ *controlplanev1.KubeadmControlPlane) { c.Spec.Paused = new(true) },
		"paused by itself": func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
		"paused before its Cluster took it": func(c *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
			c.Spec.Paused, kcp.OwnerReferences = new(true), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) { kcp.Finalizers = nil }, change)
			l.settle()
			if kcp := l.controlPlane(); len(kcp.Finalizers) != 1 || l.writes != 2 {
				t.Errorf("finalizers %v, %d writes; want one, in one write next to the status", kcp.Finalizers, l.writes)
			}
			l.want(l.controlPlane(), "Paused True Paused")
		})
	}
}

func TestAControlPlaneOutlivesItsClusterAndEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	worker := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "w", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}, Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
	l.must(l.Mgmt.Create(t.Context(), worker))
	l.must(l.Mgmt.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}))
	before := l.writes
	if _, err := l.once(); err != nil || l.writes != before {
		t.Errorf("%d writes before it is deleted, %v", l.writes-before, err)
	}
	l.must(l.Mgmt.Delete(t.Context(), l.controlPlane()))
	l.settle()
	l.want(l.controlPlane(), "Deleting True WaitingForWorkersDeletion")
	if got := l.ofWorker(t.Context(), worker); len(got) != 1 || got[0].Name != "cp" {
		t.Errorf("the deletion of a worker triggers %v", got)
	}
	l.must(l.Mgmt.Delete(t.Context(), worker))
	l.settle()
	err := l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cp"}, &controlplanev1.KubeadmControlPlane{})
	if !apierrors.IsNotFound(err) || len(l.machines()) != 0 {
		t.Errorf("%v, %d machines", err, len(l.machines()))
	}
}

func TestAControlPlaneOfNoClusterCanBeDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(_ *clusterv1.Cluster, kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Labels, kcp.OwnerReferences = nil, nil
	})
	l.settle()
	if l.writes != 0 {
		t.Errorf("%d writes", l.writes)
	}
	l.must(l.Mgmt.Delete(t.Context(), l.controlPlane()))
	l.settle()
	err := l.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cp"}, &controlplanev1.KubeadmControlPlane{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("still there: %v", err)
	}
}
