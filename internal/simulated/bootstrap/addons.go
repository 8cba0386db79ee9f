// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	_ "embed" // for Corefile
	"fmt"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

// corefile is what kubeadm's CoreDNS starts with; %[1]s is the cluster's
// domain. KubeadmControlPlane migrates it when CoreDNS changes.
//
//go:embed Corefile
var corefile string

// serviceIP is the nth address of the first service subnet.
func serviceIP(d kubeadm.Data, n int) string {
	first, _, _ := strings.Cut(d.ServiceSubnet, ",")
	p, err := netip.ParsePrefix(strings.TrimSpace(first))
	if err != nil {
		return ""
	}
	ip := p.Masked().Addr()
	for range n {
		ip = ip.Next()
	}
	return ip.String()
}

// serviceRange is where API servers find addresses for Services.
func serviceRange(d kubeadm.Data) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: strings.Split(d.ServiceSubnet, ",")},
		Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "NetworkReady", Message: "Kubernetes default Service CIDR is ready",
		}}},
	}
}

func kubernetesService(d kubeadm.Data) *corev1.Service {
	ip := serviceIP(d, 1)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: "kubernetes",
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(6443)}},
		},
	}
}

func serviceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
}

func coreDNS(docs *kubeadm.Documents) []objects.Object {
	labels := map[string]string{"k8s-app": "kube-dns"}
	ip := serviceIP(docs.Data, 10)
	list := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{group}, Resources: resources}
	}
	pod := corev1.PodSpec{
		PriorityClassName: "system-cluster-critical", ServiceAccountName: "coredns", DNSPolicy: corev1.DNSDefault,
		NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations: []corev1.Toleration{
			{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists},
			{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule},
		},
		Containers: []corev1.Container{{
			Name: "coredns", Image: image("coredns", docs, docs.Data.KubernetesVersion), ImagePullPolicy: corev1.PullIfNotPresent,
			Args:         []string{"-conf", "/etc/coredns/Corefile"},
			VolumeMounts: []corev1.VolumeMount{{Name: "config-volume", MountPath: "/etc/coredns", ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: "config-volume", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"},
			Items:                []corev1.KeyToPath{{Key: "Corefile", Path: "Corefile"}},
		}}}},
	}
	return []objects.Object{
		serviceAccount("coredns"),
		configMap("coredns", map[string]string{"Corefile": fmt.Sprintf(corefile, docs.Data.DNSDomain)}),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:coredns"}, Rules: []rbacv1.PolicyRule{
			list("", "endpoints", "services", "pods", "namespaces"), list("discovery.k8s.io", "endpointslices"),
		}},
		binding("system:coredns", "system:coredns", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "coredns"}),
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Strategy: appsv1.DeploymentStrategy{
					Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(1))},
				},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
			},
		},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: "kube-dns",
				Labels:      map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
				Annotations: map[string]string{"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
			},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Selector: labels,
				Ports: []corev1.ServicePort{
					{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: intstr.FromInt32(53)},
					{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53, TargetPort: intstr.FromInt32(53)},
					{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9153, TargetPort: intstr.FromInt32(9153)},
				},
			},
		},
	}
}

func kubeProxy(docs *kubeadm.Documents, endpoint string) []objects.Object {
	labels := map[string]string{"k8s-app": "kube-proxy"}
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt\n" +
		"    server: https://" + endpoint + "\n  name: default\ncontexts:\n- context:\n    cluster: default\n    namespace: default\n    user: default\n" +
		"  name: default\ncurrent-context: default\nusers:\n- name: default\n  user:\n    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token\n"
	config := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nbindAddress: 0.0.0.0\n" +
		"clientConnection:\n  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf\nclusterCIDR: \"" + docs.Data.PodSubnet + "\"\nmode: \"\"\n"
	settings := configMap("kube-proxy", map[string]string{"config.conf": config, "kubeconfig.conf": kubeconfig})
	settings.Labels = map[string]string{"app": "kube-proxy"}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "kube-proxy"}
	get := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"kube-proxy"}}
	tokens := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: nodeTokens}
	pod := corev1.PodSpec{
		PriorityClassName: "system-node-critical", ServiceAccountName: "kube-proxy", HostNetwork: true,
		NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "kube-proxy", Image: image("kube-proxy", docs, docs.Data.KubernetesVersion), ImagePullPolicy: corev1.PullIfNotPresent,
			Command:      []string{"/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)"},
			Env:          []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "kube-proxy", MountPath: "/var/lib/kube-proxy"}},
		}},
		Volumes: []corev1.Volume{{Name: "kube-proxy", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-proxy"},
		}}}},
	}
	out := []objects.Object{
		serviceAccount("kube-proxy"), settings, binding("kubeadm:node-proxier", "system:node-proxier", subject),
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-proxy", Labels: labels},
			Spec: appsv1.DaemonSetSpec{
				Selector:       &metav1.LabelSelector{MatchLabels: labels},
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType},
				Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
			},
		},
	}
	return append(out, role(metav1.NamespaceSystem, "kube-proxy", get, tokens)...)
}
