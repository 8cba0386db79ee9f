// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// infrastructure takes over the infrastructure object and copies what it says:
// endpoint, failure domains, and that it is provisioned.
func (r *Reconciler) infrastructure(ctx context.Context, s *state) (phase.Next, error) {
	c, status := s.cluster, &s.cluster.Status
	if !s.infra.Ref.IsDefined() {
		if !c.Spec.Topology.IsDefined() { // without infrastructure of its own there is nothing to wait for
			status.Initialization.InfrastructureProvisioned = new(true)
		}
		return phase.Continue(), nil
	}
	before := ptr.Deref(status.Initialization.InfrastructureProvisioned, false)
	if done, err := r.takeOver(ctx, s, &s.infra, before); done || err != nil {
		return phase.Continue(), err
	}
	promises, err := contract.InfraClusterFor(s.infra.Obj.Contract)
	if err != nil {
		return phase.Continue(), s.infra.Failed(err)
	}
	provisioned, _, err := promises.Provisioned.Get(s.infra.Obj.Unstructured)
	if err != nil || (!provisioned && !before) {
		return phase.Continue(), s.infra.Failed(err)
	}
	if err := copyEndpoint(c, s.infra.Obj, promises.ControlPlaneEndpoint); err != nil {
		return phase.Continue(), s.infra.Failed(err)
	}
	domains, _, err := promises.FailureDomains.Get(s.infra.Obj.Unstructured)
	if err != nil {
		return phase.Continue(), s.infra.Failed(err)
	}
	status.FailureDomains = domains // those that are reported no more are gone
	if !before {
		status.Initialization.InfrastructureProvisioned = new(true)
		ctrl.LoggerFrom(ctx).Info("Infrastructure is provisioned", s.infra.Ref.Kind, s.infra.Ref.Name)
		r.event(s, "InfrastructureReady", "Provision", "%s is provisioned", s.infra)
	}
	return phase.Continue(), nil
}

// controlPlane takes over the control plane object and notes when it is
// initialized. Without one, the first control plane Machine with a Node tells.
func (r *Reconciler) controlPlane(ctx context.Context, s *state) (phase.Next, error) {
	status := &s.cluster.Status
	before := ptr.Deref(status.Initialization.ControlPlaneInitialized, false)
	if !s.controlPlane.Ref.IsDefined() {
		for _, m := range s.controllers {
			if m.Status.NodeRef.IsDefined() {
				status.Initialization.ControlPlaneInitialized = new(true)
			}
		}
		return phase.Continue(), nil
	}
	if done, err := r.takeOver(ctx, s, &s.controlPlane, before); done || err != nil {
		return phase.Continue(), err
	}
	promises, err := contract.ControlPlaneFor(s.controlPlane.Obj.Contract)
	if err != nil {
		return phase.Continue(), s.controlPlane.Failed(err)
	}
	if err := readControlPlane(s, promises); err != nil {
		return phase.Continue(), s.controlPlane.Failed(err)
	}
	initialized, _, err := promises.Initialized.Get(s.controlPlane.Obj.Unstructured)
	if err != nil || (!initialized && !before) {
		return phase.Continue(), s.controlPlane.Failed(err)
	}
	if err := copyEndpoint(s.cluster, s.controlPlane.Obj, promises.ControlPlaneEndpoint); err != nil {
		return phase.Continue(), s.controlPlane.Failed(err)
	}
	if !before {
		status.Initialization.ControlPlaneInitialized = new(true)
		ctrl.LoggerFrom(ctx).Info("Control plane is initialized", s.controlPlane.Ref.Kind, s.controlPlane.Ref.Name)
		r.event(s, "ControlPlaneInitialized", "Initialize", "%s is initialized", s.controlPlane)
	}
	return phase.Continue(), nil
}

// readControlPlane notes counters and versions for the report.
func readControlPlane(s *state, promises contract.ControlPlane) (err error) {
	if s.counters, err = promises.Counters(s.controlPlane.Obj.Unstructured); err != nil {
		return err
	}
	versions, ok, err := promises.Versions.Get(s.controlPlane.Obj.Unstructured)
	if err != nil {
		return err
	}
	if !ok { // an older provider tells the lowest version alone
		lowest, _, err := promises.StatusVersion.Get(s.controlPlane.Obj.Unstructured)
		if err != nil {
			return err
		}
		if current := ptr.Deref(s.counters.Current, 0); lowest != "" && (s.counters.Current == nil || current > 0) {
			versions = []clusterv1.StatusVersion{{Version: lowest, Replicas: current}} // without a number where none is told
		}
	}
	s.versions = versions
	return nil
}

// takeOver reads the object behind a reference and puts owner and label on it.
// done means that there is nothing to read from it, or that it is another's.
func (r *Reconciler) takeOver(ctx context.Context, s *state, ref *provider.Reference, before bool) (done bool, err error) {
	if err := r.look(ctx, s, ref); err != nil {
		return true, err
	}
	if ref.Missing {
		if before {
			return true, reconcile.TerminalError(fmt.Errorf("%s: %s %s/%s has been deleted while the Cluster still exists: delete the Cluster, or restore the object from a backup", ref.Field, ref.Ref.Kind, s.cluster.Namespace, ref.Ref.Name))
		}
		return true, nil // its creation wakes us
	}
	err = r.Providers.Take(ctx, ref, provider.Adoption{Claim: claim.ByCluster(s.cluster)})
	return ref.Held() || err != nil, err
}

// copyEndpoint takes the endpoint of the control plane from whoever knows it
// first. It never changes again.
func copyEndpoint(cluster *clusterv1.Cluster, obj *provider.Object, field contract.Field[clusterv1.APIEndpoint]) error {
	if cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return nil
	}
	endpoint, _, err := field.Get(obj.Unstructured)
	if err == nil && endpoint.IsValid() {
		cluster.Spec.ControlPlaneEndpoint = endpoint
	}
	return err
}

// isStandalone reports whether nobody but the Cluster manages an object.
func isStandalone(obj metav1.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil }
