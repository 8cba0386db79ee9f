// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkAggregate aggregates the Machines of a large set, one in ten of which has an
// issue.
func BenchmarkAggregate(b *testing.B) {
	var objects []Object
	for i := range 500 {
		c := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}
		if i%10 == 0 {
			c = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NotReady", Message: fmt.Sprintf("waiting for host %d", i%30)}
		}
		objects = append(objects, Object{Kind: "Machine", Name: fmt.Sprintf("m-%d", i), Conditions: []metav1.Condition{c}})
	}
	b.ReportAllocs()
	for b.Loop() {
		Aggregate(objects, "Ready", "MachinesReady", AggregateOptions{})
	}
}

// BenchmarkAggregateOfMany aggregates ten thousand Machines in creation, each of which
// has its own message.
func BenchmarkAggregateOfMany(b *testing.B) {
	var objects []Object
	for i := range 10_000 {
		c := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NotReady", Message: fmt.Sprintf("waiting for host %d", i)}
		objects = append(objects, Object{Kind: "Machine", Name: fmt.Sprintf("m-%d", i), Conditions: []metav1.Condition{c}})
	}
	b.ReportAllocs()
	for b.Loop() {
		Aggregate(objects, "Ready", "MachinesReady", AggregateOptions{})
	}
}

func BenchmarkSet(b *testing.B) {
	o := &object{}
	for i := range 15 {
		Set(o, time.Unix(0, 0), metav1.Condition{Type: fmt.Sprintf("C%d", i), Status: metav1.ConditionTrue})
	}
	b.ReportAllocs()
	for b.Loop() {
		Set(o, time.Unix(1, 0), metav1.Condition{Type: "C7", Status: metav1.ConditionTrue})
	}
}
