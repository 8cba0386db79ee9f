// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/kubeadmaddons"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// scale executes the one change that package kubeadmcontrolplane plans.
func (r *Reconciler) scale(ctx context.Context, s *state) (reconciler.Next, error) {
	undecided := r.plan(ctx, s)
	create, isCreate := s.Action.(controlplane.Create)
	// A process that stopped during a creation may have left objects behind, or the
	// spec has changed since.
	if isCreate && len(s.Blocked) == 0 || s.ControlPlane.Status.ObservedGeneration != s.ControlPlane.Generation {
		if err := r.sweep(ctx, s); err != nil {
			return reconciler.Continue(), err
		}
	}
	if undecided != nil || s.Action == nil {
		return reconciler.Continue(), undecided
	}
	if len(s.Blocked) > 0 {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting before machines change", "action", s.Action.String(), "reason", strings.Join(s.Blocked, "; "))
		return reconciler.Continue(), nil // a change of what blocks it triggers a reconcile
	}
	var err error
	switch a := s.Action.(type) {
	case controlplane.Create:
		if !create.Init && s.rollingOut() {
			err = kubeadmaddons.PrepareJoin(ctx, s.client, s.ControlPlane)
		}
		if err == nil {
			err = r.scaleUp(ctx, s, a)
		}
	case controlplane.Update:
		if err = kubeadmaddons.PrepareJoin(ctx, s.client, s.ControlPlane); err == nil {
			err = r.update(ctx, s, a)
		}
	case controlplane.Delete:
		err = r.scaleDown(ctx, s, a)
	}
	if err != nil {
		return reconciler.Continue(), fmt.Errorf("%s: %w", s.Action, err)
	}
	return reconciler.Continue(), nil
}

func (s *state) rollingOut() bool {
	return slices.ContainsFunc(s.Machines, func(m *controlplane.Machine) bool { return !m.UpToDate })
}

// addons updates what kubeadm installs in addition to the control plane to the
// version of the machines, once those are all as the spec requires. The workload
// cluster is read only when the spec requires something else than last time.
func (r *Reconciler) addons(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.client == nil || !controlplane.Initialized(s.ControlPlane) || s.Action != nil {
		return reconciler.Continue(), nil
	}
	config := s.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration
	_, skipProxy := s.ControlPlane.Annotations[controlplanev1.SkipKubeProxyAnnotation]
	_, skipDNS := s.ControlPlane.Annotations[controlplanev1.SkipCoreDNSAnnotation]
	at := fmt.Sprint(s.ControlPlane.Spec.Version, config.ImageRepository, config.DNS, skipProxy, skipDNS)
	if r.addonsAt.Get(s.ControlPlane) == at {
		return reconciler.Continue(), nil
	}
	proxy, dns := kubeadmaddons.UpdateKubeProxy(ctx, s.client, s.ControlPlane), kubeadmaddons.UpdateCoreDNS(ctx, s.client, s.ControlPlane)
	if blocked, is := errors.AsType[*kubeadmaddons.BlockedError](dns); is {
		s.Addons = &controlplane.Addons{Blocked: dns.Error()}
		r.addonsAt.Forget(client.ObjectKeyFromObject(s.ControlPlane))
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for a user before CoreDNS is updated", "reason", blocked.Error())
		return reconciler.Continue(), proxy // a change of the spec triggers a reconcile
	}
	if err := errors.Join(proxy, dns); err != nil {
		return reconciler.Continue(), err
	}
	s.Addons = &controlplane.Addons{}
	r.addonsAt.Set(s.ControlPlane, at)
	return reconciler.Continue(), nil
}
