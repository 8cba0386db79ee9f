// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func ExampleSet() {
	machine := &clusterv1.Machine{}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	conditions.Set(machine, now, conditions.New(clusterv1.ReadyCondition, metav1.ConditionFalse, "NotReady", "the disk is full"))

	// The status does not change, so the time of the last transition does not
	// either.
	conditions.Set(machine, now.Add(time.Hour), conditions.New(clusterv1.ReadyCondition, metav1.ConditionFalse, "NotReady", "the disk is broken"))

	c := conditions.Get(machine, clusterv1.ReadyCondition)
	fmt.Println(c.Status, c.Reason, c.Message, c.LastTransitionTime.UTC().Format(time.TimeOnly))
	// Output: False NotReady the disk is broken 12:00:00
}

// One condition of an object summarizes its others: problems are first.
func ExampleSummary() {
	machine := &clusterv1.Machine{}
	for _, c := range []metav1.Condition{
		conditions.New("BootstrapConfigReady", metav1.ConditionTrue, "Ready", ""),
		conditions.New("InfrastructureReady", metav1.ConditionFalse, "NotReady", "no host is free"),
		conditions.New("Paused", metav1.ConditionFalse, "NotPaused", ""),
	} {
		conditions.Set(machine, time.Now(), c)
	}
	ready := conditions.Summary(machine, clusterv1.ReadyCondition, conditions.SummaryOptions{
		Types:   []string{"BootstrapConfigReady", "InfrastructureReady", "NodeReady"},
		Reasons: conditions.Reasons{Issue: "NotReady", Unknown: "ReadyUnknown", Info: "Ready"},
	})
	fmt.Println(ready.Status, ready.Reason)
	fmt.Println(ready.Message)
	// Output:
	// False NotReady
	// * InfrastructureReady: no host is free
	// * NodeReady: Condition NodeReady not yet reported
}

// One condition of many objects becomes one: equal messages appear once.
func ExampleAggregate() {
	var machines []*clusterv1.Machine
	for _, name := range []string{"a", "b", "c"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		status, reason, message := metav1.ConditionFalse, "NotReady", "no host is free"
		if name == "c" {
			status, reason, message = metav1.ConditionTrue, "Ready", ""
		}
		conditions.Set(m, time.Now(), conditions.New(clusterv1.ReadyCondition, status, reason, message))
		machines = append(machines, m)
	}
	all := conditions.Aggregate(conditions.Objects("Machine", machines...), clusterv1.ReadyCondition, "MachinesReady", conditions.AggregateOptions{
		Reasons: conditions.Reasons{Issue: "NotReady", Unknown: "ReadyUnknown", Info: "Ready"},
	})
	fmt.Println(all.Type, all.Status, all.Reason)
	fmt.Println(all.Message)
	// Output:
	// MachinesReady False NotReady
	// * Machines a, b: no host is free
}
