// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// upToDate tells whether a worker of a MachineDeployment is as that wants it.
// Other Machines get the condition from whoever manages them, or have none.
func upToDate(s *state) (metav1.Condition, bool) {
	const target = clusterv1.MachineUpToDateCondition
	if s.set == nil || s.deployment == nil {
		return metav1.Condition{}, false
	}
	if _, ok := s.machine.Annotations[clusterv1.UpdateInProgressAnnotation]; ok {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* Update in place is in progress"), true
	}
	var why []string
	have, want := s.set.Spec.Template.Spec, s.deployment.Spec.Template.Spec
	differs := func(what, a, b string) {
		if a != b {
			why = append(why, fmt.Sprintf("* %s %s, %s required", what, orNone(a), orNone(b)))
		}
	}
	differs("Version", have.Version, want.Version)
	differs("Failure domain", have.FailureDomain, want.FailureDomain)
	differs("Bootstrap config", refText(have.Bootstrap.ConfigRef), refText(want.Bootstrap.ConfigRef))
	differs("Bootstrap data Secret", text(have.Bootstrap.DataSecretName), text(want.Bootstrap.DataSecretName))
	differs("Infrastructure", refText(have.InfrastructureRef), refText(want.InfrastructureRef))
	if after := s.deployment.Spec.Rollout.After; !after.IsZero() && !s.now.Before(after.Time) && s.set.CreationTimestamp.Before(&after) {
		why = append(why, fmt.Sprintf("* Rollout wanted after %s", after.UTC().Format(time.RFC3339)))
	}
	if info := s.machine.Status.NodeInfo; info != nil && s.machine.Spec.Version != "" {
		differs("Kubelet version", info.KubeletVersion, s.machine.Spec.Version)
	}
	if len(why) > 0 {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason, strings.Join(why, "\n")), true
	}
	return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, ""), true
}

func refText(r clusterv1.ContractVersionedObjectReference) string {
	if !r.IsDefined() {
		return ""
	}
	return r.Kind + " " + r.Name
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
