// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
)

// TestClusterThatRequiresPlansHasAGuard reconciles a Cluster with and without the
// annotation, and with guards in several states.
func TestClusterThatRequiresPlansHasAGuard(t *testing.T) {
	t.Parallel()
	requires := func(c *clusterv1.Cluster) { c.Annotations = map[string]string{planv1.RequirePlanAnnotation: "true"} }
	guard := func(spec planv1.PlanGuardSpec, held ...planv1.Held) *planv1.PlanGuard {
		return &planv1.PlanGuard{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: spec, Status: planv1.PlanGuardStatus{Held: held, Sent: metav1.NewTime(now.Add(-time.Hour))}}
	}
	plan := func(deadline time.Duration) planv1.PlanGuardSpec {
		return planv1.PlanGuardSpec{Plan: "p1", Deadline: metav1.NewTime(now.Add(deadline)), Cluster: &planv1.Cluster{Groups: []planv1.Group{{Owner: "MachineDeployment md", Then: 1}}}}
	}
	done := plan(time.Hour)
	done.Cluster.Groups = nil
	held := planv1.Held{Kind: "LocalMachine", Name: "m1", What: "deleted", User: "eve", At: metav1.NewTime(now)}
	tests := map[string]struct {
		cluster   func(*clusterv1.Cluster)
		guard     *planv1.PlanGuard
		want      *planv1.PlanGuardSpec // nil for no guard
		condition metav1.ConditionStatus
	}{
		"no plan is required":      {nil, nil, nil, ""},
		"a plan is required":       {requires, nil, &planv1.PlanGuardSpec{Required: true}, ""},
		"no plan is required now":  {nil, guard(planv1.PlanGuardSpec{Required: true}), nil, ""},
		"being carried out":        {nil, guard(plan(time.Hour)), new(plan(time.Hour)), metav1.ConditionTrue},
		"something is held back":   {nil, guard(done, held), &done, metav1.ConditionFalse},
		"carried out":              {nil, guard(done), nil, ""},
		"carried out and required": {requires, guard(done), &planv1.PlanGuardSpec{Required: true}, ""},
		"expired":                  {nil, guard(plan(-time.Second)), nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster()
			if tc.cluster != nil {
				tc.cluster(cluster)
			}
			objects := []client.Object{cluster, network(), brain()}
			if tc.guard != nil {
				objects = append(objects, tc.guard)
			}
			got, c, err := run(t, interceptor.Funcs{}, objects...)
			if err != nil {
				t.Fatal(err)
			}
			g := &planv1.PlanGuard{}
			err = c.Get(t.Context(), key, g)
			switch {
			case tc.want == nil:
				if !apierrors.IsNotFound(err) {
					t.Errorf("guard %+v, error %v, want none", g.Spec, err)
				}
			case err != nil:
				t.Error(err)
			case g.Spec.Plan != tc.want.Plan || g.Spec.Required != tc.want.Required:
				t.Errorf("guard %+v, want %+v", g.Spec, tc.want)
			case tc.guard == nil && (len(g.OwnerReferences) != 1 || g.OwnerReferences[0].Name != key.Name):
				t.Errorf("owners %+v: the guard outlives its Cluster", g.OwnerReferences)
			}
			status := metav1.ConditionStatus("")
			if held := conditions.Get(got, planv1.PlanHeldCondition); held != nil {
				status = held.Status
			}
			if status != tc.condition {
				t.Errorf("PlanHeld is %q, want %q", status, tc.condition)
			}
		})
	}
}

// TestPlanOfAPausedClusterEnds has a plan that pauses its Cluster: nothing moves, so it is
// carried out when no controller can have missed the change. What a guard does in addition
// to that has to wait for the end of the pause.
func TestPlanOfAPausedClusterEnds(t *testing.T) {
	t.Parallel()
	requires := func(c *clusterv1.Cluster) { c.Annotations = map[string]string{planv1.RequirePlanAnnotation: "true"} }
	spec := func(deadline time.Duration, required bool, groups ...planv1.Group) planv1.PlanGuardSpec {
		return planv1.PlanGuardSpec{Plan: "p1", Required: required, Deadline: metav1.NewTime(now.Add(deadline)), Cluster: &planv1.Cluster{Groups: groups}}
	}
	missing := planv1.Group{Owner: "MachineDeployment md", Then: 1}
	for name, tc := range map[string]struct {
		cluster func(*clusterv1.Cluster)
		spec    *planv1.PlanGuardSpec
		sent    time.Duration // ago
		want    *planv1.PlanGuardSpec
		again   time.Duration
		held    bool
	}{
		"carried out":               {nil, new(spec(time.Hour, false)), time.Minute, nil, 0, false},
		"carried out, and required": {requires, new(spec(time.Hour, true)), time.Minute, &planv1.PlanGuardSpec{Required: true}, 0, false},
		"too late":                  {nil, new(spec(-time.Second, false, missing)), time.Minute, nil, 0, false},
		"sent a second ago":         {nil, new(spec(time.Hour, false)), time.Second, new(spec(time.Hour, false)), 29 * time.Second, true},
		"not as the plan leaves it": {nil, new(spec(time.Hour, false, missing)), time.Minute, new(spec(time.Hour, false, missing)), time.Hour, true},
		"no plan, and required":     {requires, nil, 0, nil, 0, true},
		"no plan, required before":  {nil, &planv1.PlanGuardSpec{Required: true}, 0, &planv1.PlanGuardSpec{Required: true}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(func(c *clusterv1.Cluster) {
				c.Spec.Paused = new(true)
				conditions.Set(c, now, conditions.New(planv1.PlanHeldCondition, metav1.ConditionTrue, planv1.CarryingOutReason, "x"))
			})
			if tc.cluster != nil {
				tc.cluster(cluster)
			}
			objects := []client.Object{cluster, network(), brain()}
			if tc.spec != nil {
				objects = append(objects, &planv1.PlanGuard{
					ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: *tc.spec, Status: planv1.PlanGuardStatus{Sent: metav1.NewTime(now.Add(-tc.sent))},
				})
			}
			got, c, err := run(t, interceptor.Funcs{}, objects...)
			if err != nil {
				t.Fatal(err)
			}
			g := &planv1.PlanGuard{}
			switch err := c.Get(t.Context(), key, g); {
			case tc.want == nil && !apierrors.IsNotFound(err), tc.want != nil && err != nil, tc.want != nil && (g.Spec.Plan != tc.want.Plan || g.Spec.Required != tc.want.Required):
				t.Errorf("guard %+v, error %v, want %+v", g.Spec, err, tc.want)
			}
			if held := conditions.Get(got, planv1.PlanHeldCondition) != nil; held != tc.held {
				t.Errorf("the Cluster has condition PlanHeld: %t, want %t", held, tc.held)
			}
			if tc.want == nil {
				return
			}
			next, err := (&Reconciler{}).endPlan(t.Context(), &state{cluster: cluster, guard: g, now: now})
			if err != nil || next != reconciler.RequeueAfter(tc.again) {
				t.Errorf("next %+v, error %v, want another reconcile after %s", next, err, tc.again)
			}
		})
	}
}

// TestReconcileIsRequeuedForTheFirstDeadline has a connection that fails, and a plan that
// ends before or after its grace period.
func TestReconcileIsRequeuedForTheFirstDeadline(t *testing.T) {
	t.Parallel()
	failing := clusterstatus.Facts{Now: now, Connection: clusterstatus.Connection{Failing: true, GraceStarts: now}}
	alone := clusterstatus.Deadline(failing)
	if !alone.After(now) {
		t.Fatalf("a connection that fails is requeued for %s", alone)
	}
	for _, d := range []time.Duration{-time.Second, time.Second} {
		guard := alone.Add(d)
		f := failing
		f.Guard = &planv1.PlanGuard{Spec: planv1.PlanGuardSpec{Plan: "p1", Deadline: metav1.NewTime(guard)}}
		want := alone
		if d < 0 {
			want = guard
		}
		if got := clusterstatus.Deadline(f); !got.Equal(want) {
			t.Errorf("a plan until %s is requeued for %s, want %s", guard, got, want)
		}
	}
}
