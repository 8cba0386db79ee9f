// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// state has what one reconcile has read.
type state struct {
	config  *bootstrapv1.KubeadmConfig
	machine *bootstrapdata.Machine // that owns it
	cluster *clusterv1.Cluster
	now     time.Time
	commit  patch.Commit // of config

	draft draft             // of the data
	held  *corev1.ConfigMap // the init lock of another; nil if not read
	token *corev1.Secret    // of the workload cluster; nil if not read

	waiting        string // what is awaited, as a sentence
	refused        string // what the user has to change, as a sentence
	certsSeen      bool   // the certificates were found or created
	certsErr       error  // why the certificates could not be read
	specGeneration int64  // of config, counting the write of its spec in this reconcile
}

// observe reads the owner of the config. Without a machine or a Cluster the result
// is nil: their creation triggers a reconcile. It is nil for a config that is being
// deleted, too.
func (r *Reconciler) observe(ctx context.Context, config *bootstrapv1.KubeadmConfig) (*state, error) {
	if !config.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	m, clusterName, err := r.machineOf(ctx, config)
	if err != nil || m == nil {
		return nil, err
	}
	cluster, err := owner.ClusterByName(ctx, r.Mgmt, config.Namespace, clusterName)
	if err != nil {
		return nil, err
	}
	if cluster == nil {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Cluster", "clusterName", clusterName)
		return nil, nil
	}
	return &state{config: config, machine: m, cluster: cluster, now: r.Clock.Now(), specGeneration: config.Generation}, nil
}

// configKind is the kind to which a machine refers.
var configKind = bootstrapv1.GroupVersion().WithKind("KubeadmConfig")

// machineOf reads the machine among the owners of the config, and the name of its
// Cluster. A machine that does not refer to the config does not count.
func (r *Reconciler) machineOf(ctx context.Context, config *bootstrapv1.KubeadmConfig) (*bootstrapdata.Machine, string, error) {
	for _, ref := range config.OwnerReferences {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != clusterv1.GroupVersion().Group {
			continue
		}
		key := client.ObjectKey{Namespace: config.Namespace, Name: ref.Name}
		switch ref.Kind {
		case "Machine":
			obj := &clusterv1.Machine{}
			if err := r.Mgmt.Get(ctx, key, obj); err != nil {
				return nil, "", ignoreNotFound(err, ref)
			}
			if !reference.Names(obj.Spec.Bootstrap.ConfigRef, configKind, config.Name) {
				continue
			}
			_, controlPlane := obj.Labels[clusterv1.MachineControlPlaneLabel]
			return &bootstrapdata.Machine{
				Kind: ref.Kind, Namespace: obj.Namespace, Name: obj.Name, Version: obj.Spec.Version,
				ControlPlane: controlPlane, HasNodes: obj.Status.NodeRef.IsDefined(), DataSecretName: ptr.Deref(obj.Spec.Bootstrap.DataSecretName, ""),
			}, obj.Spec.ClusterName, nil
		case "MachinePool":
			obj := &clusterv1.MachinePool{}
			if err := r.Mgmt.Get(ctx, key, obj); err != nil {
				return nil, "", ignoreNotFound(err, ref)
			}
			if !reference.Names(obj.Spec.Template.Spec.Bootstrap.ConfigRef, configKind, config.Name) {
				continue
			}
			spec := obj.Spec.Template.Spec
			return &bootstrapdata.Machine{
				Kind: ref.Kind, Namespace: obj.Namespace, Name: obj.Name, Version: spec.Version,
				Pool: true, HasNodes: len(obj.Status.NodeRefs) > 0, DataSecretName: ownData(config, spec.Bootstrap),
			}, obj.Spec.ClusterName, nil
		}
	}
	return nil, "", nil
}

// ownData is the Secret of a pool, if the config created it: a config that replaces
// another finds the Secret of that one.
func ownData(config *bootstrapv1.KubeadmConfig, b clusterv1.Bootstrap) string {
	if name := ptr.Deref(b.DataSecretName, ""); name == config.Name {
		return name
	}
	return ""
}

func ignoreNotFound(err error, ref metav1.OwnerReference) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("get owner %s %s: %w", ref.Kind, ref.Name, err)
}

// refuse returns an error that only a change of the object can resolve.
func (s *state) refuse(format string, args ...any) error {
	s.refused = fmt.Sprintf(format, args...)
	return reconcile.TerminalError(errors.New(s.refused))
}
