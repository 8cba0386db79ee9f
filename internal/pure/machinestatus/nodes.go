// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// CountNodes counts the Machines whose Nodes are ready, and those whose Nodes have been ready
// for minReadySeconds, as v1beta1 defines it. Other conditions of a Machine do not
// count.
func CountNodes(machines []*clusterv1.Machine, minReadySeconds *int32, now time.Time) (ready, available int32) {
	wait := time.Duration(ptr.Deref(minReadySeconds, 0)) * time.Second
	for _, m := range machines {
		node := conditions.Get(m, clusterv1.MachineNodeReadyCondition)
		if node == nil || node.Status != metav1.ConditionTrue {
			continue
		}
		ready++
		available += one(!now.Before(node.LastTransitionTime.Add(wait)))
	}
	return ready, available
}
