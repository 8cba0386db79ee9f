// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// state has what one reconcile has read.
type state struct {
	class     *clusterv1.ClusterClass
	templates []string // problems with them
	outdated  []string // those that the class names by an older version of their API
	variables error    // why they are not ready
}

// longest is the maximum length of a condition message: an extension may return any
// text.
const longest = 4096

// report fills the status. It is pure except for the time.
func (r *Reconciler) report(s *state, failed error) {
	all := []metav1.Condition{pause.Condition(nil, s.class), s.refVersions()}
	// Just after a start no extension can be called. The earlier report of this
	// generation stays: its Clusters depend on it.
	if !errors.Is(s.variables, extensions.ErrNotReady) || s.class.Status.ObservedGeneration != s.class.Generation {
		all = append(all, s.variablesReady())
	}
	for _, c := range all {
		c.ObservedGeneration, c.Message = s.class.Generation, extensionconfig.Shorten(c.Message, longest)
		if !apierrors.IsConflict(failed) { // another client changed a template too: it is retried immediately
			conditions.Set(s.class, r.Clock.Now(), c)
		}
	}
	if failed == nil {
		s.class.Status.ObservedGeneration = s.class.Generation
	}
}

// reportDeprecated sets the fields for clients of v1beta1.
func (r *Reconciler) reportDeprecated(s *state, _ error) {
	class, now := s.class, r.Clock.Now()
	st := ptr.Deref(ptr.Deref(class.Status.Deprecated, clusterv1.ClusterClassDeprecatedStatus{}).V1Beta1, clusterv1.ClusterClassV1Beta1DeprecatedStatus{})
	st.Conditions = v1beta1conditions.Set(st.Conditions, now,
		v1beta1conditions.From(conditions.Get(class, clusterv1.ClusterClassVariablesReadyCondition),
			clusterv1.ClusterClassVariablesReconciledV1Beta1Condition, clusterv1.ConditionSeverityError, nil),
		v1beta1conditions.From(conditions.Get(class, clusterv1.ClusterClassRefVersionsUpToDateCondition),
			clusterv1.ClusterClassRefVersionsUpToDateV1Beta1Condition, clusterv1.ConditionSeverityWarning, map[string]string{
				clusterv1.ClusterClassRefVersionsNotUpToDateReason: clusterv1.ClusterClassOutdatedRefVersionsV1Beta1Reason,
			}))
	class.Status.Deprecated = &clusterv1.ClusterClassDeprecatedStatus{V1Beta1: &st}
}

func (s *state) refVersions() metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ClusterClassRefVersionsUpToDateCondition}
	switch {
	case len(s.templates) > 0:
		c.Status, c.Reason = metav1.ConditionUnknown, clusterv1.ClusterClassRefVersionsUpToDateInternalErrorReason
		c.Message = strings.Join(s.templates, "\n")
	case len(s.outdated) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, clusterv1.ClusterClassRefVersionsNotUpToDateReason
		c.Message = "The following templateRefs are not using the latest apiVersion:\n" + strings.Join(s.outdated, "\n")
	default:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ClusterClassRefVersionsUpToDateReason
	}
	return c
}

func (s *state) variablesReady() metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ClusterClassVariablesReadyCondition}
	if s.variables != nil {
		c.Status, c.Reason = metav1.ConditionFalse, clusterv1.ClusterClassVariablesReadyVariableDiscoveryFailedReason
		c.Message = "VariableDiscovery failed: " + s.variables.Error()
	} else {
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ClusterClassVariablesReadyReason
	}
	return c
}
