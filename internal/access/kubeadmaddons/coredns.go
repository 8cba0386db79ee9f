// SPDX-License-Identifier: Apache-2.0

package kubeadmaddons

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
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// coreDNS is the name of CoreDNS' Deployment, ConfigMap and container.
var coreDNS = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "coredns"}

const (
	corefileKey = "Corefile"
	backupKey   = "Corefile-backup" // of the Corefile during a migration
	volumeName  = "config-volume"
)

// BlockedError is the reason why an addon stays unchanged until a user changes
// something. Nothing has been written.
type BlockedError struct{ Err error }

// Error implements error.
func (e *BlockedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BlockedError) Unwrap() error { return e.Err }

// UpdateCoreDNS updates CoreDNS to the image of the control plane and migrates its
// Corefile, or returns a BlockedError if the Corefile cannot be migrated. While the
// Corefile is rewritten, the running Pods read a copy of the old one, so that none
// of them reads a file that it does not support. An interrupted update continues
// from that copy.
func UpdateCoreDNS(ctx context.Context, workload client.Client, kcp *controlplanev1.KubeadmControlPlane) error {
	var deployment appsv1.Deployment
	var config corev1.ConfigMap
	for _, obj := range []client.Object{&deployment, &config} {
		if err := workload.Get(ctx, coreDNS, obj); apierrors.IsNotFound(err) {
			return nil // CoreDNS is optional
		} else if err != nil {
			return fmt.Errorf("get %T %s of the workload cluster: %w", obj, coreDNS, err)
		}
	}
	container := containerOf(&deployment.Spec.Template, coreDNS.Name)
	if container == nil {
		return nil
	}
	plan, err := kubeadm.PlanDNS(kcp, container.Image)
	if err != nil {
		return &BlockedError{err}
	}
	if plan == nil {
		return nil
	}
	u := &dnsUpdate{workload: workload, plan: plan, deployment: &deployment, config: &config}
	if err := u.run(ctx); err != nil {
		return fmt.Errorf("update CoreDNS from %s to %s: %w", plan.From, plan.To, err)
	}
	ctrl.LoggerFrom(ctx).Info("Updated CoreDNS", "image", plan.Image)
	return nil
}

type dnsUpdate struct {
	workload   client.Client
	plan       *kubeadm.DNS
	deployment *appsv1.Deployment
	config     *corev1.ConfigMap

	old, migrated string // Corefiles; empty if the version does not change
}

func (u *dnsUpdate) run(ctx context.Context) error {
	if err := u.planMigration(ctx); err != nil {
		return err
	}
	if err := u.updateKubeadm(ctx); err != nil {
		return err
	}
	if u.plan.From != u.plan.To {
		if err := u.migrate(ctx); err != nil {
			return err
		}
	}
	return patch(ctx, u.workload, u.deployment, func() {
		containerOf(&u.deployment.Spec.Template, coreDNS.Name).Image = u.plan.Image
		readFrom(u.deployment, corefileKey)
	})
}

// updateKubeadm records the image for later kubeadm runs.
func (u *dnsUpdate) updateKubeadm(ctx context.Context) error {
	var config corev1.ConfigMap
	if err := u.workload.Get(ctx, KubeadmConfig, &config); err != nil {
		return fmt.Errorf("get ConfigMap %s: %w", KubeadmConfig, err)
	}
	updated, err := kubeadm.UpdateKubeadmDNS(config.Data[clusterConfigurationKey], u.plan.Spec)
	if err != nil {
		return fmt.Errorf("ConfigMap %s, key %s: %w", KubeadmConfig, clusterConfigurationKey, err)
	}
	return patch(ctx, u.workload, &config, func() { set(&config, clusterConfigurationKey, updated) })
}

// planMigration builds the new Corefile before anything is written.
func (u *dnsUpdate) planMigration(ctx context.Context) (err error) {
	if u.plan.From == u.plan.To {
		return nil
	}
	old, interrupted := u.config.Data[backupKey]
	if !interrupted || !readsFrom(u.deployment, backupKey) {
		old = u.config.Data[corefileKey]
	}
	u.old = old
	err = recovery.Call(ctx, func() (err error) { // the library panics on some files that CoreDNS refuses
		u.migrated, err = migration.Migrate(u.plan.From, u.plan.To, old, false)
		return err
	})
	if err != nil {
		return &BlockedError{fmt.Errorf("migrate the Corefile of ConfigMap %s: %w: correct spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag, or update CoreDNS yourself with the annotation %s",
			coreDNS, err, controlplanev1.SkipCoreDNSAnnotation)}
	}
	return nil
}

func (u *dnsUpdate) migrate(ctx context.Context) error {
	if err := patch(ctx, u.workload, u.config, func() { set(u.config, backupKey, u.old) }); err != nil {
		return err
	}
	if err := patch(ctx, u.workload, u.deployment, func() { readFrom(u.deployment, backupKey) }); err != nil {
		return err
	}
	return patch(ctx, u.workload, u.config, func() { set(u.config, corefileKey, u.migrated) })
}

// patch applies change to obj and writes obj if that changed it.
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

// containerOf returns a container of a Pod template; nil if not found.
func containerOf(of *corev1.PodTemplateSpec, name string) *corev1.Container {
	containers := of.Spec.Containers
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// source returns the volume source of the Deployment's Corefile.
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
