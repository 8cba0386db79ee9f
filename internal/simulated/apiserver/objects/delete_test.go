// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

const (
	foreground = metav1.DeletePropagationForeground
	background = metav1.DeletePropagationBackground
	orphan     = metav1.DeletePropagationOrphan
)

func TestDeleteChecksPreconditions(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	c := y.add("c", false)
	k := kinds.ByType(c)
	tests := map[string]struct {
		p    *metav1.Preconditions
		want string // of the error
	}{
		"another UID":     {&metav1.Preconditions{UID: new(types.UID("other"))}, "the UID in the precondition (other) does not match the UID in record (" + string(c.UID) + ")"},
		"another version": {&metav1.Preconditions{UID: &c.UID, ResourceVersion: new("1")}, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (" + c.ResourceVersion + ")"},
	}
	for name, tc := range tests {
		_, gone, err := y.store.Delete(k, "default", "c", metav1.DeleteOptions{Preconditions: tc.p})
		refused(t, err, metav1.StatusReasonConflict, tc.want)
		if gone {
			t.Errorf("%s: it reports a deletion", name)
		}
	}
	y.want("afterwards", "c")
	if _, gone, err := y.store.Delete(k, "default", "c", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}}); err != nil || !gone {
		t.Errorf("of the object itself: gone %t, error %v", gone, err)
	}
	_, _, err := y.store.Delete(k, "default", "c", metav1.DeleteOptions{})
	refused(t, err, metav1.StatusReasonNotFound, `configmaps "c" not found`)
}

func TestNamespacesOfTheSystemStay(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	k := kinds.ByType(&corev1.Namespace{})
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		_, _, err := y.store.Delete(k, "", name, metav1.DeleteOptions{})
		refused(t, err, metav1.StatusReasonForbidden, "this namespace may not be deleted")
	}
	if _, gone, err := y.store.Delete(k, "", "kube-node-lease", metav1.DeleteOptions{}); err != nil || !gone {
		t.Errorf("of Leases: gone %t, error %v", gone, err)
	}
}

// TestPodsOnSilentNodesGetGrace: no kubelet is left that could report that they have
// stopped.
func TestPodsOnSilentNodesGetGrace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ready  corev1.ConditionStatus
		node   string
		phase  corev1.PodPhase
		grace  *int64
		stays  bool
		within time.Duration
	}{
		"on a Node that reports":        {corev1.ConditionTrue, "n", corev1.PodRunning, nil, false, 0},
		"on a Node that is not ready":   {corev1.ConditionFalse, "n", corev1.PodRunning, nil, false, 0},
		"on a silent Node":              {corev1.ConditionUnknown, "n", corev1.PodRunning, nil, true, 30 * time.Second},
		"on a silent Node, with less":   {corev1.ConditionUnknown, "n", corev1.PodRunning, new(int64(1)), true, time.Second},
		"on a silent Node, by force":    {corev1.ConditionUnknown, "n", corev1.PodRunning, new(int64), false, 0},
		"on a silent Node, once ended":  {corev1.ConditionUnknown, "n", corev1.PodSucceeded, nil, false, 0},
		"on a silent Node, once failed": {corev1.ConditionUnknown, "n", corev1.PodFailed, nil, false, 0},
		"on no Node":                    {corev1.ConditionUnknown, "", corev1.PodPending, nil, false, 0},
		"on a Node that is deleted":     {corev1.ConditionUnknown, "other", corev1.PodRunning, nil, false, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			n := node("n")
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: tc.ready}}
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
				Spec:       corev1.PodSpec{NodeName: tc.node, Containers: []corev1.Container{{Name: "c", Image: "v1"}}}, Status: corev1.PodStatus{Phase: tc.phase},
			}
			for _, obj := range []objects.Object{n, p} {
				if err := y.store.Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			_, gone, err := y.store.Delete(kinds.ByType(p), "default", "p", metav1.DeleteOptions{GracePeriodSeconds: tc.grace})
			if err != nil || gone == tc.stays {
				t.Fatalf("gone %t, error %v, want that it stays %t", gone, err, tc.stays)
			}
			if !tc.stays {
				return
			}
			if err := y.store.Load(p); err != nil || !p.DeletionTimestamp.Time.Equal(start.Add(tc.within)) {
				t.Errorf("it ends at %s, error %v, want in %s", p.DeletionTimestamp, err, tc.within)
			}
		})
	}
}

func TestGraceOnlyShrinks(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	n := node("n")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if err := y.store.Add(n); err != nil {
		t.Fatal(err)
	}
	p := y.mustCreate(podText)
	if _, err := y.change(p, objects.Writing{Trusted: true}, set(t, "n", "spec.nodeName")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ asked, want int64 }{{20, 20}, {25, 20}, {5, 5}, {20, 5}} {
		y.remove(p, metav1.DeleteOptions{GracePeriodSeconds: &step.asked})
		if got := y.latest(p); *got.GetDeletionGracePeriodSeconds() != step.want || !got.GetDeletionTimestamp().Time.Equal(start.Add(time.Duration(step.want)*time.Second)) {
			t.Errorf("asked for %d: got %d until %s, want %d", step.asked, *got.GetDeletionGracePeriodSeconds(), got.GetDeletionTimestamp(), step.want)
		}
	}
	if !y.remove(p, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) {
		t.Error("it stays in spite of a deletion without grace")
	}
}

func TestPropagationDecidesDeletionOfDependents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		finalizers []string // of the owner
		o          metav1.DeleteOptions
		want       []string // owner a, its blocking dependent b, and c, which does not block
		released   []string // after the owner has lost x/a, if it had it
	}{
		"in the background":                        {nil, metav1.DeleteOptions{PropagationPolicy: new(background)}, []string{"b leaves [x/b]", "c leaves [x/c]"}, nil},
		"by default":                               {nil, metav1.DeleteOptions{}, []string{"b leaves [x/b]", "c leaves [x/c]"}, nil},
		"in the foreground":                        {nil, metav1.DeleteOptions{PropagationPolicy: new(foreground)}, []string{"a leaves [foregroundDeletion]", "b leaves [x/b]", "c leaves [x/c]"}, nil},
		"of orphans":                               {nil, metav1.DeleteOptions{PropagationPolicy: new(orphan)}, []string{"b", "c"}, nil},
		"of orphans, for old clients":              {nil, metav1.DeleteOptions{OrphanDependents: new(true)}, []string{"b", "c"}, nil},
		"not of orphans, for old clients":          {[]string{metav1.FinalizerOrphanDependents}, metav1.DeleteOptions{OrphanDependents: new(false)}, []string{"b leaves [x/b]", "c leaves [x/c]"}, nil},
		"of orphans, by a finalizer":               {[]string{metav1.FinalizerOrphanDependents}, metav1.DeleteOptions{}, []string{"b", "c"}, nil},
		"in the foreground, by a finalizer":        {[]string{metav1.FinalizerDeleteDependents}, metav1.DeleteOptions{}, []string{"a leaves [foregroundDeletion]", "b leaves [x/b]", "c leaves [x/c]"}, nil},
		"in the background, despite a finalizer":   {[]string{metav1.FinalizerDeleteDependents}, metav1.DeleteOptions{PropagationPolicy: new(background)}, []string{"b leaves [x/b]", "c leaves [x/c]"}, nil},
		"in the background, while the owner stays": {[]string{"x/a"}, metav1.DeleteOptions{PropagationPolicy: new(background)}, []string{"a leaves [x/a]", "b", "c"}, []string{"b leaves [x/b]", "c leaves [x/c]"}},
		"in the foreground, while the owner stays": {[]string{"x/a"}, metav1.DeleteOptions{PropagationPolicy: new(foreground)},
			[]string{"a leaves [x/a foregroundDeletion]", "b leaves [x/b]", "c leaves [x/c]"}, []string{"a leaves [foregroundDeletion]", "b leaves [x/b]", "c leaves [x/c]"}},
		"of orphans, while the owner stays": {[]string{"x/a"}, metav1.DeleteOptions{PropagationPolicy: new(orphan)}, []string{"a leaves [x/a]", "b", "c"}, []string{"b", "c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			a := y.add("a", false)
			y.finalizers(y.add("b", true, a), "x/b")
			y.finalizers(y.add("c", false, a), "x/c")
			y.finalizers(a, tc.finalizers...)
			if _, _, err := y.store.Delete(kinds.ByType(a), "default", "a", tc.o); err != nil {
				t.Fatal(err)
			}
			y.want("after the deletion", tc.want...)
			if tc.released != nil {
				if err := objects.Modify(y.store, a, func(c *corev1.ConfigMap) error { c.Finalizers = dropped(c.Finalizers, "x/a"); return nil }); err != nil {
					t.Fatal(err)
				}
				y.want("after the owner is released", tc.released...)
			}
		})
	}
}

func dropped(from []string, name string) (out []string) {
	for _, f := range from {
		if f != name {
			out = append(out, f)
		}
	}
	return out
}

func TestDeletionCanChangePropagation(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	a := y.add("a", false)
	y.finalizers(y.add("b", true, a), "x/b")
	y.finalizers(a, "x/a")
	for _, step := range []struct {
		policy metav1.DeletionPropagation
		want   []string
	}{
		{background, []string{"a leaves [x/a]", "b"}},
		{foreground, []string{"a leaves [x/a foregroundDeletion]", "b leaves [x/b]"}},
		{background, []string{"a leaves [x/a]", "b leaves [x/b]"}},
	} {
		y.delete("a", step.policy)
		y.want("deleted in the "+string(step.policy), step.want...)
	}
}

func TestNamespaceDeletionDeletesContent(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	ns := y.mustCreate("{apiVersion: v1, kind: Namespace, metadata: {name: team, finalizers: [x/ns]}}")
	y.mustCreate("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: team, name: c}}")
	held := y.mustCreate("{apiVersion: v1, kind: Secret, metadata: {namespace: team, name: s, finalizers: [x/a]}}")
	if y.remove(ns, metav1.DeleteOptions{}) {
		t.Error("a namespace is deleted before its content")
	}
	if got := y.latest(ns); at(got, "status.phase") != "Terminating" {
		t.Errorf("got status %v", got.Object["status"])
	}
	if left := y.store.Entries(); len(left.Select(func(e *store.Entry) bool { return e.Key.Namespace == "team" })) != 1 {
		t.Error("more is left than what a finalizer keeps")
	}
	if _, err := y.change(held, byClient, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) }); err != nil {
		t.Fatal(err)
	}
	if got := y.latest(ns); got == nil || at(got, "spec.finalizers") != nil {
		t.Errorf("got %v, want it to wait for its own finalizer alone", got)
	}
	if _, err := y.change(ns, byClient, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) }); err != nil {
		t.Fatal(err)
	}
	if got := y.latest(ns); got != nil {
		t.Errorf("left %v", got)
	}
}

func TestRemoveIgnoresWhatIsDeleted(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	things := corev1.SchemeGroupVersion.WithResource("configmaps")
	y.add("c", false)
	for range 2 {
		if err := y.store.Remove(things, "default", "c"); err != nil {
			t.Error(err)
		}
	}
	if err := y.store.Remove(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "default"); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want what a client would get", err)
	}
}
