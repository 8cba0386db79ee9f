// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestOrdersStandAsLongAsTheirCheckAndNoLongerThanTheConnection(t *testing.T) {
	t.Parallel()
	const told = "Node n has been deleted (MachineHealthCheck mhc)"
	condemned := func(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
		change = append([]func(*clusterv1.Machine){has("HealthCheckSucceeded False UnhealthyNode "+told, time.Minute), has("OwnerRemediated False WaitingForRemediation", time.Minute)}, change...)
		return machine(change...)
	}
	ending := func(c *clusterv1.MachineHealthCheck) { c.DeletionTimestamp = new(metav1.NewTime(now)) }
	reports := func(c *clusterv1.MachineHealthCheck) {
		c.Annotations = map[string]string{clusterv1.RemediationModeAnnotation: clusterv1.RemediationModeReport}
	}
	pauses := func(c *clusterv1.MachineHealthCheck) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	paused := func(since time.Duration) func(*clusterv1.MachineHealthCheck) {
		return func(c *clusterv1.MachineHealthCheck) {
			conditions.Set(c, ago(since), metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason})
		}
	}
	elsewhere := func(c *clusterv1.MachineHealthCheck) { c.Spec.Selector.MatchLabels = map[string]string{"pool": "b"} }
	first := cluster(func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = nil })
	checks := func(all ...*clusterv1.MachineHealthCheck) []*clusterv1.MachineHealthCheck {
		return append([]*clusterv1.MachineHealthCheck{}, all...)
	}
	tests := map[string]struct {
		machine *clusterv1.Machine
		orders  Orders
		held    bool
		until   time.Time
	}{
		"one of this connection stands":           {machine: condemned(), orders: Orders{Answering: ago(time.Hour)}},
		"one of its first second, too":            {machine: condemned(), orders: Orders{Answering: ago(time.Minute - 900*time.Millisecond)}},
		"one from before it does not":             {machine: condemned(), orders: Orders{Answering: ago(50 * time.Second)}, held: true},
		"nor while the cluster does not answer":   {machine: condemned(), held: true},
		"another process need not repeat itself":  {machine: condemned(), orders: Orders{Answering: ago(50 * time.Second), Timeout: time.Minute}, held: true, until: now.Add(10 * time.Second)},
		"after a while":                           {machine: condemned(), orders: Orders{Answering: ago(50 * time.Second), Timeout: 50 * time.Second}},
		"that of a user needs no recent status":   {machine: condemned(has("HealthCheckSucceeded False HasRemediateAnnotation "+told, time.Minute))},
		"nor that on a first machine":             {machine: condemned(controlPlane, nodeless), orders: Orders{Cluster: first}},
		"without a check none stands":             {machine: condemned(), orders: Orders{Checks: checks(), Answering: ago(time.Hour)}, held: true},
		"nor with one that selects others":        {machine: condemned(), orders: Orders{Checks: checks(check(elsewhere)), Answering: ago(time.Hour)}, held: true},
		"nor with one that ends":                  {machine: condemned(), orders: Orders{Checks: checks(check(ending)), Answering: ago(time.Hour)}, held: true},
		"nor with one that only reports":          {machine: condemned(), orders: Orders{Checks: checks(check(reports)), Answering: ago(time.Hour)}, held: true},
		"nor with one that is paused":             {machine: condemned(), orders: Orders{Checks: checks(check(pauses)), Answering: ago(time.Hour)}, held: true},
		"nor with one that has to find out again": {machine: condemned(), orders: Orders{Checks: checks(check(paused(time.Second))), Answering: ago(time.Hour)}, held: true},
		"with one that has":                       {machine: condemned(), orders: Orders{Checks: checks(check(paused(time.Hour))), Answering: ago(2 * time.Hour)}},
		"nor on what a user wants left alone":     {machine: condemned(annotated(clusterv1.MachineSkipRemediationAnnotation)), orders: Orders{Answering: ago(time.Hour)}, held: true},
		"one check of several is enough":          {machine: condemned(), orders: Orders{Checks: checks(check(reports), check()), Answering: ago(time.Hour)}},
		"that of another client needs no check":   {machine: condemned(has("HealthCheckSucceeded False UnhealthyNode by hand", time.Minute)), orders: Orders{Checks: checks(), Answering: ago(time.Hour)}},
		"without an order nothing is reported":    {machine: machine(has("HealthCheckSucceeded False UnhealthyNode", time.Minute)), orders: Orders{Checks: checks()}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tc.orders
			o.Now = now
			if o.Cluster == nil {
				o.Cluster = cluster()
			}
			if o.Checks == nil {
				o.Checks = checks(check())
			}
			names, until := o.Held([]*clusterv1.Machine{tc.machine})
			if held := len(names) > 0; held != tc.held || !until.Equal(tc.until) {
				t.Errorf("held %v until %s, want %v until %s", held, until, tc.held, tc.until)
			}
		})
	}
}

func TestConditionsAreRemovedWithoutHealthCheck(t *testing.T) {
	t.Parallel()
	const told = "Node n has been deleted (MachineHealthCheck mhc)"
	said := []func(*clusterv1.Machine){
		has("HealthCheckSucceeded False UnhealthyNode "+told, 0), has("ExternallyRemediated False WaitingForRemediation", 0), has("InfrastructureReady True", 0),
	}
	tests := map[string]struct {
		machine *clusterv1.Machine
		checks  []*clusterv1.MachineHealthCheck
		want    int // conditions that are left
	}{
		"all of it":                         {machine: machine(append(said, has("OwnerRemediated False RemediationDeferred", 0))...), want: 1},
		"but a started remediation":         {machine: machine(append(said, has("OwnerRemediated False MachineDeleting", 0))...), want: 2},
		"nothing while a check selects it":  {machine: machine(said...), checks: []*clusterv1.MachineHealthCheck{check()}, want: 3},
		"nor a condition of another client": {machine: machine(append(said, has("HealthCheckSucceeded False UnhealthyNode by hand", 0))...), want: 3},
		"that it is healthy, too":           {machine: machine(has("HealthCheckSucceeded True HealthCheckSucceeded", 0))},
		"nothing of one that leaves":        {machine: machine(append(said, leaving)...), want: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if Withdraw(tc.machine, tc.checks); len(tc.machine.Status.Conditions) != tc.want {
				t.Errorf("left: %v, want %d", tc.machine.Status.Conditions, tc.want)
			}
		})
	}
}
