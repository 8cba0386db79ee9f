// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/cluster/clusterdeletion"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// delete deletes the Cluster in order, as far as possible now: it plans the
// deletion, and deletes what the plan requests. Watches trigger the next reconcile.
func (r *Reconciler) delete(ctx context.Context, s *state) (reconciler.Next, error) {
	_, let := s.cluster.Annotations[runtimev1.OkToDeleteAnnotation]
	made, err := decisions.Make(ctx, clusterdeletion.Planner,
		clusterdeletion.Facts{
			Infrastructure: s.infra.Known(), ControlPlane: s.controlPlane.Known(), Members: s.members,
			Hooked: s.cluster.Spec.Topology.IsDefined() && !let,
		},
		func(q clusterdeletion.Question) (clusterdeletion.Answer, error) { return r.answer(ctx, s, q) })
	s.deletion = made.Plan.Stage
	if err == nil && made.Plan.Done {
		reconciler.RemoveFinalizers(s.cluster, clusterv1.ClusterFinalizer)
		ctrl.LoggerFrom(ctx).Info("Deleted the Cluster")
		r.event(s, "Deleted", "Delete", "Everything of the Cluster is deleted")
	}
	return reconciler.Continue(), err
}

// answer deletes the object in a question of the plan.
func (r *Reconciler) answer(ctx context.Context, s *state, q clusterdeletion.Question) (clusterdeletion.Answer, error) {
	var obj client.Object
	meta := metav1.ObjectMeta{Namespace: s.cluster.Namespace, Name: q.Name}
	switch q.Kind {
	case clusterdeletion.ControlPlane:
		return r.deleteReferred(ctx, s, &s.controlPlane)
	case clusterdeletion.Infrastructure:
		return r.deleteReferred(ctx, s, &s.infra)
	case clusterdeletion.MachineDeployment:
		obj = &clusterv1.MachineDeployment{ObjectMeta: meta}
	case clusterdeletion.MachineSet:
		obj = &clusterv1.MachineSet{ObjectMeta: meta}
	case clusterdeletion.MachinePool:
		obj = &clusterv1.MachinePool{ObjectMeta: meta}
	case clusterdeletion.Machine:
		obj = &clusterv1.Machine{ObjectMeta: meta}
	default:
		return clusterdeletion.Answer{}, fmt.Errorf("unknown object to delete: %v", q)
	}
	return clusterdeletion.Answer{Failed: questions.Failed(client.IgnoreNotFound(r.Mgmt.Delete(ctx, obj)))}, nil
}

// deleteReferred requests the deletion of the object behind a reference, unless
// that has been done. An object with another owner stays. A kind without a CRD has
// no objects. If a CRD exists but cannot be used, an object of it may exist: so
// that is an error for the user to correct.
func (r *Reconciler) deleteReferred(ctx context.Context, s *state, ref *provider.Reference) (a clusterdeletion.Answer, err error) {
	err = r.look(ctx, s, ref)
	if ref.Gone() {
		return clusterdeletion.Answer{Gone: true}, nil
	}
	if err != nil {
		return clusterdeletion.Answer{Unknown: questions.Failed(err)}, nil
	}
	if err := r.Providers.Remove(ctx, ref, reference.ByCluster(s.cluster)); err != nil {
		return a, err
	}
	if ref.Held() {
		ctrl.LoggerFrom(ctx).Info("Leaving alone what the Cluster refers to", ref.Ref.Kind, ref.Ref.Name, "reason", ref.Err.Error())
	}
	return clusterdeletion.Answer{Held: ref.Held()}, nil
}
