// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func daemonSet(change ...func(*appsv1.DaemonSetSpec)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "d", Generation: 3}}
	d.Spec.Template.Labels = map[string]string{"app": "agent"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "v1"}}
	for _, f := range change {
		f(&d.Spec)
	}
	return d
}

// on creates a Pod of a DaemonSet on a Node, with the hash of its template.
func on(name, node, hash string, change ...func(*Pod)) Pod {
	return pod(name, append([]func(*Pod){func(p *Pod) {
		p.Node, p.Target, p.Labels = node, node, map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}
	}}, change...)...)
}

func unbound(p *Pod) { p.Node, p.Phase, p.Ready = "", corev1.PodPending, false }

// steps is a plan in words.
func steps(p DaemonPlan) (out []string) {
	for _, pod := range p.Create {
		out = append(out, "create on "+target(pod.Spec.Affinity))
	}
	for _, pod := range p.Delete {
		out = append(out, "delete "+pod.Name)
	}
	slices.Sort(out)
	return out
}

func TestDaemonsAreOnTheirNodes(t *testing.T) {
	t.Parallel()
	selects := func(s *appsv1.DaemonSetSpec) { s.Template.Spec.NodeSelector = map[string]string{"name": "a"} }
	tolerates := func(s *appsv1.DaemonSetSpec) { s.Template.Spec.Tolerations = []corev1.Toleration{exists("k")} }
	known := func(key string, effect corev1.TaintEffect) func(*Node) {
		return func(n *Node) { n.Taints = []corev1.Taint{taint(key, effect, start)} }
	}
	leaving := func(n *Node) { n.Leaving = true }
	b := func(change ...func(*Node)) []Node { return []Node{node("a"), node("b", change...)} }
	tests := map[string]struct {
		set   func(*appsv1.DaemonSetSpec)
		nodes []Node
		pods  []Pod
		want  []string
		// desired and misscheduled are what the status reports.
		desired, misscheduled int32
	}{
		"all":                              {nil, b(), nil, []string{"create on a", "create on b"}, 2, 0},
		"that have none":                   {nil, b(), []Pod{on("p", "a", "h")}, []string{"create on b"}, 2, 0},
		"that it selects":                  {selects, b(), nil, []string{"create on a"}, 1, 0},
		"no longer, if not selected":       {selects, b(), []Pod{on("p", "a", "h"), on("q", "b", "h")}, []string{"delete q"}, 1, 1},
		"that do not repel it":             {nil, b(tainted(corev1.TaintEffectNoSchedule)), nil, []string{"create on a"}, 1, 0},
		"that it tolerates":                {tolerates, b(tainted(corev1.TaintEffectNoSchedule)), nil, []string{"create on a", "create on b"}, 2, 0},
		"still, if they repel others":      {nil, b(tainted(corev1.TaintEffectNoSchedule)), []Pod{on("p", "a", "h"), on("q", "b", "h")}, nil, 1, 1},
		"no longer, if they evict":         {nil, b(tainted(corev1.TaintEffectNoExecute)), []Pod{on("p", "a", "h"), on("q", "b", "h")}, []string{"delete q"}, 1, 1},
		"that are cordoned":                {nil, b(cordoned, known(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), nil, []string{"create on a", "create on b"}, 2, 0},
		"that are silent":                  {nil, b(known(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)), nil, []string{"create on a", "create on b"}, 2, 0},
		"that have no pressure on them":    {nil, b(known(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)), nil, []string{"create on a", "create on b"}, 2, 0},
		"that have a network":              {nil, b(known(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)), nil, []string{"create on a"}, 1, 0},
		"without network, if of the host":  {func(s *appsv1.DaemonSetSpec) { s.Template.Spec.HostNetwork = true }, b(known(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)), nil, []string{"create on a", "create on b"}, 2, 0},
		"not those that are being deleted": {nil, b(leaving), nil, []string{"create on a"}, 2, 0},
		"once each, the oldest":            {nil, b(), []Pod{on("p", "a", "h", func(p *Pod) { p.Created = start.Add(time.Second) }), on("q", "a", "h"), on("r", "b", "h")}, []string{"delete p"}, 2, 0},
		"again, where one has ended":       {nil, b(), []Pod{on("p", "a", "h", failed), on("q", "b", "h")}, []string{"create on a", "delete p"}, 2, 0},
		"again, where one leaves":          {nil, b(), []Pod{on("p", "a", "h", leaves), on("q", "b", "h")}, []string{"create on a"}, 2, 0},
		"not again before it is bound":     {nil, b(), []Pod{on("p", "a", "h", unbound), on("q", "b", "h")}, nil, 2, 0},
		"not for a Node that is deleted":   {nil, b(), []Pod{on("p", "a", "h"), on("q", "b", "h"), on("r", "c", "h", unbound)}, []string{"delete r"}, 2, 0},
		"not of a Node it may choose":      {nil, b(), []Pod{on("p", "a", "h"), on("q", "b", "h"), on("r", "", "h", unbound)}, nil, 2, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := daemonSet()
			if tc.set != nil {
				tc.set(&set.Spec)
			}
			p := Daemons{Set: set, Nodes: tc.nodes, Pods: tc.pods, Hash: "h", Now: start.Add(time.Hour)}.Plan()
			if diff := cmp.Diff(tc.want, steps(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if p.Status.DesiredNumberScheduled != tc.desired || p.Status.NumberMisscheduled != tc.misscheduled || p.Status.ObservedGeneration != 3 {
				t.Errorf("got status %+v, want %d desired and %d misscheduled", p.Status, tc.desired, tc.misscheduled)
			}
		})
	}
}

func TestDaemonsAreUpdatedWithinBounds(t *testing.T) {
	t.Parallel()
	by := func(surge, unavailable string) func(*appsv1.DaemonSetSpec) {
		return func(s *appsv1.DaemonSetSpec) {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: new(intstr.Parse(surge)), MaxUnavailable: new(intstr.Parse(unavailable))}
		}
	}
	onDelete := func(s *appsv1.DaemonSetSpec) { s.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }
	slow := func(s *appsv1.DaemonSetSpec) { s.MinReadySeconds = 60 }
	var nodes []Node
	var old []Pod
	for _, name := range []string{"a", "b", "c", "d"} {
		nodes = append(nodes, node(name))
		old = append(old, on("old-"+name, name, "old"))
	}
	with := func(pods []Pod, more ...Pod) []Pod { return append(slices.Clone(pods), more...) }
	recent := func(p *Pod) { p.Since = start.Add(time.Hour) }
	tests := map[string]struct {
		set     func(*appsv1.DaemonSetSpec)
		pods    []Pod
		want    []string
		updated int32
		again   bool
	}{
		"one at a time":                       {nil, old, []string{"delete old-a"}, 0, false},
		"a share at a time, rounded up":       {by("0", "30%"), old, []string{"delete old-a", "delete old-b"}, 0, false},
		"none while one is not ready":         {nil, with(old[1:], on("new-a", "a", "h", unready)), nil, 1, false},
		"the next once it is":                 {nil, with(old[1:], on("new-a", "a", "h")), []string{"delete old-b"}, 1, false},
		"those that are not ready first":      {nil, with(old[:3], on("old-d", "d", "old", unready)), []string{"delete old-d"}, 0, false},
		"not before they are asked to":        {onDelete, old, nil, 0, false},
		"not before the new one is available": {slow, with(old[1:], on("new-a", "a", "h", recent)), nil, 1, true},
		"by one more":                         {by("1", "0"), old, []string{"create on a"}, 0, false},
		"not by a second":                     {by("1", "0"), with(old, on("new-a", "a", "h", unready)), nil, 1, false},
		"the old one once both are":           {by("1", "0"), with(old, on("new-a", "a", "h")), []string{"delete old-a"}, 1, false},
		"by a share more":                     {by("50%", "0"), old, []string{"create on a", "create on b"}, 0, false},
		"nothing, if all are":                 {nil, []Pod{on("a", "a", "h"), on("b", "b", "h"), on("c", "c", "h"), on("d", "d", "h")}, nil, 4, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := daemonSet()
			if tc.set != nil {
				tc.set(&set.Spec)
			}
			now := start.Add(time.Hour)
			p := Daemons{Set: set, Nodes: nodes, Pods: tc.pods, Hash: "h", Now: now}.Plan()
			if diff := cmp.Diff(tc.want, steps(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if p.Status.UpdatedNumberScheduled != tc.updated || p.Status.CurrentNumberScheduled != 4 || p.Status.NumberUnavailable != 4-p.Status.NumberAvailable {
				t.Errorf("got status %+v", p.Status)
			}
			if p.Again.Equal(now.Add(time.Minute)) != tc.again {
				t.Errorf("again at %s", p.Again)
			}
		})
	}
}

// TestDaemonPodsAreForOneNode: their affinity keeps what the template requires.
func TestDaemonPodsAreForOneNode(t *testing.T) {
	t.Parallel()
	require := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	of := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	for name, affinity := range map[string]*corev1.Affinity{"none": nil, "empty": {NodeAffinity: &corev1.NodeAffinity{}}, "no terms": require(), "two terms": require(of("a"), of("b"))} {
		set := daemonSet(func(s *appsv1.DaemonSetSpec) { s.Template.Spec.Affinity = affinity })
		before := set.DeepCopy()
		p := Daemons{Set: set, Hash: "h"}.pod("a")
		if diff := cmp.Diff(before, set); diff != "" {
			t.Errorf("%s: the set changed (-want +got):\n%s", name, diff)
		}
		p.Spec.NodeName = ""
		if got := PodOf(p); got.Target != "a" || got.Owner != "d" || got.Labels[appsv1.ControllerRevisionHashLabelKey] != "h" || p.GenerateName != "agent-" {
			t.Errorf("%s: got %+v", name, got)
		}
		needs := NeedsOf(p)
		if !needs.Match(node("a")) || needs.Match(node("b")) {
			t.Errorf("%s: it is on another Node", name)
		}
	}
	if got := target(require(of("a"))); got != "" {
		t.Errorf("an affinity to labels names Node %q", got)
	}
}

func TestHistoryKeepsRevisions(t *testing.T) {
	t.Parallel()
	revision := func(image string, number int64) *appsv1.ControllerRevision {
		set := daemonSet(func(s *appsv1.DaemonSetSpec) { s.Template.Spec.Containers[0].Image = image })
		h := History{Owner: set, Kind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Template: &set.Spec.Template}
		return h.revision(h.data(), number)
	}
	collides := revision("v9", 2)
	collides.Name = revision("v1", 0).Name
	tests := map[string]struct {
		has     []*appsv1.ControllerRevision
		used    map[string]bool
		limit   int32
		current int64
		write   bool
		deleted []int64
	}{
		"the first":               {nil, nil, 10, 1, true, nil},
		"the latest":              {[]*appsv1.ControllerRevision{revision("v0", 1), revision("v1", 2)}, nil, 10, 2, false, nil},
		"a new one":               {[]*appsv1.ControllerRevision{revision("v0", 4)}, nil, 10, 5, true, nil},
		"an earlier one, again":   {[]*appsv1.ControllerRevision{revision("v1", 1), revision("v2", 2)}, nil, 10, 3, true, nil},
		"one of the same name":    {[]*appsv1.ControllerRevision{collides}, nil, 10, 3, true, nil},
		"as many as are allowed":  {[]*appsv1.ControllerRevision{revision("v3", 3), revision("v0", 1), revision("v2", 2), revision("v1", 4)}, nil, 1, 4, false, []int64{1, 2}},
		"none but the latest":     {[]*appsv1.ControllerRevision{revision("v0", 1), revision("v1", 2)}, nil, 0, 2, false, []int64{1}},
		"those that Pods have":    {[]*appsv1.ControllerRevision{revision("v0", 1), revision("v1", 2)}, map[string]bool{revision("v0", 1).Labels[appsv1.ControllerRevisionHashLabelKey]: true}, 0, 2, false, nil},
		"with a limit that is no": {[]*appsv1.ControllerRevision{revision("v0", 1), revision("v1", 2)}, nil, -3, 2, false, []int64{1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := daemonSet()
			for _, r := range tc.has {
				r.Data.Raw = append([]byte(" "), r.Data.Raw...) // JSON in another form
			}
			p := History{Owner: set, Kind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Template: &set.Spec.Template, Revisions: tc.has, Used: tc.used, Limit: tc.limit}.Plan()
			var deleted []int64
			for _, r := range p.Delete {
				deleted = append(deleted, r.Revision)
			}
			if p.Current.Revision != tc.current || p.Write != tc.write || !slices.Equal(deleted, tc.deleted) {
				t.Errorf("got revision %d, write %t, delete %v; want %d, %t, %v", p.Current.Revision, p.Write, deleted, tc.current, tc.write, tc.deleted)
			}
			if slices.ContainsFunc(tc.has, func(r *appsv1.ControllerRevision) bool {
				return r.Name == p.Current.Name && fmt.Sprint(r.Data) != fmt.Sprint(p.Current.Data)
			}) {
				t.Errorf("another template has the name %s", p.Current.Name)
			}
		})
	}
	want := `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"agent"}},"spec":{"containers":[{"image":"v1","name":"c","resources":{}}]}}}}`
	if got := string(revision("v1", 1).Data.Raw); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
