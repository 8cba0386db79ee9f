// SPDX-License-Identifier: Apache-2.0

package localstatus

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// First returns the LocalCluster that an identity belongs to, of those that have it: the
// oldest. It is empty if that is this one.
func First(lc *infrav1.LocalCluster, same []infrav1.LocalCluster) string {
	first := lc
	for i := range same {
		if older(&same[i], first) {
			first = &same[i]
		}
	}
	if first.Namespace == lc.Namespace && first.Name == lc.Name {
		return ""
	}
	return first.Namespace + "/" + first.Name
}

func older(a, b *infrav1.LocalCluster) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// Cluster is the input of the status of a LocalCluster.
type Cluster struct {
	Local      *infrav1.LocalCluster
	Cluster    *clusterv1.Cluster // nil: it has no owner, or the owner was deleted
	Generation int64              // observed generation of the status
	Now        time.Time
	Waiting    string // what must change first; empty if nothing
	Failed     string // the error of this reconcile
	Refused    string // why the endpoint in the spec cannot be used
}

// ReportCluster fills the conditions of the LocalCluster, and the corresponding fields
// of contract v1beta1.
func ReportCluster(c Cluster) {
	st := &c.Local.Status
	st.Ready = st.Initialization.Provisioned
	st.FailureReason, st.FailureMessage = failure(invalidConfiguration, c.Refused)
	for _, condition := range []metav1.Condition{clusterReady(c), clusterDeleting(c), pause.Condition(c.Cluster, c.Local)} {
		condition.ObservedGeneration = c.Generation
		conditions.Set(c.Local, c.Now, condition)
	}
}

// clusterReady is true while the endpoint is available.
func clusterReady(c Cluster) metav1.Condition {
	ready := conditions.New(clusterv1.ReadyCondition, metav1.ConditionFalse, clusterv1.NotReadyReason, "")
	switch {
	case !c.Local.DeletionTimestamp.IsZero():
		ready.Reason, ready.Message = clusterv1.DeletingReason, "The infrastructure is being deleted"
	case c.Waiting != "":
		ready.Message = c.Waiting
	case c.Failed != "":
		ready.Message = "Waiting for the control plane endpoint: " + c.Failed
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, clusterv1.ReadyReason
	}
	return ready
}

func clusterDeleting(c Cluster) metav1.Condition {
	if c.Local.DeletionTimestamp.IsZero() {
		return conditions.New(clusterv1.DeletingCondition, metav1.ConditionFalse, clusterv1.NotDeletingReason, "")
	}
	message := c.Waiting
	if message == "" && c.Failed != "" {
		message = "Waiting for the infrastructure to be deleted: " + c.Failed
	}
	return conditions.New(clusterv1.DeletingCondition, metav1.ConditionTrue, clusterv1.DeletingReason, message)
}
