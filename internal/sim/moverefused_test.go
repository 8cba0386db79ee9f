// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move"
)

// limited is a management cluster in which not everything is allowed.
type limited struct {
	cutPlane
	denied string // verb and resource
}

func (l limited) Allowed(_ context.Context, verb string, kind schema.GroupResource, _ string) (bool, error) {
	return verb != "*" && verb+" "+kind.String() != l.denied, nil
}

// change edits an object of a management cluster, as any client may.
func (m *memory) change(kind, name string, how func(*unstructured.Unstructured)) {
	obj := m.objects[keyOf(kind, "default", name)].DeepCopy()
	how(obj)
	m.put(obj)
}

func note(annotation string) func(*unstructured.Unstructured) {
	return func(obj *unstructured.Unstructured) { obj.SetAnnotations(map[string]string{annotation: ""}) }
}

// provider is one of the inventory.
func inventoried(version string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"providerName": "local", "type": "InfrastructureProvider", "version": version}}
	obj.SetGroupVersionKind(clusterctlv1.GroupVersion().WithKind("Provider"))
	obj.SetNamespace("capstan-system")
	obj.SetName("infrastructure-local")
	obj.SetUID(types.UID("provider"))
	return obj
}

// TestAMoveThatWouldEndInItsMiddleDoesNotBegin reports what is wrong, and writes
// nothing.
func TestAMoveThatWouldEndInItsMiddleDoesNotBegin(t *testing.T) {
	t.Parallel()
	begin, _ := newMoving(t)
	tests := map[string]struct {
		change func(*moving)
		denied string
		want   string
	}{
		"no provider":       {change: func(m *moving) { m.source.put(inventoried("v1.2.0")) }, want: "the target has no provider local (InfrastructureProvider): install local v1.2.0 or later there"},
		"an older provider": {change: func(m *moving) { m.source.put(inventoried("v1.2.0")); m.target.put(inventoried("v1.1.9")) }, want: "is older than that of the source, v1.1.9 instead of v1.2.0"},
		"no right":          {denied: "patch machines.cluster.x-k8s.io", want: "target: no permission to patch machines.cluster.x-k8s.io in namespace default: ask an administrator for it"},
		"paused": {change: func(m *moving) {
			m.source.change("Cluster", "plain", func(c *unstructured.Unstructured) { c.Object["spec"].(map[string]any)["paused"] = true })
		}, want: "Cluster default/plain is paused"},
		"a Cluster that is looked after": {change: func(m *moving) {
			m.target.put(m.source.objects[keyOf("Cluster", "default", "plain")].DeepCopy())
		}, want: "there is a Cluster default/plain already, which is not paused: both sides would look after it"},
		"a circle": {change: func(m *moving) {
			m.source.change("Cluster", "plain", func(c *unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(c.Object, []any{map[string]any{"kind": "Cluster", "name": "plain", "apiVersion": c.GetAPIVersion(), "uid": string(c.GetUID())}}, "metadata", "ownerReferences")
			})
		}, want: "owner references go round in a circle: Cluster default/plain belongs to Cluster default/plain"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := begin.fork()
			if tc.change != nil {
				tc.change(m)
			}
			target := move.Plane(cutPlane{m.target, m.wire})
			if tc.denied != "" {
				target = limited{cutPlane{m.target, m.wire}, tc.denied}
			}
			err := move.Run(t.Context(), move.Options{Source: cutPlane{m.source, m.wire}, Target: target, Namespace: "default", By: "tester", Clock: instant{m.clock}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if m.wire.writes > 0 {
				t.Errorf("%d writes", m.wire.writes)
			}
		})
	}
}

// TestTheSecondWhoMovesIsRefusedByName stops one move in the middle, and starts
// another one.
func TestTheSecondWhoMovesIsRefusedByName(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	moments, err := begin.fork().run(false)
	if err != nil {
		t.Fatal(err)
	}
	m := moments[len(moments)/2]
	second := move.Options{Source: cutPlane{m.source, m.wire}, Target: cutPlane{m.target, m.wire}, Namespace: "default", By: "second", Clock: m.clock, Parallel: 1}
	before := m.wire.writes
	if err := move.Run(t.Context(), second); err == nil || !strings.Contains(err.Error(), "tester moves namespace default from source to target since") || m.wire.writes > before {
		t.Fatalf("got %v", err)
	}
	third := second
	third.Target = cutPlane{newMemory("elsewhere"), m.wire}
	if err := move.Run(t.Context(), third); err == nil || !strings.Contains(err.Error(), "another move is not finished: tester moves namespace default from source to target") {
		t.Fatalf("to another target: got %v", err)
	}
	fourth := second
	fourth.Source = cutPlane{newMemory("another", inventoried("v1.0.0")), m.wire}
	if err := move.Run(t.Context(), fourth); err == nil || !strings.Contains(err.Error(), "tester moves namespace default from source to target") {
		t.Fatalf("from another source: got %v", err)
	}
	second.Gone, second.Clock = func(by string) bool { return by == "tester" }, instant{m.clock}
	if err := move.Run(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	kept.is("taken up by another", m, m.target, m.source)
}

// TestATargetThatIsChangedMeanwhileLosesNothing changes a copy before the source is emptied.
func TestATargetThatIsChangedMeanwhileLosesNothing(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	m := begin.fork()
	changed := false
	m.wire.after = func() {
		if last := m.target.objects[keyOf("Secret", "default", "cloud")]; last != nil && !changed {
			changed = true
			m.target.change("Secret", "cloud", func(s *unstructured.Unstructured) { s.SetLabels(nil) })
		}
	}
	err := m.move(false)
	if err == nil || !strings.Contains(err.Error(), "Secret default/cloud is not as it was written there (.metadata.labels.clusterctl.cluster.x-k8s.io/move)") {
		t.Fatalf("got %v", err)
	}
	on, back := m.fork(), m.fork()
	if err := on.move(false); err != nil {
		t.Fatal(err)
	}
	kept.is("moved again", on, on.target, on.source)
	if err := back.move(true); err != nil {
		t.Fatal(err)
	}
	kept.is("rolled back", back, back.source, back.target)
}

// TestAProviderBlocksAMove waits for it, and gives up when nothing happens.
func TestAProviderBlocksAMove(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	m := begin.fork()
	m.source.change("LocalCluster", "plain", note(clusterctlv1.BlockMoveAnnotation))
	if err := m.move(false); err == nil || !strings.Contains(err.Error(), "LocalCluster default/plain still has the annotation clusterctl.cluster.x-k8s.io/block-move after 2m0s") {
		t.Fatalf("got %v", err)
	}
	if m.target.objects[keyOf("Cluster", "default", "plain")] != nil {
		t.Error("something was made at the target")
	}
	m.source.change("LocalCluster", "plain", func(obj *unstructured.Unstructured) { obj.SetAnnotations(nil) })
	if err := m.move(false); err != nil {
		t.Fatal(err)
	}
	kept.is("unblocked", m, m.target, m.source)
}

// TestWhatWasThereIsPutBack replaces an object of the target, and rolls back.
func TestWhatWasThereIsPutBack(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	there := begin.source.objects[keyOf("Secret", "default", "cloud")].DeepCopy()
	there.SetUID("before")
	there.Object["data"] = map[string]any{"old": "eA=="}
	begin.target.put(there)
	moments, err := begin.fork().run(false)
	if err != nil {
		t.Fatal(err)
	}
	m := moments[len(moments)/2]
	if m.target.objects[keyOf("Secret", "default", "cloud")].Object["data"] != nil {
		t.Fatal("it was not replaced")
	}
	if err := m.move(true); err != nil {
		t.Fatal(err)
	}
	got := m.target.objects[keyOf("Secret", "default", "cloud")]
	if data, _, _ := unstructured.NestedString(got.Object, "data", "old"); data != "eA==" || got.GetUID() != "before" {
		t.Errorf("got %v", got.Object)
	}
	delete(m.target.objects, keyOf("Secret", "default", "cloud"))
	kept.is("rolled back", m, m.source, m.target)
}

// TestADirectoryHoldsWhatMoves writes files, as upstream's clusterctl does, and
// creates the objects from them in another management cluster.
func TestADirectoryHoldsWhatMoves(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	m, dir := begin.fork(), filepath.Join(t.TempDir(), "saved")
	if err := move.Save(t.Context(), move.Options{Source: cutPlane{m.source, m.wire}, Namespace: "default", By: "tester", Clock: instant{m.clock}}, dir); err != nil {
		t.Fatal(err)
	}
	kept.is("saved", m, m.source, m.target)
	info, err := os.Stat(filepath.Join(dir, "Secret_default_plain-ca.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	restore := move.Options{Target: cutPlane{m.target, m.wire}, Clock: instant{m.clock}}
	maps.DeleteFunc(m.source.objects, func(_ string, o *unstructured.Unstructured) bool { return kept.kinds[o.GetKind()] })
	for range 2 { // the second finds all there
		if err := move.Restore(t.Context(), restore, dir); err != nil {
			t.Fatal(err)
		}
		kept.is("restored", m, m.target, m.source)
	}
	if err := os.WriteFile(filepath.Join(dir, "Cluster_default_broken.yaml"), []byte("a: [secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := move.Restore(t.Context(), restore, dir); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "Cluster_default_broken.yaml") {
		t.Errorf("got %v", err)
	}
}

// TestRestoreResumesOrRollsBackAfterCrash creates objects from a
// directory, by processes that crash between any two writes.
func TestRestoreResumesOrRollsBackAfterCrash(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	dir := filepath.Join(t.TempDir(), "saved")
	if err := move.Save(t.Context(), move.Options{Source: cutPlane{begin.source, begin.wire}, Namespace: "default", By: "tester", Clock: instant{begin.clock}}, dir); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(begin.source.objects, func(_ string, o *unstructured.Unstructured) bool { return kept.kinds[o.GetKind()] })
	restore := func(m *moving, rollback bool) error {
		return move.Restore(t.Context(), move.Options{Target: cutPlane{m.target, m.wire}, By: "tester", Rollback: rollback, Parallel: 1, Clock: instant{m.clock}}, dir)
	}
	var moments []*moving
	calm := begin.fork()
	calm.wire.after = func() {
		moments = append(moments, calm.fork())
		moments[len(moments)-1].after = calm.wire.last
	}
	if err := restore(calm, false); err != nil {
		t.Fatal(err)
	}
	kept.is("undisturbed", calm, calm.target, calm.source)
	refused := 0
	tried := chosenWrites(writesBefore(moments[:len(moments)-1]))
	for _, n := range tried {
		what, at := fmt.Sprintf("crashed after write %d of %d", n+1, len(moments)), moments[n]
		on, back := at.fork(), at.fork()
		if err := restore(on, false); err != nil {
			t.Fatalf("%s, restored again: %v", what, err)
		}
		kept.is(what+", restored again", on, on.target, on.source)
		switch err := restore(back, true); {
		case n == 0 && err != nil && strings.Contains(err.Error(), "there is nothing to roll back"):
			// It had created only the namespace, in which it would record its
			// progress.
			made := slices.Sorted(maps.Keys(back.target.objects))
			if space := keyOf("Namespace", "", "default"); len(made) != len(begin.target.objects)+1 || !slices.Contains(made, space) {
				t.Fatalf("%s: there are %v", what, made)
			}
		case err == nil && refused == 0:
			if left := contents(back.target, kept.kinds); len(left) > 0 {
				t.Fatalf("%s, rolled back: %d objects are left", what, len(left))
			}
		case err != nil && strings.Contains(err.Error(), "has every object already"):
			refused++
		default:
			t.Fatalf("%s, rolled back after %d were refused: %v", what, refused, err)
		}
	}
	if refused == 0 || refused > len(moments)/2+5 {
		t.Errorf("%d of %d were refused to roll back, want those that end the pause", refused, len(moments))
	}
}

// TestASecondRestoreIsRefused with the name of the user who restores, and so is a
// restore of other objects.
func TestASecondRestoreIsRefused(t *testing.T) {
	t.Parallel()
	begin, _ := newMoving(t)
	dir := filepath.Join(t.TempDir(), "saved")
	if err := move.Save(t.Context(), move.Options{Source: cutPlane{begin.source, begin.wire}, Namespace: "default", By: "tester", Clock: instant{begin.clock}}, dir); err != nil {
		t.Fatal(err)
	}
	m := begin.fork()
	m.wire = &wire{breaks: func(write int) bool { return write == 20 }}
	restore := move.Options{Target: cutPlane{m.target, m.wire}, By: "one", Parallel: 1, Clock: instant{m.clock}}
	if err := move.Restore(t.Context(), restore, dir); !errors.Is(err, errReset) {
		t.Fatalf("cut off: got %v", err)
	}
	m.wire = &wire{}
	restore.Target, restore.By, restore.Clock = cutPlane{m.target, m.wire}, "two", NewClock(m.clock.Now())
	var busy *move.BusyError
	if err := move.Restore(t.Context(), restore, dir); !errors.As(err, &busy) || busy.Record.By != "one" {
		t.Errorf("at the same time: got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "Secret_default_cloud.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := move.Restore(t.Context(), restore, dir); err == nil || !strings.Contains(err.Error(), "has changed since one began to restore it") {
		t.Errorf("of other objects: got %v", err)
	}
}

// TestADirectoryOfUpstreamIsRead reads a file in the form that upstream's clusterctl
// writes: JSON, with status, UIDs and what a pause has left.
func TestADirectoryOfUpstreamIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Cluster_ns_c.yaml":   `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"c","namespace":"ns","uid":"1","resourceVersion":"5","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"paused":true,"clusterNetwork":{}},"status":{"phase":"Provisioned"}}`,
		"Secret_ns_c-ca.yaml": `{"apiVersion":"v1","kind":"Secret","type":"cluster.x-k8s.io/secret","metadata":{"name":"c-ca","namespace":"ns","uid":"2","ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"c","uid":"1"}]},"data":{"tls.crt":"eA=="}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin, _ := newMoving(t)
	target := begin.target.fork()
	if err := move.Restore(t.Context(), move.Options{Target: cutPlane{target, &wire{}}}, dir); err != nil {
		t.Fatal(err)
	}
	cluster, secret := target.objects[keyOf("Cluster", "ns", "c")], target.objects[keyOf("Secret", "ns", "c-ca")]
	if cluster == nil || secret == nil || target.objects[keyOf("Namespace", "", "ns")] == nil {
		t.Fatalf("got %v, %v", cluster, secret)
	}
	if refs := secret.GetOwnerReferences(); len(refs) != 1 || refs[0].UID != cluster.GetUID() {
		t.Errorf("owners %v, want %s", refs, cluster.GetUID())
	}
	got := fmt.Sprint(cluster.Object["spec"], cluster.Object["status"], cluster.GetAnnotations())
	if want := "map[clusterNetwork:map[]] <nil> map[]"; got != want || cluster.GroupVersionKind() != clusterv1.GroupVersion().WithKind("Cluster") {
		t.Errorf("got %s, want %s", got, want)
	}
}
