// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// when calls do after the first write with a text.
func (s *sides) when(write string, do func()) {
	s.t.Cleanup(func() {
		if s.after != nil {
			s.t.Errorf("no request %q", write)
		}
	})
	s.after = func(call string) {
		if call == write {
			s.after = nil
			do()
		}
	}
}

// exits runs a process that exits before a request.
func (s *sides) exits(call string, run func() error) {
	s.t.Helper()
	s.fails = func(_ int, c string) failure {
		if c == call {
			return died
		}
		return none
	}
	if err := run(); !errors.Is(err, errDead) {
		s.t.Fatalf("before %s: %v", call, err)
	}
	s.fails, s.dead = nil, false
}

const otherCluster = `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: other, name: x, uid: x}, spec: {topology: {classRef: {name: quick, namespace: fleet}}}}`

// TestRunEndsThePauseOfAClassThatStays: a Cluster of another namespace starts to use the
// class after it was paused.
func TestRunEndsThePauseOfAClassThatStays(t *testing.T) {
	t.Parallel()
	begin, before, after := beginning(t)
	stays := func(want map[string]string) map[string]string {
		for _, name := range []string{"ClusterClass fleet/quick", "HostTemplate fleet/hosts"} {
			want[name] = before.source[name]
		}
		x := newSides(t, otherCluster, beforeMove)
		want["Cluster other/x"] = x.source.contents()["Cluster other/x"]
		return want
	}
	used := func(s *sides) {
		s.both = "ClusterClass fleet/quick"
		s.when("patch ClusterClass fleet/quick at source", func() { s.source.add(otherCluster) })
	}
	on, back, saved := begin.fork(), begin.fork(), begin.fork()
	used(on)
	if err := on.run(false); err != nil {
		t.Fatal(err)
	}
	on.has("moved", result{stays(after.source), after.target})

	used(back)
	back.exits("delete Cluster fleet/c at source", func() error { return back.run(false) })
	if err := back.run(true); err != nil {
		t.Fatal(err)
	}
	back.has("rolled back", result{stays(before.source), before.target})

	used(saved)
	if err := Save(t.Context(), saved.options(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	saved.has("saved", result{stays(before.source), before.target})
}

// TestRunDeletesCopiesOfWhatIsDeletedMeanwhile, and restores what a copy has replaced.
func TestRunDeletesCopiesOfWhatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	begin, before, after := beginning(t)
	for name, write := range map[string]string{
		"HostTemplate fleet/hosts": "create HostTemplate fleet/hosts at target",
		"Secret fleet/c-ca":        "create Secret fleet/c-ca at target",
		"Secret fleet/cloud":       "update Secret fleet/cloud at target",
	} {
		t.Run(name, func(t *testing.T) {
			s := begin.fork()
			s.t = t
			s.when(write, func() { s.source.drop(name) })
			want := result{after.source, map[string]string{}}
			for name, content := range after.target {
				want.target[name] = content
			}
			if delete(want.target, name); before.target[name] != "" {
				want.target[name] = before.target[name]
			}
			if err := s.run(false); err != nil {
				t.Fatal(err)
			}
			s.has("moved", want)
		})
	}
}

// TestRunCopiesWhatIsRemovedMeanwhile from an object that the target has already.
func TestRunCopiesWhatIsRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of, write string
		remove    []string
	}{
		"data":  {"Secret fleet/c-ca", "create Secret fleet/c-ca at target", []string{"data", "tls.key"}},
		"label": {"Machine fleet/m", "create Machine fleet/m at target", []string{"metadata", "labels"}},
		"owner": {"Secret fleet/c-kubeconfig", "create Secret fleet/c-kubeconfig at target", []string{"metadata", "ownerReferences"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, after := beginning(t)
			s.when(tc.write, func() {
				s.source.change(tc.of, func(obj *unstructured.Unstructured) { unstructured.RemoveNestedField(obj.Object, tc.remove...) })
				after.target[tc.of] = s.source.contents()[tc.of]
			})
			if err := s.run(false); err != nil {
				t.Fatal(err)
			}
			s.has("moved", after)
		})
	}
}

// TestRollBackLeavesDeletedObjectsDeleted: as long as a move only copies, an object that
// the source lacks was deleted by another client.
func TestRollBackLeavesDeletedObjectsDeleted(t *testing.T) {
	t.Parallel()
	begin, before, _ := beginning(t)
	for name, at := range map[string]string{"not copied": "create ClusterClass fleet/quick at target", "copied": "create Secret fleet/c-ca at target"} {
		t.Run(name, func(t *testing.T) {
			s := begin.fork()
			s.t = t
			s.exits(at, func() error { return s.run(false) })
			if copied := s.target.objects["Machine fleet/m"] != nil; copied != (name == "copied") {
				t.Fatalf("the target has the Machine: %t", copied)
			}
			s.source.drop("Machine fleet/m")
			if err := s.run(true); err != nil {
				t.Fatal(err)
			}
			want := result{map[string]string{}, before.target}
			for name, content := range before.source {
				if name != "Machine fleet/m" {
					want.source[name] = content
				}
			}
			s.has("rolled back", want)
		})
	}
}

// TestRollBackLeavesADeletionToItsController: another client deletes an object while the
// move copies. Its finalizers stay.
func TestRollBackLeavesADeletionToItsController(t *testing.T) {
	t.Parallel()
	s, before, _ := beginning(t)
	s.exits("create Machine fleet/m at target", func() error { return s.run(false) })
	s.source.change("Machine fleet/m", func(obj *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(obj.Object, "2026-08-01T12:00:00Z", "metadata", "deletionTimestamp")
	})
	before.source["Machine fleet/m"] = s.source.contents()["Machine fleet/m"]
	if err := s.run(true); err != nil {
		t.Fatal(err)
	}
	s.has("rolled back", before)
}

// TestRollBackRestoresOnlyCopies: an object of the target that another client created in
// place of a copy is not restored to the source.
func TestRollBackRestoresOnlyCopies(t *testing.T) {
	t.Parallel()
	s, _, _ := beginning(t)
	s.exits("delete Cluster fleet/c at source", func() error { return s.run(false) })
	s.target.drop("Secret fleet/c-ca")
	s.target.add("{apiVersion: v1, kind: Secret, metadata: {namespace: fleet, name: c-ca, uid: unrelated}}")
	if err := s.run(true); err == nil || !strings.Contains(err.Error(), "Secret fleet/c-ca is neither at the source nor at the target") {
		t.Errorf("error %v", err)
	}
	if s.source.objects["Secret fleet/c-ca"] != nil || s.target.objects["Secret fleet/c-ca"].GetUID() != "unrelated" {
		t.Error("an unrelated object was restored or deleted")
	}
}

// TestRollBackKeepsOwnersThatDoNotMove: the copies do not have them, and are all that is
// left when the originals are deleted.
func TestRollBackKeepsOwnersThatDoNotMove(t *testing.T) {
	t.Parallel()
	s, _, _ := beginning(t)
	for _, name := range []string{"Secret fleet/c-kubeconfig", "Secret fleet/cloud"} {
		s.source.change(name, func(obj *unstructured.Unstructured) {
			owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "unrelated", UID: "unrelated"}
			obj.SetOwnerReferences(append(obj.GetOwnerReferences(), owner))
		})
	}
	before := result{s.source.contents(), s.target.contents()}
	s.fails = func(int, string) failure {
		if s.source.objects["ClusterClass fleet/quick"] == nil && s.source.objects["Secret fleet/cloud"] == nil {
			return died
		}
		return none
	}
	if err := s.run(false); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	s.fails = nil
	if err := s.run(true); err != nil {
		t.Fatal(err)
	}
	s.has("rolled back", before)
}

// TestRunEndsAfterTwoCrashes: processes exit between the writes that end a move.
func TestRunEndsAfterTwoCrashes(t *testing.T) {
	t.Parallel()
	begin, _, after := beginning(t)
	calm := begin.fork()
	moments := calm.moments(func() error { return calm.run(false) })
	for _, first := range moments[len(moments)-15:] {
		again := first.fork()
		if first.source.objects["ConfigMap fleet/"+JournalName] == nil && first.target.objects["ConfigMap fleet/"+JournalName] == nil {
			continue // the last write
		}
		for _, second := range again.moments(func() error { return again.run(false) }) {
			if err := second.run(false); err != nil && !strings.Contains(err.Error(), "has nothing to move") {
				t.Errorf("exited after %s, and after %s: %v", first.last, second.last, err)
			}
			second.has(first.last+", "+second.last, after)
		}
	}
}

// TestRestoreDoesNotEndThePauseOfOthers: an existing Cluster or class stays paused.
func TestRestoreDoesNotEndThePauseOfOthers(t *testing.T) {
	t.Parallel()
	s, _, _ := beginning(t)
	dir := t.TempDir()
	if err := Save(t.Context(), s.options(), dir); err != nil {
		t.Fatal(err)
	}
	s.source.change("Cluster fleet/c", func(obj *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(obj.Object, true, "spec", "paused")
	})
	s.source.change("ClusterClass fleet/quick", func(obj *unstructured.Unstructured) {
		obj.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: "true"})
	})
	s.source.drop("Machine fleet/m")
	o := s.options()
	o.Target = s.source
	if err := Restore(t.Context(), o, dir); err != nil {
		t.Fatal(err)
	}
	if paused, _, _ := unstructured.NestedBool(s.source.objects["Cluster fleet/c"].Object, "spec", "paused"); !paused {
		t.Error("the Cluster is no longer paused")
	}
	if _, paused := s.source.objects["ClusterClass fleet/quick"].GetAnnotations()[clusterv1.PausedAnnotation]; !paused {
		t.Error("the ClusterClass is no longer paused")
	}
	if s.source.objects["Machine fleet/m"] == nil {
		t.Error("the Machine was not restored")
	}
}
