// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
)

func TestAnObjectWithFinalizersWaitsForThem(t *testing.T) {
	t.Parallel()
	nodes := clientset(t, start(t).admin(t)).CoreV1().Nodes()
	n := node("n")
	n.Finalizers = []string{"x/a"}
	if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := nodes.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil || n.DeletionTimestamp == nil {
		t.Fatalf("node %+v, error %v, want one that is being deleted", n, err)
	}
	n.Finalizers = append(n.Finalizers, "x/b")
	if _, err := nodes.Update(t.Context(), n, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a new finalizer: %v, want invalid", err)
	}
	if _, err := nodes.Patch(t.Context(), "n", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer: %v, want not found", err)
	}
}

func TestWhatAnObjectOwnsGoesWithIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy metav1.DeletionPropagation
		pod    bool // there afterwards
	}{
		"in the background": {metav1.DeletePropagationBackground, false},
		"in the foreground": {metav1.DeletePropagationForeground, false},
		"not, as an orphan": {metav1.DeletePropagationOrphan, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			d, other := deployment("d"), deployment("other")
			if err := c.Store().Add(d); err != nil {
				t.Fatal(err)
			}
			if err := c.Store().Add(other); err != nil {
				t.Fatal(err)
			}
			owned, shared := pod("owned", nil), pod("shared", nil)
			gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
			owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, gvk)}
			shared.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, gvk), {APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: other.UID}}
			for _, p := range []*corev1.Pod{owned, shared} {
				if err := c.Store().Add(p); err != nil {
					t.Fatal(err)
				}
			}
			cs := clientset(t, c.admin(t))
			if err := cs.AppsV1().Deployments("default").Delete(t.Context(), "d", metav1.DeleteOptions{PropagationPolicy: &tc.policy}); err != nil {
				t.Fatal(err)
			}
			if got := there(t, cs, "owned"); got != tc.pod {
				t.Errorf("the owned pod is there: %t, want %t", got, tc.pod)
			}
			if !there(t, cs, "shared") {
				t.Error("what another owns too must stay")
			}
			if _, err := cs.AppsV1().Deployments("default").Get(t.Context(), "d", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the deployment: %v, want not found", err)
			}
		})
	}
}

func TestANamespaceComesAndGoesWithItsContents(t *testing.T) {
	t.Parallel()
	cs := clientset(t, start(t).admin(t))
	if _, err := cs.CoreV1().ConfigMaps("team").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in a namespace that is not there: %v, want not found", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	if _, err := cs.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().ServiceAccounts("team").Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the default service account: %v", err)
	}
	if err := cs.CoreV1().Namespaces().Delete(t.Context(), "kube-system", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting kube-system: %v, want forbidden", err)
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"x/a"}}}
	if _, err := cs.CoreV1().ConfigMaps("team").Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left, err := cs.CoreV1().Namespaces().Get(t.Context(), "team", metav1.GetOptions{})
	if err != nil || left.Status.Phase != corev1.NamespaceTerminating {
		t.Fatalf("namespace %+v, error %v, want one that waits for what it holds", left, err)
	}
	if _, err := cs.CoreV1().ConfigMaps("team").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in a namespace that ends: %v, want forbidden", err)
	}
	if _, err := cs.CoreV1().ConfigMaps("team").Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CoreV1().Namespaces().Get(t.Context(), "team", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace: %v, want not found", err)
	}
}

func TestAnEvictionHonoursBudgets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		budget  policyv1.PodDisruptionBudgetSpec
		pods    map[string]bool // ready
		evict   string
		allowed bool
	}{
		"without slack":                  {policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2))}, map[string]bool{"a": true, "b": true}, "a", false},
		"with slack":                     {policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}, map[string]bool{"a": true, "b": true}, "a", true},
		"one may be missing":             {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}, map[string]bool{"a": true, "b": true}, "a", true},
		"one is missing already":         {policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))}, map[string]bool{"a": true, "b": false}, "a", false},
		"half must stay":                 {policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%"))}, map[string]bool{"a": true, "b": true}, "a", true},
		"the one that is not ready goes": {policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}, map[string]bool{"a": true, "b": false}, "b", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			tc.budget.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
			if err := c.Store().Add(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: tc.budget}); err != nil {
				t.Fatal(err)
			}
			for name, ready := range tc.pods {
				p := pod(name, map[string]string{"app": "x"})
				p.Status.Phase = corev1.PodRunning
				if ready {
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				}
				if err := c.Store().Add(p); err != nil {
					t.Fatal(err)
				}
			}
			cs := clientset(t, c.admin(t))
			err := cs.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: tc.evict}})
			if !tc.allowed && !apierrors.IsTooManyRequests(err) {
				t.Errorf("error %v, want too many requests", err)
			}
			if tc.allowed && err != nil {
				t.Error(err)
			}
			if there(t, cs, tc.evict) == tc.allowed {
				t.Errorf("the pod is there: %t", !tc.allowed)
			}
		})
	}
}

func TestABudgetCountsTheReplicasThatAreWanted(t *testing.T) {
	t.Parallel()
	c := start(t)
	d := deployment("x")
	d.Spec.Replicas = new(int32(4))
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%")), Selector: d.Spec.Selector},
	}
	for _, obj := range []apiserver.Object{d, budget} {
		if err := c.Store().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} { // half of the desired number
		p := pod(name, d.Spec.Selector.MatchLabels)
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if err := c.Store().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	err := clientset(t, c.admin(t)).CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("error %v, want that the budget is exhausted", err)
	}
}

func TestServerSideApplyKnowsWhoManagesWhat(t *testing.T) {
	t.Parallel()
	nodes := clientset(t, start(t).admin(t)).CoreV1().Nodes()
	apply := func(manager, label string, force bool) (*corev1.Node, error) {
		return nodes.Apply(t.Context(), applycorev1.Node("n").WithLabels(map[string]string{"role": label}), metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	made, err := apply("one", "a", false)
	if err != nil || made.Labels["role"] != "a" || len(made.ManagedFields) != 1 || made.ManagedFields[0].Manager != "one" {
		t.Fatalf("node %+v, error %v", made, err)
	}
	again, err := apply("one", "a", false)
	if err != nil || again.ResourceVersion != made.ResourceVersion {
		t.Errorf("the same again: version %s, error %v, want %s", again.ResourceVersion, err, made.ResourceVersion)
	}
	if _, err := apply("two", "b", false); !apierrors.IsConflict(err) {
		t.Errorf("another manager: %v, want a conflict", err)
	}
	if n, err := apply("two", "b", true); err != nil || n.Labels["role"] != "b" {
		t.Errorf("another manager by force: %+v, error %v", n, err)
	}
	n, err := nodes.Apply(t.Context(), applycorev1.Node("n"), metav1.ApplyOptions{FieldManager: "two"})
	if err != nil || n.Labels["role"] != "" {
		t.Errorf("what a manager no longer wants must go: %v, error %v", n.Labels, err)
	}
	status := applycorev1.Node("n").WithStatus(applycorev1.NodeStatus().WithPhase(corev1.NodeRunning)).WithSpec(applycorev1.NodeSpec().WithUnschedulable(true))
	n, err = nodes.ApplyStatus(t.Context(), status, metav1.ApplyOptions{FieldManager: "kubelet"})
	if err != nil || n.Status.Phase != corev1.NodeRunning || n.Spec.Unschedulable {
		t.Errorf("status applied: %+v %+v, error %v", n.Status, n.Spec, err)
	}
}

func TestADryRunKeepsNothing(t *testing.T) {
	t.Parallel()
	nodes := clientset(t, start(t).admin(t)).CoreV1().Nodes()
	all := []string{metav1.DryRunAll}
	if n, err := nodes.Create(t.Context(), node("n"), metav1.CreateOptions{DryRun: all}); err != nil || n.UID == "" {
		t.Errorf("node %+v, error %v", n, err)
	}
	if _, err := nodes.Create(t.Context(), node("n"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patched, err := nodes.Patch(t.Context(), "n", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{DryRun: all})
	if err != nil || !patched.Spec.Unschedulable {
		t.Errorf("node %+v, error %v", patched, err)
	}
	if err := nodes.Delete(t.Context(), "n", metav1.DeleteOptions{DryRun: all}); err != nil {
		t.Error(err)
	}
	if n, err := nodes.Get(t.Context(), "n", metav1.GetOptions{}); err != nil || n.Spec.Unschedulable {
		t.Errorf("node %+v, error %v, want it as it was", n, err)
	}
}

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func there(t *testing.T, cs *kubernetes.Clientset, pod string) bool {
	t.Helper()
	_, err := cs.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}
