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
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// coreDNS is the name of CoreDNS' Deployment, ConfigMap and container.
var coreDNS = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "coredns"}

const (
	corefileKey = "Corefile"
	backupKey   = "Corefile-backup" // of the Corefile while it is migrated
	volumeName  = "config-volume"
)

// BlockedError is why an addon stays as it is until a user changes something. Nothing
// has been written.
type BlockedError struct{ Err error }

// Error implements error.
func (e *BlockedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *BlockedError) Unwrap() error { return e.Err }

// UpdateCoreDNS brings CoreDNS to the image that the control plane wants, and
// its Corefile along, or returns a BlockedError if the Corefile cannot be migrated.
// While the Corefile is rewritten the Pods that run read a
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

	old, migrated string // Corefiles; empty if the version stays
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
	updated, err := kubeadm.UpdateKubeadmDNS(config.Data[clusterConfigurationKey], u.plan.Spec)
	if err != nil {
		return fmt.Errorf("ConfigMap %s, key %s: %w", KubeadmConfig, clusterConfigurationKey, err)
	}
	return patch(ctx, u.workload, &config, func() { set(&config, clusterConfigurationKey, updated) })
}

// planMigration makes the new Corefile, before anything is written.
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
