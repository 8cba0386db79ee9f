// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

const (
	core = "cluster.x-k8s.io/v1beta2"
	cps  = "controlplane.cluster.x-k8s.io/v1beta2"
)

func ref(version, kind, name string, uid types.UID, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: &controller}
}

func TestFind(t *testing.T) {
	t.Parallel()
	mine := map[string]string{clusterv1.ClusterNameLabel: "demo"}
	controls := ref(cps, "KubeadmControlPlane", "cp", "kcp", true)
	controls.BlockOwnerDeletion = new(true)
	tests := map[string]struct {
		labels map[string]string
		own    bool // it has the type of Cluster API's own Secrets
		owners []metav1.OwnerReference
		want   []metav1.OwnerReference // of the Secret afterwards; as before if nil
		refuse string
		writes bool
	}{
		"one of ours stays":                      {labels: mine, owners: []metav1.OwnerReference{ref(cps, "KubeadmControlPlane", "cp", "kcp", true)}},
		"one that a user brought gets the label": {writes: true},
		"after a restore the control plane has it again": {
			labels: mine, writes: true,
			owners: []metav1.OwnerReference{ref("controlplane.cluster.x-k8s.io/v1beta1", "KubeadmControlPlane", "cp", "old", true)},
			want:   []metav1.OwnerReference{ref(cps, "KubeadmControlPlane", "cp", "kcp", true)},
		},
		"after a restore the Cluster has it again": {
			labels: mine, writes: true,
			owners: []metav1.OwnerReference{ref(core, "Cluster", "demo", "old", false)},
			want:   []metav1.OwnerReference{ref(core, "Cluster", "demo", "cluster", false)},
		},
		"owners that were lost are put back": {labels: mine, own: true, writes: true, want: []metav1.OwnerReference{controls}},
		"a former controller owner becomes controller again": {
			labels: mine, own: true, writes: true,
			owners: []metav1.OwnerReference{ref(core, "Cluster", "demo", "cluster", false), ref(cps, "KubeadmControlPlane", "cp", "kcp", false)},
			want:   []metav1.OwnerReference{ref(core, "Cluster", "demo", "cluster", false), controls},
		},
		"a vault's of our type stays the vault's":     {labels: mine, own: true, owners: []metav1.OwnerReference{ref("external-secrets.io/v1", "ExternalSecret", "x", "x", true)}},
		"a vault's is used, and stays the vault's":    {labels: mine, owners: []metav1.OwnerReference{ref("external-secrets.io/v1", "ExternalSecret", "x", "x", true)}},
		"one of a bootstrap provider is used":         {labels: mine, owners: []metav1.OwnerReference{ref("bootstrap.cluster.x-k8s.io/v1beta1", "KubeadmConfig", "x", "x", true)}},
		"another control plane's is refused":          {labels: mine, owners: []metav1.OwnerReference{ref(cps, "KubeadmControlPlane", "other", "x", true)}, refuse: ", which Cluster demo needs, is held by KubeadmControlPlane other: delete it"},
		"another Cluster's is refused":                {labels: mine, owners: []metav1.OwnerReference{ref(core, "Cluster", "other", "x", true)}, refuse: "is held by Cluster other"},
		"one with another Cluster's label is refused": {labels: map[string]string{clusterv1.ClusterNameLabel: "other"}, refuse: "is held by Cluster other, by its label"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme} {
				if err := add(s); err != nil {
					t.Fatal(err)
				}
			}
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "cluster"}}
			cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"}
			kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp", UID: "kcp"}}
			before := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-ca", Labels: tc.labels, OwnerReferences: tc.owners}}
			if tc.own {
				before.Type = certs.SecretType
			}
			live := fake.NewClientBuilder().WithScheme(s).WithObjects(before).Build()
			cached := fake.NewClientBuilder().WithScheme(s).Build() // empty, like a cache without objects that lack the label
			if tc.labels != nil {
				cached = live
			}
			store := Store{Mgmt: split{live, cached}, Live: live}
			got, err := store.Find(t.Context(), cluster, certs.CA, kcp)
			if tc.refuse != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "secret ns/demo-ca, ") || !strings.Contains(err.Error(), tc.refuse) {
					t.Errorf("error %v, want %q", err, tc.refuse)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var after corev1.Secret
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(got), &after); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == nil {
				want = tc.owners
			}
			if diff := cmp.Diff(want, after.OwnerReferences); diff != "" || after.Labels[clusterv1.ClusterNameLabel] != "demo" {
				t.Errorf("labels %v, owners (-want +got):\n%s", after.Labels, diff)
			}
			if wrote := after.ResourceVersion != "999"; wrote != tc.writes {
				t.Errorf("wrote %v, want %v", wrote, tc.writes)
			}
			if _, err := store.Get(t.Context(), cluster, certs.Etcd, nil); !apierrors.IsNotFound(err) {
				t.Errorf("of one that is not there: %v", err)
			}
		})
	}
}

// split reads from a cache and writes to the API server.
type split struct {
	client.Client
	cached client.Reader
}

func (s split) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return s.cached.Get(ctx, key, obj, opts...)
}
