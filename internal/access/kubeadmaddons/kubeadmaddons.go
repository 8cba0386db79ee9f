// SPDX-License-Identifier: Apache-2.0

// Package kubeadmaddons updates what kubeadm installed in a workload cluster, in addition
// to the static Pods of its machines, to the desired state of the control plane:
// the configuration that joining machines read, kube-proxy and CoreDNS.
package kubeadmaddons

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
)

// KubeadmConfig is the ConfigMap that kubeadm init creates, in one of its last
// steps, for joining machines.
var KubeadmConfig = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}

var kubeProxy = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kube-proxy"}

const (
	// clusterConfigurationKey is the key in kubeadm's ConfigMap.
	clusterConfigurationKey = "ClusterConfiguration"

	// clusterAdmins is the group of the user of admin.conf from Kubernetes 1.29 on.
	// Kubeadm init binds it; clusters that were created before lack the binding.
	clusterAdmins = "kubeadm:cluster-admins"

	// kubeletClient is the binding of the user with which API servers access kubelets,
	// once kubeadm no longer adds it to the clusterAdmins: in Kubernetes 1.37, and in
	// later patches of the versions before. Without it an API server that joins could
	// neither show logs nor forward ports.
	kubeletClient = "kubeadm:apiserver-kubelet-client"
)

// PrepareJoin updates what a joining machine reads from the workload cluster to the
// desired state of the control plane.
func PrepareJoin(ctx context.Context, workload client.Client, kcp *controlplanev1.KubeadmControlPlane) error {
	if err := ensureBindings(ctx, workload, kcp); err != nil {
		return err
	}
	var config corev1.ConfigMap
	if err := workload.Get(ctx, KubeadmConfig, &config); err != nil {
		return fmt.Errorf("get ConfigMap %s of the workload cluster: %w", KubeadmConfig, err)
	}
	updated, err := controlplane.UpdateKubeadmConfig(kcp, config.Data[clusterConfigurationKey])
	if err != nil {
		return fmt.Errorf("ConfigMap %s of the workload cluster, key %s: %w", KubeadmConfig, clusterConfigurationKey, err)
	}
	if updated == config.Data[clusterConfigurationKey] {
		return nil
	}
	changed := config.DeepCopy()
	set(changed, clusterConfigurationKey, updated)
	if err := workload.Patch(ctx, changed, client.MergeFromWithOptions(&config, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch ConfigMap %s of the workload cluster: %w", KubeadmConfig, err)
	}
	ctrl.LoggerFrom(ctx).Info("Updated kubeadm's configuration", "version", kcp.Spec.Version)
	return nil
}

// set sets a key of a ConfigMap, whose data may be nil.
func set(config *corev1.ConfigMap, key, value string) {
	if config.Data == nil {
		config.Data = map[string]string{}
	}
	config.Data[key] = value
}

// ensureBindings creates the bindings that kubeadm init creates today, and that may
// be missing in older clusters.
func ensureBindings(ctx context.Context, workload client.Client, kcp *controlplanev1.KubeadmControlPlane) error {
	v, err := version.ParseSemantic(kcp.Spec.Version)
	if err != nil {
		return fmt.Errorf("spec.version %q: %w", kcp.Spec.Version, err)
	}
	if v.Major() == 1 && v.Minor() < 29 {
		return nil
	}
	return errors.Join(
		ensureBinding(ctx, workload, clusterAdmins, "cluster-admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterAdmins}),
		ensureBinding(ctx, workload, kubeletClient, "system:kubelet-api-admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "kube-apiserver-kubelet-client"}),
	)
}

func ensureBinding(ctx context.Context, workload client.Client, name, role string, to rbacv1.Subject) error {
	err := workload.Get(ctx, client.ObjectKey{Name: name}, &rbacv1.ClusterRoleBinding{})
	if apierrors.IsNotFound(err) {
		err = workload.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{to},
		})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make ClusterRoleBinding %s in the workload cluster: %w", name, err)
	}
	return nil
}

// UpdateKubeProxy updates kube-proxy's image to the control plane's version.
func UpdateKubeProxy(ctx context.Context, workload client.Client, kcp *controlplanev1.KubeadmControlPlane) error {
	if _, skip := kcp.Annotations[controlplanev1.SkipKubeProxyAnnotation]; skip {
		return nil
	}
	var ds appsv1.DaemonSet
	err := workload.Get(ctx, kubeProxy, &ds)
	if apierrors.IsNotFound(err) {
		return nil // kube-proxy is optional
	}
	if err != nil {
		return fmt.Errorf("get DaemonSet %s of the workload cluster: %w", kubeProxy, err)
	}
	container := containerOf(&ds.Spec.Template, kubeProxy.Name)
	if container == nil {
		return nil
	}
	wanted := controlplane.Image(container.Image, kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository, kcp.Spec.Version)
	if wanted == container.Image {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Updating kube-proxy", "image", wanted)
	return patch(ctx, workload, &ds, func() { container.Image = wanted })
}
