// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
	"github.com/capstan-dev/capstan/internal/pure/topology/status"
)

// paused tells of a pause.
func (r *Reconciler) paused(s *state) {
	if ptr.Deref(s.cluster.Spec.Paused, false) {
		s.facts.Paused = append(s.facts.Paused, status.PausedBySpec)
	}
	if _, ok := s.cluster.Annotations[clusterv1.PausedAnnotation]; ok {
		s.facts.Paused = append(s.facts.Paused, status.PausedByAnnotation)
	}
	r.condition(s)
}

// report fills the status. What was only changed by somebody else meanwhile is
// tried again at once, and no failure. After a start nobody can be asked for a
// moment: what was said of this generation is said still.
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
	c.ObservedGeneration = patch.Generation(s.cluster, s.before, s.cluster.Spec)
	conditions.Set(s.cluster, r.Clock.Now(), c)
	if r.Legacy {
		clusterstatus.SetLegacy(s.cluster, r.Clock.Now(), status.Legacy(c))
	}
}

// plans tells of what is ahead. The counters beside it are another controller's.
func (s *state) plans() {
	st, plan := &s.cluster.Status, s.facts.Plan
	if st.ControlPlane == nil && len(plan.ControlPlaneUpgrades) > 0 {
		st.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
	}
	if st.ControlPlane != nil {
		st.ControlPlane.UpgradePlan = listed(plan.ControlPlaneUpgrades)
	}
	if st.Workers == nil && len(plan.WorkersUpgrades) > 0 {
		st.Workers = &clusterv1.WorkersStatus{}
	}
	if st.Workers != nil {
		st.Workers.UpgradePlan = listed(plan.WorkersUpgrades)
	}
}

func listed(versions []string) (out []clusterv1.StatusUpgradePlanVersion) {
	for _, v := range versions {
		out = append(out, clusterv1.StatusUpgradePlanVersion{Version: v})
	}
	return out
}
