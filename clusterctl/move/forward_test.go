// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// TestWhatHasNotNoticedThePauseIsAwaited, wherever a provider says so.
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
		blocked, working := waitsFor(p, f)
		if got := slices.Contains(blocked, "Host h"); got != tc.blocked {
			t.Errorf("what %s: %q block the move", name, blocked)
		}
		if got := slices.Contains(working, "Host h"); got != tc.working {
			t.Errorf("what %s: %q are waited for", name, working)
		}
	}
}
