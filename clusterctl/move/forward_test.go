// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// TestWhatHasNotNoticedThePauseIsAwaited, in whichever field a provider reports it.
func TestWhatHasNotNoticedThePauseIsAwaited(t *testing.T) {
	t.Parallel()
	paused := func(status string) []any {
		return []any{map[string]any{"type": "Paused", "status": status, "reason": "R"}}
	}
	for name, tc := range map[string]struct {
		status           map[string]any
		annotation       string
		blocked, working bool
	}{
		"works on":                        {status: map[string]any{"conditions": paused("False")}, working: true},
		"works on, by the older contract": {status: map[string]any{"v1beta2": map[string]any{"conditions": paused("False")}}, working: true},
		"has noticed":                     {status: map[string]any{"conditions": paused("True")}},
		"does not say":                    {status: map[string]any{}},
		"cannot be understood":            {status: map[string]any{"conditions": "none"}},
		"blocks the move":                 {status: map[string]any{"conditions": paused("True")}, annotation: clusterctlv1.BlockMoveAnnotation, blocked: true},
	} {
		cluster := &unstructured.Unstructured{Object: map[string]any{}}
		cluster.SetGroupVersionKind(clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind))
		cluster.SetName("c")
		cluster.SetUID("1")
		host := &unstructured.Unstructured{Object: map[string]any{"status": tc.status}}
		host.SetGroupVersionKind(schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Host"})
		host.SetName("h")
		host.SetUID("2")
		host.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c"})
		if tc.annotation != "" {
			host.SetAnnotations(map[string]string{tc.annotation: ""})
		}
		f, p := &found{byUID: map[types.UID]*unstructured.Unstructured{}}, &plan.Plan{}
		for _, obj := range []*unstructured.Unstructured{cluster, host} {
			f.byUID[obj.GetUID()] = obj
			p.Items = append(p.Items, plan.Item{Kind: plan.Kind{GroupVersionKind: obj.GroupVersionKind()}, Name: obj.GetName(), UID: obj.GetUID()})
		}
		blocked, working := p.Awaited(f.byUID)
		names := func(all []plan.Item) (out []string) {
			for _, i := range all {
				out = append(out, i.String())
			}
			return out
		}
		if got := slices.Contains(names(blocked), "Host h"); got != tc.blocked {
			t.Errorf("what %s: %q block the move", name, names(blocked))
		}
		if got := slices.Contains(names(working), "Host h"); got != tc.working {
			t.Errorf("what %s: %q are waited for", name, names(working))
		}
	}
}

// listed is a management cluster that only supports List, with a new result each time.
type listed struct {
	Plane
	moments [][]*unstructured.Unstructured
	kinds   []string
}

func (l *listed) List(_ context.Context, kind plan.Kind, _ string, _ ...string) (all []*unstructured.Unstructured, err error) {
	l.kinds = append(l.kinds, kind.Kind)
	for _, obj := range l.moments[min(len(l.kinds), len(l.moments))-1] {
		if obj.GetKind() == kind.Kind {
			all = append(all, obj)
		}
	}
	return all, nil
}

func (l *listed) Update(context.Context, *unstructured.Unstructured) error { return nil } // of the journal

// TestForwardRereadsOnlyAwaitedObjects waits for a Host, while no other kind is requested.
func TestForwardRereadsOnlyAwaitedObjects(t *testing.T) {
	t.Parallel()
	host := func(kind, paused string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Paused", "status": paused, "reason": "R"}},
		}}}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: kind})
		obj.SetName("h")
		obj.SetUID(types.UID(kind))
		return obj
	}
	for name, tc := range map[string]struct {
		moments [][]*unstructured.Unstructured
		lists   int
		left    int
	}{
		"until it is paused":   {moments: [][]*unstructured.Unstructured{{host("Host", "False")}, {host("Host", "True")}}, lists: 2},
		"until it is gone":     {moments: [][]*unstructured.Unstructured{{host("Host", "False")}, {}}, lists: 2},
		"until it is too late": {moments: [][]*unstructured.Unstructured{{host("Host", "False")}}, lists: 11, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testclock.NewFakeClock(time.Unix(0, 0))
			source := &listed{moments: tc.moments}
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			m := &mover{source: source, here: &journal{plane: source, clock: clock, obj: obj, plan: &plan.Plan{}}}
			m.Clock, m.Parallel, m.Progress = stepping{clock}, 1, func(string) {}
			f, at := &found{byUID: map[types.UID]*unstructured.Unstructured{}}, []plan.Item{}
			for _, kind := range []string{"Host", "Rack"} {
				obj := host(kind, "False")
				f.byUID[obj.GetUID()] = obj
				at = append(at, plan.Item{Kind: plan.Kind{GroupVersionKind: obj.GroupVersionKind()}, Name: "h", UID: obj.GetUID()})
			}
			left, err := m.await(t.Context(), f, at[:1], plan.Works, clock.Now().Add(8*time.Second), "Waiting for")
			if err != nil || len(left) != tc.left {
				t.Errorf("got %v, %v left, want %d", err, left, tc.left)
			}
			if want := slices.Repeat([]string{"Host"}, tc.lists); !slices.Equal(source.kinds, want) {
				t.Errorf("listed %v, want %v", source.kinds, want)
			}
		})
	}
}
