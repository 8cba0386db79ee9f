// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/controller/topology/status"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
)

// paused adds the reasons for a pause to the facts.
func (r *Reconciler) paused(s *state) {
	if ptr.Deref(s.cluster.Spec.Paused, false) {
		s.facts.Paused = append(s.facts.Paused, status.PausedBySpec)
	}
	if _, ok := s.cluster.Annotations[clusterv1.PausedAnnotation]; ok {
		s.facts.Paused = append(s.facts.Paused, status.PausedByAnnotation)
	}
	r.condition(s)
}

// report fills the status. A conflict with another client's write is retried
// immediately, and is no failure. Just after a start no extension can be called:
// the earlier report of the same generation stays.
func (r *Reconciler) report(s *state, failed error) {
	said := conditions.Get(s.cluster, clusterv1.ClusterTopologyReconciledCondition)
	starting := errors.Is(failed, extensions.ErrNotReady) && said != nil && said.ObservedGeneration == s.cluster.Generation
	if controller.OnlyConflicts(failed) || starting {
		return
	}
	s.facts.Err = failed
	r.condition(s)
	if failed == nil && s.facts.Plan != nil {
		s.plans()
	}
}

func (r *Reconciler) condition(s *state) {
	c := status.Condition(s.facts)
	if c.Status == metav1.ConditionTrue {
		c.Message = strings.Join(append(s.notes, s.desired.Unmatched...), "\n")
	}
	c.ObservedGeneration = cmp.Or(s.generation, s.cluster.Generation)
	conditions.Set(s.cluster, r.Clock.Now(), c)
	if r.Deprecated {
		clusterstatus.SetDeprecated(s.cluster, r.Clock.Now(), status.Deprecated(c))
	}
}

// plans reports the planned versions. The counters next to them belong to another
// controller.
func (s *state) plans() {
	setPlans(&s.cluster.Status, listed(s.facts.Plan.ControlPlaneUpgrades), listed(s.facts.Plan.WorkersUpgrades))
}

func setPlans(st *clusterv1.ClusterStatus, plane, workers []clusterv1.StatusUpgradePlanVersion) {
	if st.ControlPlane == nil && len(plane) > 0 {
		st.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
	}
	if st.ControlPlane != nil {
		st.ControlPlane.UpgradePlan = plane
	}
	if st.Workers == nil && len(workers) > 0 {
		st.Workers = &clusterv1.WorkersStatus{}
	}
	if st.Workers != nil {
		st.Workers.UpgradePlan = workers
	}
}

func listed(versions []string) (out []clusterv1.StatusUpgradePlanVersion) {
	for _, v := range versions {
		out = append(out, clusterv1.StatusUpgradePlanVersion{Version: v})
	}
	return out
}

// carry copies the report about the topology from one copy of a Cluster to another.
func (r *Reconciler) carry(from, to client.Object) {
	was, is := from.(*clusterv1.Cluster), to.(*clusterv1.Cluster)
	c := conditions.Get(was, clusterv1.ClusterTopologyReconciledCondition)
	if c == nil || !is.DeletionTimestamp.IsZero() {
		return // the write of the deletion includes its report
	}
	conditions.Set(is, c.LastTransitionTime.Time, *c)
	if r.Deprecated {
		clusterstatus.SetDeprecated(is, c.LastTransitionTime.Time, status.Deprecated(*c))
	}
	var plane, workers []clusterv1.StatusUpgradePlanVersion
	if was.Status.ControlPlane != nil {
		plane = was.Status.ControlPlane.UpgradePlan
	}
	if was.Status.Workers != nil {
		workers = was.Status.Workers.UpgradePlan
	}
	setPlans(&is.Status, plane, workers)
}
