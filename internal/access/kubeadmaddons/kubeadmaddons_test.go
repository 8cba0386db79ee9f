// SPDX-License-Identifier: Apache-2.0

package kubeadmaddons

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
)

// oldCorefile has the option upstream of the plugin kubernetes, which CoreDNS
// refuses since 1.7.0.
const oldCorefile = `.:53 {
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        upstream
    }
    forward . /etc/resolv.conf
}
`

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "kube-system", Name: name}
}

// cluster returns a workload cluster with old addons; refuse may fail a patch.
func cluster(t *testing.T, writes *[]string, refuse func(client.Object) error) client.Client {
	t.Helper()
	dns := &appsv1.Deployment{ObjectMeta: meta("coredns")}
	dns.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coredns", Image: "k8s.gcr.io/coredns:1.6.5"}}
	dns.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "config-volume", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"}, Items: []corev1.KeyToPath{{Key: "Corefile", Path: "Corefile"}}}}}}
	proxy := &appsv1.DaemonSet{ObjectMeta: meta("kube-proxy")}
	proxy.Spec.Template.Spec.Containers = []corev1.Container{{Name: "kube-proxy", Image: "k8s.gcr.io/kube-proxy:v1.24.0"}}
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(dns, proxy,
		&corev1.ConfigMap{ObjectMeta: meta("coredns"), Data: map[string]string{"Corefile": oldCorefile}},
		&corev1.ConfigMap{ObjectMeta: meta("kubeadm-config"), Data: map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.24.0\n"}},
	).WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		if refuse != nil {
			if err := refuse(obj); err != nil {
				return err
			}
		}
		raw, err := p.Data(obj)
		if err != nil {
			return err
		}
		*writes = append(*writes, obj.GetName()+" "+string(raw))
		return c.Patch(ctx, obj, p, opts...)
	}}).Build()
}

func controlPlane(version string) *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Version = version
	return kcp
}

func TestCoreDNSIsMigratedWithItsCorefile(t *testing.T) {
	t.Parallel()
	var writes []string
	c := cluster(t, &writes, nil)
	kcp := controlPlane("v1.25.0")
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v1.8.6"
	if err := UpdateCoreDNS(t.Context(), c, kcp); err != nil {
		t.Fatal(err)
	}
	check(t, c)
	n := len(writes)
	if err := UpdateCoreDNS(t.Context(), c, kcp); err != nil || len(writes) != n {
		t.Errorf("a second update: %v, writes %q", err, writes[n:])
	}
}

// check checks that CoreDNS has its new image and a Corefile that this image
// supports.
func check(t *testing.T, c client.Client) {
	t.Helper()
	var dns appsv1.Deployment
	var config, kubeadm corev1.ConfigMap
	if err := errors.Join(c.Get(t.Context(), coreDNS, &dns), c.Get(t.Context(), coreDNS, &config), c.Get(t.Context(), KubeadmConfig, &kubeadm)); err != nil {
		t.Fatal(err)
	}
	if got := dns.Spec.Template.Spec.Containers[0].Image; got != "k8s.gcr.io/coredns/coredns:v1.8.6" {
		t.Errorf("image %s", got)
	}
	if !readsFrom(&dns, "Corefile") {
		t.Errorf("volume %+v", dns.Spec.Template.Spec.Volumes)
	}
	if strings.Contains(config.Data["Corefile"], "upstream") || !strings.Contains(config.Data["Corefile"], "pods insecure") || config.Data["Corefile-backup"] != oldCorefile {
		t.Errorf("ConfigMap %q", config.Data)
	}
	if !strings.Contains(kubeadm.Data["ClusterConfiguration"], "imageTag: v1.8.6") {
		t.Errorf("kubeadm-config %q", kubeadm.Data)
	}
}

func TestInterruptedUpdateOfCoreDNSResumes(t *testing.T) {
	t.Parallel()
	for stop := range 5 {
		var writes []string
		patches := 0
		c := cluster(t, &writes, func(client.Object) error {
			if patches++; patches == stop+1 {
				return errors.New("cut")
			}
			return nil
		})
		kcp := controlPlane("v1.25.0")
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v1.8.6"
		if err := UpdateCoreDNS(t.Context(), c, kcp); err == nil || !strings.Contains(err.Error(), "update CoreDNS from 1.6.5 to 1.8.6: patch") {
			t.Errorf("stopped at %d: %v", stop, err)
		}
		if err := UpdateCoreDNS(t.Context(), c, kcp); err != nil {
			t.Errorf("after a stop at %d: %v", stop, err)
		}
		check(t, c)
	}
}

func TestUpdateCoreDNSWritesNothingWhenBlocked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ tag, corefile, want string }{
		"to an unknown version": {tag: "v9.0.0", corefile: oldCorefile, want: "update CoreDNS from 1.6.5 to 9.0.0: migrate the Corefile of ConfigMap kube-system/coredns: cannot migrate up to '9.0.0' from '1.6.5': correct spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag"},
		"back":                  {tag: "v1.6.2", corefile: oldCorefile, want: "CoreDNS cannot go back from 1.6.5 to 1.6.2"},
		"to no version":         {tag: "1-7", corefile: oldCorefile, want: `tag "1-7" is no version`},
		"with a broken file":    {tag: "v1.8.6", corefile: ".:53 {\n  kubernetes {\n", want: "migrate the Corefile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var writes []string
			c := cluster(t, &writes, nil)
			var config corev1.ConfigMap
			if err := c.Get(t.Context(), coreDNS, &config); err != nil {
				t.Fatal(err)
			}
			config.Data["Corefile"] = tc.corefile
			if err := c.Update(t.Context(), &config); err != nil {
				t.Fatal(err)
			}
			kcp := controlPlane("v1.25.0")
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = tc.tag
			err := UpdateCoreDNS(t.Context(), c, kcp)
			if _, blocked := errors.AsType[*BlockedError](err); !blocked || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want a BlockedError with %q", err, tc.want)
			}
			if len(writes) > 0 {
				t.Errorf("writes %q, want none", writes)
			}
		})
	}
}

func TestCoreDNSReachesTheNewestVersions(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"v1.14.4", "v1.14.7", "v1.15.0"} {
		var writes []string
		c := cluster(t, &writes, nil)
		kcp := controlPlane("v1.36.0")
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = to
		if err := UpdateCoreDNS(t.Context(), c, kcp); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestKubeProxyFollowsTheVersion(t *testing.T) {
	t.Parallel()
	var writes []string
	c := cluster(t, &writes, nil)
	kcp := controlPlane("v1.25.3")
	kcp.Annotations = map[string]string{controlplanev1.SkipKubeProxyAnnotation: ""}
	if err := UpdateKubeProxy(t.Context(), c, kcp); err != nil || len(writes) != 0 {
		t.Errorf("skipped: %v, %q", err, writes)
	}
	kcp.Annotations = nil
	for range 2 {
		if err := UpdateKubeProxy(t.Context(), c, kcp); err != nil {
			t.Fatal(err)
		}
	}
	if len(writes) != 1 || !strings.Contains(writes[0], `"registry.k8s.io/kube-proxy:v1.25.3"`) {
		t.Errorf("writes %q", writes)
	}
}

func TestJoinsArePreparedOnce(t *testing.T) {
	t.Parallel()
	var writes []string
	c := cluster(t, &writes, nil)
	for range 2 {
		if err := PrepareJoin(t.Context(), c, controlPlane("v1.31.0")); err != nil {
			t.Fatal(err)
		}
	}
	if len(writes) != 1 || !strings.Contains(writes[0], "kubernetesVersion: v1.31.0") || !strings.Contains(writes[0], "kubeadm.k8s.io/v1beta4") {
		t.Errorf("writes %q", writes)
	}
	want := map[string]rbacv1.ClusterRoleBinding{
		"kubeadm:cluster-admins": {
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "kubeadm:cluster-admins"}},
		},
		"kubeadm:apiserver-kubelet-client": {
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "kube-apiserver-kubelet-client"}},
		},
	}
	for name, want := range want {
		var got rbacv1.ClusterRoleBinding
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &got); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, rbacv1.ClusterRoleBinding{RoleRef: got.RoleRef, Subjects: got.Subjects}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOldVersionsNeedNoBindings(t *testing.T) {
	t.Parallel()
	var writes []string
	c := cluster(t, &writes, nil)
	if err := PrepareJoin(t.Context(), c, controlPlane("v1.28.9")); err != nil {
		t.Fatal(err)
	}
	var all rbacv1.ClusterRoleBindingList
	if err := c.List(t.Context(), &all); err != nil || len(all.Items) > 0 {
		t.Errorf("bindings %v, error %v; API servers of that version are among system:masters", all.Items, err)
	}
}

func TestPrepareJoinFillsAnEmptyConfiguration(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string]string{"an empty document": {clusterConfigurationKey: ""}, "no document": nil} {
		c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: KubeadmConfig.Namespace, Name: KubeadmConfig.Name}, Data: data}).Build()
		if err := PrepareJoin(t.Context(), c, controlPlane("v1.35.0")); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var config corev1.ConfigMap
		if err := c.Get(t.Context(), KubeadmConfig, &config); err != nil || !strings.Contains(config.Data[clusterConfigurationKey], "kubernetesVersion: v1.35.0\n") {
			t.Errorf("%s: %v, %v", name, config.Data, err)
		}
	}
}

// TestUpdatesKeepUnknownFieldsOfKubeadm: a user has disabled addons in kubeadm's
// configuration, by fields that the API of control planes does not have.
func TestUpdatesKeepUnknownFieldsOfKubeadm(t *testing.T) {
	t.Parallel()
	var writes []string
	c := cluster(t, &writes, nil)
	var config corev1.ConfigMap
	if err := c.Get(t.Context(), KubeadmConfig, &config); err != nil {
		t.Fatal(err)
	}
	config.Data[clusterConfigurationKey] = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.0\ndns: {disabled: true, imageTag: v1.6.5}\nproxy: {disabled: true}\n"
	if err := c.Update(t.Context(), &config); err != nil {
		t.Fatal(err)
	}
	kcp := controlPlane("v1.36.0")
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v1.8.6"
	if err := errors.Join(PrepareJoin(t.Context(), c, kcp), UpdateCoreDNS(t.Context(), c, kcp), c.Get(t.Context(), KubeadmConfig, &config)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubernetesVersion: v1.36.0\n", "dns:\n  disabled: true\n  imageTag: v1.8.6\n", "proxy:\n  disabled: true\n"} {
		if !strings.Contains(config.Data[clusterConfigurationKey], want) {
			t.Errorf("no %q in:\n%s", want, config.Data[clusterConfigurationKey])
		}
	}
}
