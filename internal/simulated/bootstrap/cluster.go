// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

// ClusterObjects are what kubeadm init leaves in a new cluster, in addition to the
// Node and its Pods: configuration, tokens, RBAC, addons.
func (r *Run) ClusterObjects(pki PKI, endpoint string, now time.Time) ([]objects.Object, error) {
	docs := withDefaults(r.docs)
	config, err := kubeadm.RenderCluster(docs.APIVersion, *docs.Cluster, docs.Data)
	if err != nil {
		return nil, fmt.Errorf("kubeadm init: error execution phase upload-config/kubeadm: %w", err)
	}
	info, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {Server: "https://" + endpoint, CertificateAuthorityData: pki.CA.Cert}},
	})
	if err != nil {
		return nil, fmt.Errorf("kubeadm init: error execution phase bootstrap-token: write cluster-info: %w", err)
	}
	out := []objects.Object{
		configMap("kubeadm-config", map[string]string{"ClusterConfiguration": string(config)}),
		configMap("kubelet-config", map[string]string{"kubelet": kubeletConfig(docs.Data)}),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
			Data:       map[string]string{"kubeconfig": string(info)},
		},
		serviceRange(docs.Data), // before the first Service
		kubernetesService(docs.Data),
	}
	out = append(out, accessRules()...)
	tokens, err := r.tokens(now)
	if err != nil {
		return nil, err
	}
	out = append(out, tokens...)
	skipped := r.docs.Init.SkipPhases
	if !slices.Contains(skipped, "addon") && !slices.Contains(skipped, "addon/coredns") {
		out = append(out, coreDNS(docs)...)
	}
	if !slices.Contains(skipped, "addon") && !slices.Contains(skipped, "addon/kube-proxy") {
		out = append(out, kubeProxy(docs, endpoint)...)
	}
	return out, nil
}

// withDefaults fills in what kubeadm does before it uses a configuration.
func withDefaults(d *kubeadm.Documents) *kubeadm.Documents {
	c, data := d.Cluster.DeepCopy(), d.Data
	c.CertificatesDir = cmp.Or(c.CertificatesDir, certificatesDir)
	c.ImageRepository = cmp.Or(c.ImageRepository, defaultRepository)
	if len(c.Etcd.External.Endpoints) == 0 {
		c.Etcd.Local.DataDir = cmp.Or(c.Etcd.Local.DataDir, "/var/lib/etcd")
	}
	data.ClusterName = cmp.Or(data.ClusterName, "kubernetes")
	data.DNSDomain = cmp.Or(data.DNSDomain, "cluster.local")
	data.ServiceSubnet = cmp.Or(data.ServiceSubnet, "10.96.0.0/12")
	return &kubeadm.Documents{APIVersion: d.APIVersion, Cluster: c, Data: data}
}

func kubeletConfig(d kubeadm.Data) string {
	return fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n"+
		"clusterDNS:\n- %s\nclusterDomain: %s\nrotateCertificates: true\nstaticPodPath: /etc/kubernetes/manifests\n", serviceIP(d, 10), d.DNSDomain)
}

// tokens are the bootstrap tokens in the configuration. If there are none, kubeadm
// generates one and prints it; here no user would see it.
func (r *Run) tokens(now time.Time) ([]objects.Object, error) {
	var out []objects.Object
	for _, t := range r.docs.Init.BootstrapTokens {
		if t.Token == nil {
			return nil, errors.New("kubeadm init: bootstrapTokens: a token is empty")
		}
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + t.Token.ID},
			Type:       corev1.SecretTypeBootstrapToken,
			Data:       map[string][]byte{"token-id": []byte(t.Token.ID), "token-secret": []byte(t.Token.Secret)},
		}
		if t.Description != "" {
			s.Data["description"] = []byte(t.Description)
		}
		if expires := expiry(t, now); !expires.IsZero() {
			s.Data["expiration"] = []byte(expires.UTC().Format(time.RFC3339))
		}
		usages, groups := t.Usages, t.Groups
		if len(usages) == 0 {
			usages = []string{"signing", "authentication"}
		}
		if len(groups) == 0 {
			groups = []string{nodeTokens}
		}
		for _, u := range usages {
			s.Data["usage-bootstrap-"+u] = []byte("true")
		}
		s.Data["auth-extra-groups"] = []byte(strings.Join(groups, ","))
		out = append(out, s)
	}
	return out, nil
}

// expiry is zero for a token that lasts forever.
func expiry(t bootstrapv1.BootstrapToken, now time.Time) time.Time {
	switch {
	case !t.Expires.IsZero():
		return t.Expires.Time
	case t.TTLSeconds == nil:
		return now.Add(24 * time.Hour)
	case *t.TTLSeconds == 0:
		return time.Time{}
	}
	return now.Add(time.Duration(*t.TTLSeconds) * time.Second)
}

func accessRules() []objects.Object {
	group := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
	}
	get := func(resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}
	}
	return slices.Concat(
		role(metav1.NamespaceSystem, "kubeadm:nodes-kubeadm-config", get("configmaps", "kubeadm-config"), group(nodeTokens), group("system:nodes")),
		role(metav1.NamespaceSystem, "kubeadm:kubelet-config", get("configmaps", "kubelet-config"), group("system:nodes"), group(nodeTokens)),
		role(metav1.NamespacePublic, "kubeadm:bootstrap-signer-clusterinfo", get("configmaps", "cluster-info"),
			rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}),
		[]objects.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"}, Rules: []rbacv1.PolicyRule{get("nodes")}},
			binding("kubeadm:get-nodes", "kubeadm:get-nodes", group(nodeTokens)),
			binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", group(nodeTokens)),
			binding("kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", group(nodeTokens)),
			binding("kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group("system:nodes")),
			binding("kubeadm:cluster-admins", "cluster-admin", group("kubeadm:cluster-admins")),
			binding("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin",
				rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "kube-apiserver-kubelet-client"}),
		})
}

// role creates a Role and a RoleBinding of the same name.
func role(namespace, name string, rule rbacv1.PolicyRule, subjects ...rbacv1.Subject) []objects.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	return []objects.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects},
	}
}

func binding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
	}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Data: data}
}
