// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// unrelated are objects of the same kinds and names as those of a move, as others
// create them at the target, except of Clusters and ClusterClasses, of which both
// sides would have one that is not paused.
func unrelated(k kept, m *moving) (all []*unstructured.Unstructured) {
	for n, key := range slices.Sorted(maps.Keys(k.before)) {
		like := m.source.objects[key]
		if plan.Pausable(plan.Item{Kind: plan.Kind{GroupVersionKind: like.GroupVersionKind()}}) {
			continue
		}
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetGroupVersionKind(like.GroupVersionKind())
		obj.SetNamespace(like.GetNamespace())
		obj.SetName(like.GetName())
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", 800_000+n)))
		obj.SetLabels(map[string]string{"unrelated": ""})
		all = append(all, obj)
	}
	return all
}

// TestAMoveReadsAgainWhatChangesAtTheTarget has controllers of the target create, or
// write, an object of each kind between the moment in which the target is read and
// the copy. The objects of the source replace them, and a rollback restores them.
func TestAMoveReadsAgainWhatChangesAtTheTarget(t *testing.T) {
	t.Parallel()
	begin, kept := newMoving(t)
	others := unrelated(kept, begin)
	for name, tc := range map[string]struct {
		there bool // before the move starts
		uses  func(m *moving, obj *unstructured.Unstructured)
	}{
		"created": {uses: func(m *moving, obj *unstructured.Unstructured) { m.target.put(obj.DeepCopy()) }},
		"written": {there: true, uses: func(m *moving, obj *unstructured.Unstructured) {
			m.target.put(m.target.objects[keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())].DeepCopy())
		}},
		"deleted": {there: true, uses: func(m *moving, obj *unstructured.Unstructured) {
			delete(m.target.objects, keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := begin.fork()
			if tc.there {
				for _, obj := range others {
					m.target.put(obj.DeepCopy())
				}
			}
			changed := 0
			var halfway *moving
			m.wire.after = func() {
				written := 0
				for _, obj := range m.target.objects {
					if plan.MarkOf(obj).Operation != "" {
						written++
					}
				}
				if written > len(others)/2 && halfway == nil {
					halfway = m.fork()
				}
				if written == 0 || changed > 0 {
					return
				}
				for _, obj := range others {
					now := m.target.objects[keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())]
					if (now != nil) == tc.there && (now == nil || plan.MarkOf(now).Operation == "") {
						tc.uses(m, obj)
						changed++
					}
				}
			}
			if err := m.move(false); err != nil {
				t.Fatal(err)
			}
			if changed < len(others)/2 {
				t.Errorf("%d objects changed meanwhile, of %d", changed, len(others))
			}
			kept.is(name+" meanwhile", m, m.target, m.source)

			if err := halfway.move(true); err != nil {
				t.Fatalf("rolled back: %v", err)
			}
			for key, obj := range halfway.target.objects {
				if plan.MarkOf(obj).Operation != "" {
					t.Errorf("rolled back: the target still has %s", key)
				}
			}
			for _, obj := range others {
				now := halfway.target.objects[keyOf(obj.GetKind(), obj.GetNamespace(), obj.GetName())]
				if name != "deleted" && (now == nil || now.GetLabels()["unrelated"] != "" || len(now.GetLabels()) != 1) {
					t.Errorf("rolled back: the target has not got its %s back", plan.Name(obj))
				}
			}
		})
	}
}
