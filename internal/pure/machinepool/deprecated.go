// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// FillDeprecated fills the v1beta1 status of a pool, after FillStatus. Its counters depend only on
// the Nodes; while these cannot be read they stay unchanged.
func FillDeprecated(f Facts) {
	p := f.Pool
	st := ptr.Deref(ptr.Deref(p.Status.Deprecated, clusterv1.MachinePoolDeprecatedStatus{}).V1Beta1, clusterv1.MachinePoolV1Beta1DeprecatedStatus{})
	isDeleting := !p.DeletionTimestamp.IsZero()
	if f.Infrastructure.Missing && f.provisioned() && !isDeleting {
		f.Infrastructure.NoteGone(&st.FailureReason, &st.FailureMessage, "MachinePool")
	}
	reference.NoteFailure(&st.FailureReason, &st.FailureMessage, f.BootstrapConfig, f.Infrastructure)

	const boot, infra, ready = clusterv1.BootstrapReadyV1Beta1Condition, clusterv1.InfrastructureReadyV1Beta1Condition, clusterv1.ReplicasReadyV1Beta1Condition
	all := []clusterv1.Condition{f.Infrastructure.Deprecated(reference.Deprecated{
		Target: infra, Done: f.provisioned(), Awaited: clusterv1.WaitingForInfrastructureFallbackV1Beta1Reason, Deleting: isDeleting,
	}, st.Conditions)}
	if hasData := p.Spec.Template.Spec.Bootstrap.DataSecretName != nil; hasData && !isDeleting || !f.BootstrapConfig.Defined() {
		all = append(all, v1beta1conditions.Done(boot, hasData, clusterv1.WaitingForDataSecretFallbackV1Beta1Reason))
	} else {
		all = append(all, f.BootstrapConfig.Deprecated(reference.Deprecated{
			Target: boot, Done: ptr.Deref(p.Status.Initialization.BootstrapDataSecretCreated, false),
			Awaited: clusterv1.WaitingForDataSecretFallbackV1Beta1Reason, Deleting: isDeleting,
		}, st.Conditions))
	}
	have := ptr.Deref(p.Status.Replicas, 0)
	if f.Unseen == "" {
		st.ReadyReplicas, st.AvailableReplicas = machinestatus.CountNodes(f.Machines, p.Spec.Template.Spec.MinReadySeconds, f.Now)
		all = append(all, v1beta1conditions.Done(ready, int(st.ReadyReplicas) >= f.want(), clusterv1.WaitingForReplicasReadyV1Beta1Reason))
	}
	st.UnavailableReplicas = max(0, have-st.AvailableReplicas)
	st.Conditions = v1beta1conditions.Set(st.Conditions, f.Now, all...)
	st.Conditions = v1beta1conditions.Set(st.Conditions, f.Now, v1beta1conditions.Ready(st.Conditions, 0, boot, infra, ready))
	p.Status.Deprecated = &clusterv1.MachinePoolDeprecatedStatus{V1Beta1: &st}
}
