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

// joined returns a world in which the config w1 has its data, created at now.
func joined(t *testing.T, m client.Object) *world {
	t.Helper()
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m))
	w.run(m.GetName())
	return w
}

func expiration(t *testing.T, w *world) string {
	t.Helper()
	s := read(t, w.workload, "kube-system", "bootstrap-token-abcdef")
	if s == nil {
		return ""
	}
	return string(s.Data["expiration"])
}

func TestTheTokenLastsUntilThereIsANode(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	w := joined(t, m)
	w.reads = 0
	w.clock.SetTime(now.Add(4 * time.Minute))
	if res := w.run("w1"); res.RequeueAfter != time.Minute || w.reads != 0 {
		t.Errorf("before its time: again in %v after %d reads, want 1m after none", res.RequeueAfter, w.reads)
	}
	w.clock.SetTime(now.Add(5 * time.Minute))
	if res := w.run("w1"); res.RequeueAfter != 5*time.Minute || expiration(t, w) != "2026-08-01T12:20:00Z" {
		t.Errorf("in time: again in %v, the token ends %s, want 5m and 12:20", res.RequeueAfter, expiration(t, w))
	}
	w.down = true
	w.clock.SetTime(now.Add(10 * time.Minute))
	if res := w.run("w1"); res.RequeueAfter != 150*time.Second {
		t.Errorf("without a connection: again in %v, want 2m30s", res.RequeueAfter)
	}
	w.down = false
	if err := w.mgmt.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	m.Status.NodeRef.Name = "node"
	if err := w.mgmt.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.reads = 0
	if res := w.run("w1"); res.RequeueAfter != 0 || w.reads != 0 || len(w.writes) != 0 {
		t.Errorf("with a node: again in %v, %d reads, writes %v, want rest", res.RequeueAfter, w.reads, w.writes)
	}
}

func TestAMachineWhoseTokenIsGoneRests(t *testing.T) {
	t.Parallel()
	w := joined(t, worker("w1"))
	if err := w.workload.Delete(t.Context(), read(t, w.workload, "kube-system", "bootstrap-token-abcdef")); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(now.Add(5 * time.Minute))
	if res := w.run("w1"); res.RequeueAfter != 0 || len(w.writes) != 0 {
		t.Errorf("again in %v, writes %v, want rest", res.RequeueAfter, w.writes)
	}
}

func pool() *clusterv1.MachinePool {
	p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "pool"}}
	p.Spec.ClusterName = "demo"
	p.Spec.Template.Spec.ClusterName = "demo"
	p.Spec.Template.Spec.Version = "v1.36.3"
	p.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion().Group, Kind: "KubeadmConfig", Name: "p1"}
	return p
}

func TestAPoolGetsANewTokenAndData(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hasNodes, gone bool
		after          time.Duration
		wantNew        bool
		wantExpiration string // of the first token
	}{
		"its token is gone":                     {gone: true, after: 5 * time.Minute, wantNew: true},
		"no machine has joined yet":             {after: 5 * time.Minute, wantExpiration: "2026-08-01T12:20:00Z"},
		"machines have joined, the token lasts": {hasNodes: true, after: 5 * time.Minute, wantExpiration: "2026-08-01T12:15:00Z"},
		"machines have joined, the token ends":  {hasNodes: true, after: 10 * time.Minute, wantNew: true, wantExpiration: "2026-08-01T12:15:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pool()
			if tc.hasNodes {
				p.Status.NodeRefs = []corev1.ObjectReference{{Name: "node"}}
			}
			w := joined(t, p)
			if tc.gone {
				if err := w.workload.Delete(t.Context(), read(t, w.workload, "kube-system", "bootstrap-token-abcdef")); err != nil {
					t.Fatal(err)
				}
			}
			w.r.NewToken = func() (bootstrapv1.BootstrapTokenString, error) {
				return bootstrapv1.BootstrapTokenString{ID: "second", Secret: "0123456789abcdef"}, nil
			}
			w.clock.SetTime(now.Add(tc.after))
			if res := w.run("p1"); res.RequeueAfter != 5*time.Minute {
				t.Errorf("again in %v, want 5m", res.RequeueAfter)
			}
			want := testToken
			if tc.wantNew {
				want = "second.0123456789abcdef"
			}
			inData := w.document("p1").kubeadm(t, kubeadm.JoinConfigPath).Join.Discovery.BootstrapToken.Token
			inSpec := w.config("p1").Spec.JoinConfiguration.Discovery.BootstrapToken.Token
			if inData != want || inSpec != want {
				t.Errorf("token %q in the data and %q in the spec, want %q", inData, inSpec, want)
			}
			if got := expiration(t, w); got != tc.wantExpiration {
				t.Errorf("the first token ends %q, want %q", got, tc.wantExpiration)
			}
			if diff := cmp.Diff(madeStates, states(w.config("p1"))); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestATokenThatDidNotGetIntoTheDataIsReplaced makes the write of the data fail
// after the new token was created.
func TestATokenThatDidNotGetIntoTheDataIsReplaced(t *testing.T) {
	t.Parallel()
	p := pool()
	p.Status.NodeRefs = []corev1.ObjectReference{{Name: "node"}}
	w := joined(t, p)
	next := "second"
	w.r.NewToken = func() (bootstrapv1.BootstrapTokenString, error) {
		return bootstrapv1.BootstrapTokenString{ID: next, Secret: "0123456789abcdef"}, nil
	}
	w.clock.SetTime(now.Add(10 * time.Minute))
	w.fail["update Secret"] = errors.New("quota exceeded")
	if _, err := w.try("p1"); err == nil || !strings.Contains(err.Error(), "quota exceeded") {
		t.Fatalf("error %v", err)
	}
	clear(w.fail)
	next = "third1"
	w.run("p1")
	inData := w.document("p1").kubeadm(t, kubeadm.JoinConfigPath).Join.Discovery.BootstrapToken.Token
	inSpec := w.config("p1").Spec.JoinConfiguration.Discovery.BootstrapToken.Token
	if want := "third1.0123456789abcdef"; inData != want || inSpec != want {
		t.Errorf("token %q in the data and %q in the spec, want %q", inData, inSpec, want)
	}
}

func dataSecret(name string, change ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Type: certs.SecretType, Data: map[string][]byte{"value": []byte("old")}}
	for _, f := range change {
		f(s)
	}
	return s
}

func TestAfterAMoveTheDataIsTakenOver(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	m.Spec.Bootstrap.DataSecretName = new("kept")
	m.Status.NodeRef.Name = "node"
	w := newWorld(t, cluster(initialized), m, dataSecret("kept"), configFor(m))
	w.run("w1")
	if got := w.config("w1").Status; got.DataSecretName != "kept" || !ptr.Deref(got.Initialization.DataSecretCreated, false) {
		t.Errorf("status = %+v", got)
	}
	s := w.secret("kept")
	if c := metav1.GetControllerOf(s); c == nil || c.Name != "w1" || string(s.Data["value"]) != "old" {
		t.Errorf("Secret is controlled by %v and holds %q, want the config and the old data", c, s.Data["value"])
	}
	if diff := cmp.Diff([]string{"patch Secret", "patch status of KubeadmConfig"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.run("w1")
	if len(w.writes) != 0 {
		t.Errorf("a second reconcile wrote %v", w.writes)
	}
}

func TestReconcileReportsConflictingSecret(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secret  *corev1.Secret
		wantErr string
	}{
		"older data of the config": {secret: dataSecret("w1")},
		"another's": {
			secret: dataSecret("w1", func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Vault", Name: "v", UID: "v", Controller: new(true)}}
			}),
			wantErr: "Secret ns/w1, which is to hold the bootstrap data, is held by Vault v: delete the Secret, or rename the KubeadmConfig",
		},
		"another config's, which its Machine names too": {
			secret: dataSecret("w1", func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{{APIVersion: bootstrapv1.GroupVersion().String(), Kind: "KubeadmConfig", Name: "other", UID: "o", Controller: new(true)}}
			}),
			wantErr: "Secret ns/w1, which is to hold the bootstrap data, is held by KubeadmConfig other: delete the Secret, or rename the KubeadmConfig",
		},
		"another cluster's": {
			secret:  dataSecret("w1", func(s *corev1.Secret) { s.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"} }),
			wantErr: "Secret ns/w1, which is to hold the bootstrap data, is held by Cluster prod, by its label cluster.x-k8s.io/cluster-name: delete the Secret, or rename the KubeadmConfig",
		},
		"one of another type": {
			secret:  dataSecret("w1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }),
			wantErr: "Secret ns/w1, which is to hold the bootstrap data, has the type Opaque: delete the Secret, or rename the KubeadmConfig",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := worker("w1")
			w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), configFor(m), tc.secret)
			_, err := w.try("w1")
			if tc.wantErr != "" {
				if err == nil || states(w.config("w1"))[1] != "DataSecretAvailable=False NotAvailable: "+tc.wantErr {
					t.Errorf("Reconcile = %v, conditions %q, want %q", err, states(w.config("w1")), tc.wantErr)
				}
				if got := string(w.secret("w1").Data["value"]); got != "old" {
					t.Errorf("the Secret was overwritten with %d bytes", len(got))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if count(w.writes, "update Secret") != 1 || !strings.Contains(string(w.secret("w1").Data["value"]), "kubeadm join") {
				t.Errorf("writes %v, want the Secret updated", w.writes)
			}
		})
	}
}

func TestPausedConfigOnlyReportsPause(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	w := newWorld(t, cluster(initialized, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), m, certSecret(certs.CA), configFor(m))
	w.run("w1")
	if diff := cmp.Diff([]string{"Paused=True Paused: Cluster spec.paused is set to true"}, states(w.config("w1"))); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"patch status of KubeadmConfig"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestWhatTheClusterNeedsIsNoBootstrapData names Secrets of the cluster itself, as
// its user may have provided them, as bootstrap data.
func TestWhatTheClusterNeedsIsNoBootstrapData(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	m.Spec.Bootstrap.DataSecretName = new("demo-kubeconfig")
	w := newWorld(t, cluster(initialized), m, certSecret(certs.CA), dataSecret("demo-kubeconfig"), configFor(m))
	const want = "Secret ns/demo-kubeconfig, which is to hold the bootstrap data, is named as one that Cluster demo needs: delete the Secret, or rename the KubeadmConfig"
	if _, err := w.try("w1"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if owners := w.secret("demo-kubeconfig").OwnerReferences; len(owners) > 0 {
		t.Errorf("the Secret was taken over: %v", owners)
	}
}

func TestAConfigWithoutAMachineRests(t *testing.T) {
	t.Parallel()
	m := worker("w1")
	refersTo := func(config string) *clusterv1.Machine {
		other := worker("w1")
		other.Spec.Bootstrap.ConfigRef.Name = config
		return other
	}
	tests := map[string][]client.Object{
		"owned by a MachineSet":            {cluster(), configFor(m, func(c *bootstrapv1.KubeadmConfig) { c.OwnerReferences[0].Kind = "MachineSet" })},
		"its Machine refers to another":    {cluster(), refersTo("another"), configFor(m)},
		"owned by another kind of Machine": {cluster(), m, configFor(m, func(c *bootstrapv1.KubeadmConfig) { c.OwnerReferences[0].APIVersion = "machine.openshift.io/v1" })},
		"its Machine is not there yet":     {cluster(), configFor(m)},
		"its Cluster is not there yet":     {m, configFor(m)},
		"being deleted": {cluster(), m, configFor(m, func(c *bootstrapv1.KubeadmConfig) {
			c.DeletionTimestamp, c.Finalizers = new(metav1.NewTime(now)), []string{"another.example/else"}
		})},
	}
	for name, objects := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, objects...)
			if res := w.run("w1"); res.RequeueAfter != 0 || len(w.writes) != 0 {
				t.Errorf("again in %v, writes %v, want rest", res.RequeueAfter, w.writes)
			}
		})
	}
}

func TestRandomTokensAreTokens(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 50 {
		token, err := randomToken()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bootstrapv1.NewBootstrapTokenString(token.String()); err != nil || seen[token.ID] {
			t.Errorf("token of ID %q: %v, seen before: %t", token.ID, err, seen[token.ID])
		}
		seen[token.ID] = true
	}
}
