// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
)

// ownerKind is what owns a LocalMachine, localKind what it refers to.
var (
	ownerKind = clusterv1.GroupVersion().WithKind("Machine").GroupKind()
	localKind = infrav1.GroupVersion().WithKind("LocalMachine")
)

// state is what one reconcile knows.
type state struct {
	local   *infrav1.LocalMachine
	machine *clusterv1.Machine // that owns it and refers to it; nil if none does, or if it has gone
	cluster *clusterv1.Cluster // nil if it is not known or has gone
	now     time.Time
	before  *infrav1.LocalMachineSpec // as it was read

	// What the phases found.
	backend host.Backend      // that it asks for; nil if that is not here
	waiting localstatus.Wait  // why nothing is done for the machine yet; zero if something is
	data    bootstrapData     // to start it with
	seen    *localstatus.Seen // how far it is; nil if it was not looked at
	stopped error             // why it does not run, though it has once; nil if it was not looked at
}

// bootstrapData is never logged, nor put into an error.
type bootstrapData struct {
	value  []byte
	format string
}

// observe reads what the machine is for. One that lives waits for its Machine to
// take it: that has no state yet.
func (r *Reconciler) observe(ctx context.Context, lm *infrav1.LocalMachine) (*state, error) {
	s := &state{local: lm, now: r.Clock.Now(), before: lm.Spec.DeepCopy()}
	if name := owner.Name(lm, ownerKind); name != "" {
		m := &clusterv1.Machine{}
		err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: lm.Namespace, Name: name}, m)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Machine %s/%s: %w", lm.Namespace, name, err)
		}
		if err == nil && claim.Names(m.Spec.InfrastructureRef, localKind, lm.Name) {
			s.machine = m
		}
	}
	if name := s.clusterKey().Name; name != "" {
		var err error
		if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, lm.Namespace, name); err != nil {
			return nil, err
		}
	}
	if lm.DeletionTimestamp.IsZero() && (s.machine == nil || s.cluster == nil) {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Machine controller to set the owner of the LocalMachine")
		return nil, nil
	}
	return s, nil
}

// clusterKey names the cluster of the machine, as its label or its owner does.
func (s *state) clusterKey() types.NamespacedName {
	name := s.local.Labels[clusterv1.ClusterNameLabel]
	if s.machine != nil {
		name = s.machine.Spec.ClusterName
	}
	return types.NamespacedName{Namespace: s.local.Namespace, Name: name}
}

// provisioned reports whether the machine has once run its bootstrap data.
func (s *state) provisioned() bool {
	return localstatus.Provisioned(s.local)
}
