// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func open(t *testing.T) *objects.Store {
	t.Helper()
	s, err := objects.Open(objects.Options{Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}},
		Status:     corev1.NodeStatus{Phase: corev1.NodeRunning},
	}
}

func TestTheSimulationWritesSpecAndStatusAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := node("n")
	if err := s.Add(n); err != nil || n.UID == "" || n.Status.Phase != corev1.NodeRunning {
		t.Fatalf("node %+v, error %v", n, err)
	}
	old := n.DeepCopy()
	n.Spec.Unschedulable, n.Status.Phase = true, corev1.NodePending
	if err := s.Save(n); err != nil || !n.Spec.Unschedulable || n.Status.Phase != corev1.NodePending {
		t.Errorf("node %+v, error %v", n, err)
	}
	if err := s.Save(old); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v, want a conflict", err)
	}
	if err := s.Add(node("n")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second: %v, want already exists", err)
	}
}

func TestModifyWorksOnTheLatestAlone(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := s.Add(node("n")); err != nil {
		t.Fatal(err)
	}
	stale := node("n")
	stale.Annotations = map[string]string{"left": "behind"}
	version := s.Entries().Version()
	if err := objects.Modify(s, stale, func(*corev1.Node) error { return nil }); err != nil || s.Entries().Version() != version || stale.Annotations != nil {
		t.Errorf("nothing was changed, yet version %d became %d, node %+v, error %v", version, s.Entries().Version(), stale, err)
	}
	failed := errors.New("no")
	if err := objects.Modify(s, stale, func(*corev1.Node) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
	if err := objects.Modify(s, node("absent"), func(*corev1.Node) error { return nil }); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
	if err := objects.Modify(s, stale, func(n *corev1.Node) error { n.Spec.Unschedulable = true; return nil }); err != nil || !stale.Spec.Unschedulable {
		t.Errorf("node %+v, error %v", stale, err)
	}
}

func TestEnsureMakesOrReplaces(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, value := range []string{"a", "b"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}, Data: map[string]string{value: value}}
		if err := s.Ensure(cm); err != nil {
			t.Fatal(err)
		}
		got := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "c"}}
		if err := s.Load(got); err != nil || len(got.Data) != 1 || got.Data[value] != value {
			t.Errorf("data %v, error %v", got.Data, err)
		}
	}
}

func TestAllSelects(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range []string{"b", "a"} {
		if err := s.Add(node(name)); err != nil {
			t.Fatal(err)
		}
	}
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	if all, err := s.All(nodes, "", nil); err != nil || len(all) != 2 || all[0].GetName() != "a" {
		t.Errorf("all %v, error %v", all, err)
	}
	if some, err := s.All(nodes, "", labels.SelectorFromSet(labels.Set{"pool": "b"})); err != nil || len(some) != 1 || some[0].GetName() != "b" {
		t.Errorf("some %v, error %v", some, err)
	}
	if err := s.Remove(nodes, "", "absent"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestWhatIsNotServedIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x"}}}
	_, listed := s.All(things, "", nil)
	for what, err := range map[string]error{"load": s.Load(thing), "add": s.Add(thing), "ensure": s.Ensure(thing), "list": listed, "remove": s.Remove(things, "", "x")} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	wrong := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "x"}, "bogus": true}}
	if err := s.Add(wrong); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field: %v, want a bad request", err)
	}
}

func TestAPodKeepsItsContainers(t *testing.T) {
	t.Parallel()
	s := open(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}}
	if err := s.Add(pod); err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers = nil
	if err := s.Save(pod); !apierrors.IsInvalid(err) {
		t.Errorf("a Pod without containers: %v, want it refused", err)
	}
}
