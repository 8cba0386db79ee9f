// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

// released returns the messages of the events about plans that users have ended.
func released(t *testing.T, c client.Client) (messages []string) {
	t.Helper()
	var events corev1.EventList
	if err := c.List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason != "PlanReleased" || e.InvolvedObject.UID != "c" || e.Type != corev1.EventTypeWarning {
			t.Errorf("event %+v", e)
		}
		messages = append(messages, e.Message)
	}
	return messages
}

// TestPlanEndsOnlyWithItsGuard updates the guard of a Cluster, as a user does who may
// update PlanGuards and not delete them.
func TestPlanEndsOnlyWithItsGuard(t *testing.T) {
	t.Parallel()
	none := func(s *planv1.PlanGuardSpec) { *s = planv1.PlanGuardSpec{} }
	forged := func(s *planv1.PlanGuardSpec) { s.Cluster.Machines[0].UID = "stays" }
	longer := func(s *planv1.PlanGuardSpec) { s.Deadline = metav1.NewTime(s.Deadline.Add(time.Hour)) }
	carriedOut := func(g *planv1.PlanGuard) { g.Status.Sent = metav1.NewTime(time.Now().Add(-time.Hour)) }
	orphan := func(g *planv1.PlanGuard) {
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "none"}}
	}
	labeled := func(g *planv1.PlanGuard) { g.Labels = map[string]string{"a": "b"} }
	with := func(g *planv1.PlanGuard, changes ...func(*planv1.PlanGuard)) *planv1.PlanGuard {
		for _, change := range changes {
			change(g)
		}
		return g
	}
	const running = "plan p1 is being carried out: wait until it has ended, or end it with `capstan apply --release cluster/demo -n ns`"
	tests := map[string]struct {
		requires string // the annotation of the Cluster
		obj, old *planv1.PlanGuard
		want     string // part of the refusal; "" admits
		event    string // part of it; "" for none
	}{
		"no plan any longer":                       {"", plan(none), plan(), "spec: Forbidden: " + running, ""},
		"another fate of a Machine":                {"", plan(forged), plan(), "spec: Forbidden: " + running, ""},
		"another deadline":                         {"", plan(longer), plan(), "spec: Forbidden: " + running, ""},
		"no plan, although it is too late anyway":  {"", plan(none), plan(expired), "spec: Forbidden", ""},
		"an owner that does not exist":             {"", with(plan(), orphan), plan(), "metadata.ownerReferences: Forbidden: " + running, ""},
		"labels":                                   {"", with(plan(), labeled), plan(), "", ""},
		"required, of a Cluster that is not":       {"", plan(required), plan(), `spec.required: Invalid value: true: it follows annotation capstan.dev/require-plan of Cluster demo`, ""},
		"not required, of a Cluster that requires": {"true", plan(), plan(required), "spec.required: Invalid value: false", ""},
		"no guard, of a Cluster that requires":     {"true", plan(none), plan(standing), "spec.required: Invalid value: false", ""},
		"required from now on":                     {"true", plan(required), plan(), "", ""},
		"required no longer":                       {"false", plan(), plan(required), "", ""},
		"a plan of a Cluster that requires":        {"true", plan(required), plan(standing), "", ""},
		"no plan, of a Cluster that requires":      {"true", plan(standing), plan(required), "", "eve ended plan p1 before it was carried out: no Machine can be deleted without another plan"},
		"the same, too late":                       {"true", plan(standing), plan(required, expired), "", ""},
		"the same, carried out":                    {"true", plan(standing), with(plan(required), carriedOut), "", ""},
		"nothing":                                  {"", plan(), plan(), "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "c"}}
			if tc.requires != "" {
				cluster.Annotations = map[string]string{planv1.RequirePlanAnnotation: tc.requires}
			}
			if tc.obj.Spec.Plan != "" && !tc.obj.Spec.Deadline.After(tc.old.Spec.Deadline.Add(time.Minute)) {
				tc.obj.Spec.Deadline = tc.old.Spec.Deadline
			}
			c := newClient(t, cluster)
			got := ask(t, c, "plan-validation.planguard.plan.capstan.dev", tc.obj, tc.old, false)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if events := released(t, c); len(events) > 1 || (len(events) == 0) != (tc.event == "") || !strings.Contains(strings.Join(events, ""), tc.event) {
				t.Errorf("events %q, want %q", events, tc.event)
			}
		})
	}
}

// TestPlanThatHasEndedIsDeletedWithoutAnEvent deletes guards, as the Cluster controller
// does when their plans have been carried out.
func TestPlanThatHasEndedIsDeletedWithoutAnEvent(t *testing.T) {
	t.Parallel()
	sent := func(ago time.Duration) *planv1.PlanGuard {
		g := plan()
		g.Status.Sent = metav1.NewTime(time.Now().Add(-ago))
		return g
	}
	holding := sent(time.Hour)
	holding.Status.Held = []planv1.Held{{Kind: "Machine", Name: "other"}}
	for name, tc := range map[string]struct {
		guard    *planv1.PlanGuard
		machines []client.Object
		requires string // the annotation of the Cluster
		event    string // part of it; "" for none
	}{
		"carried out":              {sent(time.Hour), []client.Object{machine("changes")}, "", ""},
		"but it holds another one": {holding, []client.Object{machine("changes")}, "", "eve ended plan p1"},
		"with a Machine that goes": {sent(time.Hour), []client.Object{machine("goes"), machine("changes")}, "", "eve ended plan p1 before it was carried out: Machines that it"},
		"sent a moment ago":        {sent(time.Second), nil, "", "eve ended plan p1"},
		"not sent":                 {plan(), nil, "", "eve ended plan p1"},
		"too late":                 {plan(required, expired), []client.Object{machine("goes")}, "", ""},
		"no plan, required before": {plan(standing), nil, "false", ""},
		"no plan, and required":    {plan(standing), nil, "true", "eve deleted the PlanGuard of a Cluster that requires plans"},
	} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "c", Annotations: map[string]string{planv1.RequirePlanAnnotation: tc.requires}}}
		c := newClient(t, append(tc.machines, cluster)...)
		if got := ask(t, c, "plan-deletion.planguard.plan.capstan.dev", nil, tc.guard, false); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		if events := released(t, c); (len(events) == 1) != (tc.event != "") || !strings.Contains(strings.Join(events, ""), tc.event) {
			t.Errorf("%s: events %q, want %q", name, events, tc.event)
		}
	}
}
