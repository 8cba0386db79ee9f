// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"context"
	"fmt"

	"github.com/coredns/corefile-migration/migration"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

// coreDNS is the name of CoreDNS' Deployment, ConfigMap and container.
var coreDNS = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "coredns"}

const (
	corefileKey = "Corefile"
	backupKey   = "Corefile-backup" // of the Corefile while it is migrated
	volumeName  = "config-volume"
)

// UpdateCoreDNS brings CoreDNS to the image that the control plane wants, and
// its Corefile along. While the Corefile is rewritten the Pods that run read a
// copy of the old one, so that none of them meets a file that it does not
// understand; an update that was interrupted goes on from that copy.
func UpdateCoreDNS(ctx context.Context, workload client.Client, kcp *controlplanev1.KubeadmControlPlane) error {
	var deployment appsv1.Deployment
	var config corev1.ConfigMap
	for _, obj := range []client.Object{&deployment, &config} {
		if err := workload.Get(ctx, coreDNS, obj); apierrors.IsNotFound(err) {
			return nil // clusters do without it, too
		} else if err != nil {
			return fmt.Errorf("get %T %s of the workload cluster: %w", obj, coreDNS, err)
		}
	}
	container := dnsContainer(&deployment)
	if container == nil {
		return nil
	}
	plan, err := kubeadmcontrolplane.PlanDNS(kcp, container.Image)
	if err != nil || plan == nil {
		return err
	}
	u := &dnsUpdate{workload, plan, &deployment, &config}
	if err := u.run(ctx); err != nil {
		return fmt.Errorf("update CoreDNS from %s to %s: %w", plan.From, plan.To, err)
	}
	ctrl.LoggerFrom(ctx).Info("Updated CoreDNS", "image", plan.Image)
	return nil
}

type dnsUpdate struct {
	workload   client.Client
	plan       *kubeadmcontrolplane.DNS
	deployment *appsv1.Deployment
	config     *corev1.ConfigMap
}

func (u *dnsUpdate) run(ctx context.Context) error {
	if err := u.updateKubeadm(ctx); err != nil {
		return err
	}
	if u.plan.From != u.plan.To {
		if err := u.migrate(ctx); err != nil {
			return err
		}
	}
	return patch(ctx, u.workload, u.deployment, func() {
		dnsContainer(u.deployment).Image = u.plan.Image
		readFrom(u.deployment, corefileKey)
	})
}

// updateKubeadm makes later kubeadm runs know of the image.
func (u *dnsUpdate) updateKubeadm(ctx context.Context) error {
	var config corev1.ConfigMap
	if err := u.workload.Get(ctx, KubeadmConfig, &config); err != nil {
		return fmt.Errorf("get ConfigMap %s: %w", KubeadmConfig, err)
	}
	updated, err := kubeadmcontrolplane.UpdateKubeadmDNS(config.Data[clusterConfigurationKey], u.plan.Spec)
	if err != nil {
		return fmt.Errorf("ConfigMap %s, key %s: %w", KubeadmConfig, clusterConfigurationKey, err)
	}
	return patch(ctx, u.workload, &config, func() { set(&config, clusterConfigurationKey, updated) })
}

func (u *dnsUpdate) migrate(ctx context.Context) error {
	old, interrupted := u.config.Data[backupKey]
	if !interrupted || !readsFrom(u.deployment, backupKey) {
		old = u.config.Data[corefileKey]
	}
	migrated, err := migration.Migrate(u.plan.From, u.plan.To, old, false)
	if err != nil {
		return fmt.Errorf("migrate the Corefile of ConfigMap %s: %w", coreDNS, err)
	}
	if err := patch(ctx, u.workload, u.config, func() { set(u.config, backupKey, old) }); err != nil {
		return err
	}
	if err := patch(ctx, u.workload, u.deployment, func() { readFrom(u.deployment, backupKey) }); err != nil {
		return err
	}
	return patch(ctx, u.workload, u.config, func() { set(u.config, corefileKey, migrated) })
}

// patch writes what change does to obj, if it does anything.
func patch(ctx context.Context, workload client.Client, obj client.Object, change func()) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", obj)
	}
	change()
	diff := client.StrategicMergeFrom(before)
	if raw, err := diff.Data(obj); err == nil && string(raw) == "{}" {
		return nil
	}
	if err := workload.Patch(ctx, obj, diff); err != nil {
		return fmt.Errorf("patch %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

func dnsContainer(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == coreDNS.Name {
			return &containers[i]
		}
	}
	return nil
}

// source is where the Deployment takes its Corefile from.
func source(d *appsv1.Deployment) *corev1.ConfigMapVolumeSource {
	volumes := d.Spec.Template.Spec.Volumes
	for i := range volumes {
		if volumes[i].Name == volumeName {
			return volumes[i].ConfigMap
		}
	}
	return nil
}

func readFrom(d *appsv1.Deployment, key string) {
	if s := source(d); s != nil {
		s.Items = []corev1.KeyToPath{{Key: key, Path: corefileKey}}
	}
}

func readsFrom(d *appsv1.Deployment, key string) bool {
	s := source(d)
	return s != nil && len(s.Items) == 1 && s.Items[0].Key == key
}
