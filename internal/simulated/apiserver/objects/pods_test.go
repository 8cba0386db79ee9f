// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pods creates Pods p-0, p-1, … of an app, of which so many are ready.
func (y yard) pods(n, ready int, change ...func(*corev1.Pod)) {
	y.Helper()
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p-", i), Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if i < ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		for _, f := range change {
			f(p)
		}
		if err := y.store.Add(p); err != nil {
			y.Fatal(err)
		}
	}
}

func (y yard) budget(name string, change func(*policyv1.PodDisruptionBudgetSpec)) {
	y.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	change(&b.Spec)
	if err := y.store.Add(b); err != nil {
		y.Fatal(err)
	}
}

func atLeast(v intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = &v }
}

func atMost(v intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = &v }
}

func TestEvictionKeepsBudgets(t *testing.T) {
	t.Parallel()
	phase := func(p corev1.PodPhase) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.Status.Phase = p } }
	always := func(s *policyv1.PodDisruptionBudgetSpec) {
		s.MinAvailable, s.UnhealthyPodEvictionPolicy = new(intstr.FromInt32(1)), new(policyv1.AlwaysAllow)
	}
	type budget = func(*policyv1.PodDisruptionBudgetSpec)
	needs := func(needed, healthy int) string {
		return fmt.Sprintf("The disruption budget b-0 needs %d healthy pods and has %d currently", needed, healthy)
	}
	tests := map[string]struct {
		pods, ready int
		change      func(*corev1.Pod)
		budgets     []budget
		evict       string
		want        string // the cause of a refusal; empty if it is evicted
	}{
		"without a budget":                   {1, 1, nil, nil, "p-0", ""},
		"more are healthy than needed":       {3, 3, nil, []budget{atLeast(intstr.FromInt32(2))}, "p-0", ""},
		"as many are healthy as needed":      {2, 2, nil, []budget{atLeast(intstr.FromInt32(2))}, "p-0", needs(2, 2)},
		"fewer are healthy":                  {2, 1, nil, []budget{atLeast(intstr.FromInt32(2))}, "p-0", needs(2, 1)},
		"a share of all, rounded up":         {3, 2, nil, []budget{atLeast(intstr.FromString("50%"))}, "p-0", needs(2, 2)},
		"a share that is left":               {4, 4, nil, []budget{atLeast(intstr.FromString("50%"))}, "p-0", ""},
		"one may be missing":                 {3, 3, nil, []budget{atMost(intstr.FromInt32(1))}, "p-0", ""},
		"one is missing":                     {3, 2, nil, []budget{atMost(intstr.FromInt32(1))}, "p-0", needs(2, 2)},
		"none may be missing":                {3, 3, nil, []budget{atMost(intstr.FromInt32(0))}, "p-0", needs(3, 3)},
		"more may be missing than there are": {1, 1, nil, []budget{atMost(intstr.FromInt32(5))}, "p-0", ""},
		"the default is one":                 {1, 1, nil, []budget{func(*policyv1.PodDisruptionBudgetSpec) {}}, "p-0", needs(1, 1)},
		"an unready one while enough are":    {3, 2, nil, []budget{atLeast(intstr.FromInt32(2))}, "p-2", ""},
		"an unready one while too few are":   {3, 1, nil, []budget{atLeast(intstr.FromInt32(2))}, "p-2", needs(2, 1)},
		"an unready one, which always may":   {2, 0, nil, []budget{always}, "p-1", ""},
		"a ready one of those":               {2, 1, nil, []budget{always}, "p-0", needs(1, 1)},
		"one that has ended":                 {1, 0, phase(corev1.PodSucceeded), []budget{atLeast(intstr.FromInt32(2))}, "p-0", ""},
		"one that has failed":                {1, 0, phase(corev1.PodFailed), []budget{atLeast(intstr.FromInt32(2))}, "p-0", ""},
		"one that has not started":           {1, 0, phase(corev1.PodPending), []budget{atLeast(intstr.FromInt32(2))}, "p-0", ""},
		"a budget of others": {1, 1, nil, []budget{func(s *policyv1.PodDisruptionBudgetSpec) {
			s.MinAvailable, s.Selector.MatchLabels["app"] = new(intstr.FromInt32(2)), "other"
		}}, "p-0", ""},
		"two budgets": {3, 3, nil, []budget{atMost(intstr.FromInt32(1)), atMost(intstr.FromInt32(1))}, "p-0", "more than one PodDisruptionBudget"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			for i, b := range tc.budgets {
				y.budget(fmt.Sprint("b-", i), b)
			}
			change := tc.change
			if change == nil {
				change = func(*corev1.Pod) {}
			}
			y.pods(tc.pods, tc.ready, change)
			err := y.store.Evict("default", tc.evict, metav1.DeleteOptions{})
			gone := y.store.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: tc.evict}})
			if apierrors.IsNotFound(gone) != (tc.want == "") {
				t.Errorf("afterwards: %v", gone)
			}
			status, ok := errors.AsType[*apierrors.StatusError](err)
			switch {
			case tc.want == "":
				refused(t, err, "", "")
			case len(tc.budgets) > 1:
				refused(t, err, metav1.StatusReasonInternalError, tc.want)
			case !ok || !apierrors.IsTooManyRequests(err) || status.ErrStatus.Message != "Cannot evict pod as it would violate the pod's disruption budget.",
				status.ErrStatus.Details.Causes[0].Message != tc.want:
				t.Errorf("got %v, want the cause %q", err, tc.want)
			}
		})
	}
}

// TestEvictionCountsDesiredReplicas: those that a controller has still to create are
// missing.
func TestEvictionCountsDesiredReplicas(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	set := y.mustCreate("apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {namespace: default, name: s}\n" +
		"spec: {replicas: 4, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: v1}]}}}\n")
	y.pods(3, 3, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "s", UID: set.GetUID(), Controller: new(true)}}
	})
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromString("25%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	healthy, needed, expected, err := y.store.Disruptions(b)
	if healthy != 3 || needed != 3 || expected != 4 || err != nil {
		t.Errorf("got %d healthy of %d needed and %d expected, error %v; want 3 of 3 and 4", healthy, needed, expected, err)
	}
	b.Spec.MaxUnavailable = new(intstr.FromString("many"))
	if _, _, _, err := y.store.Disruptions(b); err == nil {
		t.Error("a share that is none is accepted")
	}
}

func TestEvictionChecksPreconditions(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.pods(1, 1, func(p *corev1.Pod) { p.Finalizers = []string{"x/a"} })
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-0"}}
	if err := y.store.Load(p); err != nil {
		t.Fatal(err)
	}
	err := y.store.Evict("default", "p-0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}})
	refused(t, err, metav1.StatusReasonConflict, "the UID in the precondition (other)")
	before := p.ResourceVersion
	if err := y.store.Load(p); err != nil || p.ResourceVersion != before {
		t.Errorf("what was not evicted was changed: %+v, error %v", p.Status.Conditions, err)
	}
	if err := y.store.Evict("default", "p-0", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if err := y.store.Load(p); err != nil || p.ResourceVersion != before {
		t.Errorf("a dry run changed it: %+v, error %v", p.Status.Conditions, err)
	}
	if err := y.store.Evict("default", "p-0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID, ResourceVersion: &before}}); err != nil {
		t.Errorf("of its version: %v", err)
	}
	if err := y.store.Load(p); err != nil || p.DeletionTimestamp == nil || len(p.Status.Conditions) != 2 || p.Status.Conditions[1].Type != corev1.DisruptionTarget {
		t.Errorf("got %+v, error %v, want it marked as a target", p.Status.Conditions, err)
	}
	if err := y.store.Evict("default", "absent", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestBindSetsTheNodeOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.Pod)
		uid    types.UID
		want   string // of the conflict
	}{
		"a Pod without a Node":    {func(*corev1.Pod) {}, "", ""},
		"another Pod of the name": {func(*corev1.Pod) {}, "other", "Precondition failed: UID in precondition: other"},
		"a Pod of a Node":         {func(p *corev1.Pod) { p.Spec.NodeName = "a" }, "", `pod p-0 is already assigned to node "a"`},
		"a Pod that is gated":     {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x/g"}} }, "", "pod p-0 has non-empty .spec.schedulingGates"},
		"a Pod that was unsettled": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		}, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			y.pods(1, 0, tc.change)
			err := y.store.Bind("default", &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p-0", UID: tc.uid}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}})
			if tc.want != "" {
				refused(t, err, metav1.StatusReasonConflict, tc.want)
				return
			}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-0"}}
			if loaded := y.store.Load(p); err != nil || loaded != nil || p.Spec.NodeName != "n" {
				t.Errorf("bound to %q, errors %v, %v", p.Spec.NodeName, err, loaded)
			}
			if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Status != corev1.ConditionTrue {
				t.Errorf("got conditions %+v, want that it is scheduled", p.Status.Conditions)
			}
		})
	}
	y := newYard(t)
	y.pods(1, 0, func(p *corev1.Pod) { p.Finalizers = []string{"x/a"} })
	if err := y.store.Remove(corev1.SchemeGroupVersion.WithResource("pods"), "default", "p-0"); err != nil {
		t.Fatal(err)
	}
	err := y.store.Bind("default", &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p-0"}, Target: corev1.ObjectReference{Name: "n"}})
	refused(t, err, metav1.StatusReasonConflict, "pod p-0 is being deleted, cannot be assigned to a host")
}
