// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// check is a MachineHealthCheck by which a Machine may lack its Node for ten
// minutes, a Node be unready for five, and a host for two.
func check(change ...func(*clusterv1.MachineHealthCheck)) *clusterv1.MachineHealthCheck {
	c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mhc", CreationTimestamp: metav1.NewTime(ago(time.Hour))}}
	c.Spec.ClusterName = "demo"
	c.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	c.Spec.Checks = clusterv1.MachineHealthCheckChecks{
		NodeStartupTimeoutSeconds: new(int32(600)),
		UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
			{Type: "Ready", Status: "Unknown", TimeoutSeconds: new(int32(300))}, {Type: "Ready", Status: "False", TimeoutSeconds: new(int32(300))},
			{Type: "Deadlock", Status: "True", TimeoutSeconds: new(int32(0))},
		},
		UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{{Type: "InfrastructureReady", Status: "False", TimeoutSeconds: new(int32(120))}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// cluster has been up for a day.
func cluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	for _, t := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		conditions.Set(c, ago(24*time.Hour), metav1.Condition{Type: t, Status: "True", Reason: "R"})
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// machine is a worker that was created an hour ago and has the Node n.
func machine(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "m", Labels: map[string]string{"pool": "a"}, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(ago(time.Hour)),
	}}
	m.Spec.ClusterName = "demo"
	m.Status.NodeRef.Name = "n"
	for _, f := range change {
		f(m)
	}
	return m
}

func nodeless(m *clusterv1.Machine)     { m.Status.NodeRef.Name = "" }
func leaving(m *clusterv1.Machine)      { m.DeletionTimestamp = new(metav1.NewTime(now)) }
func controlPlane(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" }
func called(name string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Name = name }
}
func annotated(key string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Annotations[key] = "" }
}

// has sets a condition on a Machine, such as "InfrastructureReady False".
func has(condition string, since time.Duration) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		f := strings.SplitN(condition+strings.Repeat(" ", max(0, 3-strings.Count(condition, " "))), " ", 4)
		conditions.Set(m, ago(since), metav1.Condition{Type: f[0], Status: metav1.ConditionStatus(f[1]), Reason: cmp.Or(f[2], "R"), Message: f[3]})
	}
}

// node is one with a condition, created a day ago.
func node(condition string, since time.Duration) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(ago(24 * time.Hour))}}
	t, status, _ := strings.Cut(condition, " ")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(t), Status: corev1.ConditionStatus(status), LastTransitionTime: metav1.NewTime(ago(since))}}
	return n
}

// facts are those of one target.
func facts(m *clusterv1.Machine, n *corev1.Node, change ...func(*Facts)) Facts {
	f := Facts{
		Check: check(), Cluster: cluster(), Now: now, Selection: Selection{Targets: []*clusterv1.Machine{m}}, Observed: map[string]Observed{m.Name: {Node: n}},
		Connection: Connection{Answering: ago(24 * time.Hour)},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func answering(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Connection.Answering = ago(since) }
}
func silent(f *Facts)  { f.Connection.Answering = time.Time{} }
func untried(f *Facts) { silent(f); f.Connection.Untried = now.Add(4 * time.Second) }
func uninitialized(f *Facts) {
	f.Cluster.Status.Initialization.ControlPlaneInitialized = nil
	conditions.Delete(f.Cluster, clusterv1.ClusterControlPlaneInitializedCondition)
}
func with(change func(*clusterv1.MachineHealthCheck)) func(*Facts) {
	return func(f *Facts) { change(f.Check) }
}

var states = map[State]string{Healthy: "healthy", Unhealthy: "unhealthy", Doubtful: "doubtful", Starting: "starting", Leaving: "leaving", Unknown: "unknown", Unjudged: "unjudged"}

func TestExamine(t *testing.T) {
	t.Parallel()
	const (
		seconds = time.Second
		minutes = time.Minute
	)
	impatient := with(func(c *clusterv1.MachineHealthCheck) {
		c.Spec.Checks.UnhealthyNodeConditions[1].TimeoutSeconds = new(int32(0))
	})
	hasty := with(func(c *clusterv1.MachineHealthCheck) {
		c.Spec.Checks.UnhealthyMachineConditions[0].TimeoutSeconds = new(int32(0))
	})
	young := node("Ready False", 30*seconds)
	young.CreationTimestamp = metav1.NewTime(ago(31 * seconds))
	tests := map[string]struct {
		facts Facts
		want  string // state, reason, how long until it is due
	}{
		"a Node that is ready":                      {facts(machine(), node("Ready True", minutes)), "healthy"},
		"a Node without a word":                     {facts(machine(), &corev1.Node{}), "healthy"},
		"a Node that is unready for a while":        {facts(machine(), node("Ready Unknown", 299*seconds)), "doubtful in 1s"},
		"a Node that is unready for too long":       {facts(machine(), node("Ready Unknown", 300*seconds)), "unhealthy UnhealthyNode"},
		"each state has its own time":               {facts(machine(), node("Ready False", 300*seconds)), "unhealthy UnhealthyNode"},
		"a rule without timeout":                    {facts(machine(), node("Deadlock True", 0)), "unhealthy UnhealthyNode"},
		"one without timeout for a Node once ready": {facts(machine(), node("Ready False", 0), impatient), "unhealthy UnhealthyNode"},
		"it has a timeout for one that joins":       {facts(machine(func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(ago(minutes)) }), young, impatient), "doubtful in 9m0s"},
		"and waits for ever if starting may take that": {facts(machine(), young, impatient, with(func(c *clusterv1.MachineHealthCheck) {
			c.Spec.Checks.NodeStartupTimeoutSeconds = new(int32(0))
		})), "healthy"},
		"a hasty word on a host that is made": {facts(machine(nodeless, has("InfrastructureReady False", 0), func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(ago(minutes)) }), nil, hasty), "doubtful in 9m0s"},
		"on one whose Node joins":             {facts(machine(has("InfrastructureReady False", 0), func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(ago(minutes)) }), young, hasty), "doubtful in 4m30s"},
		"on one that has been up":             {facts(machine(has("InfrastructureReady False", 0)), node("Ready True", minutes), hasty), "unhealthy UnhealthyMachine"},
		"a time in the future is waited for":  {facts(machine(), node("Ready False", -minutes)), "doubtful in 6m0s"},

		"a Node that has gone":               {facts(machine(), nil), "unhealthy NodeDeleted"},
		"a Machine that is leaving":          {facts(machine(leaving, annotated(clusterv1.RemediateMachineAnnotation)), nil), "leaving"},
		"an order":                           {facts(machine(annotated(clusterv1.RemediateMachineAnnotation)), node("Ready True", minutes)), "unhealthy HasRemediateAnnotation"},
		"an order before there is a cluster": {facts(machine(nodeless, annotated(clusterv1.RemediateMachineAnnotation)), nil, uninitialized, silent), "unhealthy HasRemediateAnnotation"},
		"a bad host":                         {facts(machine(has("InfrastructureReady False", 120*seconds)), node("Ready True", minutes)), "unhealthy UnhealthyMachine"},
		"a host that has just become bad":    {facts(machine(has("InfrastructureReady False", 100*seconds)), node("Ready True", minutes)), "doubtful in 20s"},
		"what the Machine says wins":         {facts(machine(has("InfrastructureReady False", 120*seconds)), node("Ready Unknown", 300*seconds)), "unhealthy UnhealthyMachine"},
		"over its Node's end, too":           {facts(machine(has("InfrastructureReady False", 120*seconds)), nil), "unhealthy UnhealthyMachine"},
		"but not while it may last":          {facts(machine(has("InfrastructureReady False", 100*seconds)), nil), "unhealthy NodeDeleted"},
		"what comes first is waited for":     {facts(machine(has("InfrastructureReady False", 100*seconds)), node("Ready Unknown", 290*seconds)), "doubtful in 10s"},
		"no Node in time":                    {facts(machine(nodeless), nil), "unhealthy NodeStartupTimeout"},
		"no Node yet":                        {facts(machine(nodeless, func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(ago(minutes)) }), nil), "doubtful in 9m0s"},
		"no Node since the host is there":    {facts(machine(nodeless, has("InfrastructureReady True", 2*minutes)), nil), "doubtful in 8m0s"},
		"no Node, and none has to come":      {facts(machine(nodeless), nil, with(func(c *clusterv1.MachineHealthCheck) { c.Spec.Checks.NodeStartupTimeoutSeconds = new(int32(0)) })), "starting"},
		"no Node, and no startup timeout":    {facts(machine(nodeless), nil, with(func(c *clusterv1.MachineHealthCheck) { c.Spec.Checks = clusterv1.MachineHealthCheckChecks{} })), "unhealthy NodeStartupTimeout"},
		"no Node since the control plane is up": {facts(machine(nodeless), nil, func(f *Facts) {
			f.Cluster = cluster(func(c *clusterv1.Cluster) {
				c.Status.Conditions = nil
				conditions.Set(c, ago(3*minutes), metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: "True", Reason: "R"})
			})
		}), "doubtful in 7m0s"},
		"a worker before the control plane":            {facts(machine(nodeless), nil, uninitialized, silent), "starting"},
		"a first machine that never comes up":          {facts(machine(nodeless, controlPlane), nil, uninitialized, silent), "unhealthy NodeStartupTimeout"},
		"nothing before the Cluster's infrastructure":  {facts(machine(nodeless, controlPlane), nil, func(f *Facts) { f.Cluster.Status.Initialization.InfrastructureProvisioned = nil }), "starting"},
		"a Node of a control plane not known to be up": {facts(machine(controlPlane), nil, uninitialized, silent), "unknown"},

		"a cluster that does not answer":                  {facts(machine(), nil, silent), "unknown"},
		"not even by what the Machine says":               {facts(machine(has("InfrastructureReady False", 120*seconds)), nil, silent), "unknown"},
		"nor for want of a Node":                          {facts(machine(nodeless), nil, silent), "unknown"},
		"an order anyway":                                 {facts(machine(annotated(clusterv1.RemediateMachineAnnotation)), nil, silent), "unhealthy HasRemediateAnnotation"},
		"a process that has just started":                 {facts(machine(), nil, untried), "unjudged in 4s"},
		"the status counts from when the cluster answers": {facts(machine(), node("Ready Unknown", time.Hour), answering(minutes)), "doubtful in 4m0s"},
		"so does the want of a Node":                      {facts(machine(nodeless), nil, answering(minutes)), "doubtful in 9m0s"},
		"and what the Machine says":                       {facts(machine(has("InfrastructureReady False", time.Hour)), node("Ready True", minutes), answering(minutes)), "doubtful in 1m0s"},
		"what lasts after that counts in the end":         {facts(machine(), node("Ready Unknown", time.Hour), answering(5*minutes)), "unhealthy UnhealthyNode"},
		"that a Node has gone is seen as it is now":       {facts(machine(), nil, answering(0)), "unhealthy NodeDeleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(tc.facts)
			v := d.Results[0]
			got := strings.TrimSpace(states[v.State] + " " + v.Reason)
			if !v.Due.IsZero() {
				got += fmt.Sprintf(" in %s", v.Due.Sub(now))
			}
			if got != tc.want || !d.RequeueAt.Equal(v.Due) {
				t.Errorf("got %q, requeued at %s; want %q (%s)", got, d.RequeueAt, tc.want, v.Message)
			}
		})
	}
}

func TestResultHasRuleAndTime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		facts Facts
		want  string
	}{
		"of a Node": {
			facts(machine(), node("Ready Unknown", 10*time.Minute)),
			"Condition Ready of Node n is Unknown since 2026-08-01T11:50:00Z, for more than 5m0s (spec.checks.unhealthyNodeConditions[0] of MachineHealthCheck mhc)",
		},
		"after the cluster was away": {
			facts(machine(), node("Ready Unknown", 10*time.Minute), answering(6*time.Minute)),
			"Condition Ready of Node n is Unknown since 2026-08-01T11:50:00Z, for more than 5m0s, counted from 2026-08-01T11:54:00Z when its cluster began to answer (spec.checks.unhealthyNodeConditions[0] of MachineHealthCheck mhc)",
		},
		"of a Machine": {
			facts(machine(has("InfrastructureReady False", 10*time.Minute)), node("Ready True", 0)),
			"Condition InfrastructureReady of the Machine is False since 2026-08-01T11:50:00Z, for more than 2m0s (spec.checks.unhealthyMachineConditions[0] of MachineHealthCheck mhc)",
		},
		"of no Node":             {facts(machine(nodeless), nil), "No Node has come up since 2026-08-01T11:00:00Z, for more than 10m0s (spec.checks.nodeStartupTimeoutSeconds of MachineHealthCheck mhc)"},
		"of a Node that is gone": {facts(machine(), nil), "Node n has been deleted, as seen at 2026-08-01T12:00:00Z (MachineHealthCheck mhc)"},
		"of one gone for longer": {facts(machine(has("HealthCheckSucceeded False NodeDeleted said before", time.Hour)), nil), "said before"},
		"of an order":            {facts(machine(annotated(clusterv1.RemediateMachineAnnotation)), nil), "Annotation cluster.x-k8s.io/remediate-machine is set, as seen at 2026-08-01T12:00:00Z (MachineHealthCheck mhc)"},
		"in doubt":               {facts(machine(), node("Ready Unknown", time.Minute)), "Condition Ready of Node n is Unknown since 2026-08-01T11:59:00Z: unhealthy at 2026-08-01T12:04:00Z (spec.checks.unhealthyNodeConditions[0] of MachineHealthCheck mhc)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Decide(tc.facts).Results[0].Message; got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
