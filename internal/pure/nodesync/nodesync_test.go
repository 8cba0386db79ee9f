// SPDX-License-Identifier: Apache-2.0

package nodesync

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

type node struct {
	Labels, Annotations map[string]string
	Taints              []string
}

// seen is what every Node has after the first sync of the machine below.
func seen(more ...string) map[string]string {
	out := map[string]string{
		"cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/cluster-namespace": "ns", "cluster.x-k8s.io/machine": "m0",
		"cluster.x-k8s.io/owner-kind": "MachineSet", "cluster.x-k8s.io/owner-name": "s0",
		"cluster.x-k8s.io/labels-from-machine": "", "cluster.x-k8s.io/annotations-from-machine": "",
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func TestApply(t *testing.T) {
	t.Parallel()
	always := clusterv1.MachineTaint{Key: "gpu", Value: "yes", Effect: "NoSchedule", Propagation: clusterv1.MachineTaintPropagationAlways}
	once := clusterv1.MachineTaint{Key: "warming", Effect: "NoSchedule", Propagation: clusterv1.MachineTaintPropagationOnInitialization}
	tests := map[string]struct {
		labels, annotations map[string]string // of the Machine
		taints              []clusterv1.MachineTaint
		interruptible       bool
		alone               bool // without an owner
		outdated            bool
		more                [2]string // patterns for labels and annotations
		node                corev1.Node
		want                node
		wantSame            bool
	}{
		"a new Node gets its identity and loses the uninitialized taint": {
			node: corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{Uninitialized, taint("other", "", "NoExecute")}}},
			want: node{map[string]string{}, seen(), []string{"other=:NoExecute"}},
		},
		"what a pattern matches goes to the Node too": {
			labels: map[string]string{"team": "a", "x.example.com/b": "1", "app": "no"}, annotations: map[string]string{"x.example.com/c": "2", "team": "no"},
			more: [2]string{`^team$,\.example\.com/`, `^x\.`},
			want: node{
				map[string]string{"team": "a", "x.example.com/b": "1"},
				seen("x.example.com/c", "2", "cluster.x-k8s.io/labels-from-machine", "team,x.example.com/b", "cluster.x-k8s.io/annotations-from-machine", "x.example.com/c"), nil,
			},
		},
		"what a pattern matched leaves the Node with the Machine's label": {
			node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: seen("cluster.x-k8s.io/labels-from-machine", "team")}},
			more: [2]string{`team`},
			want: node{map[string]string{}, seen(), nil},
		},
		"a pattern for all changes nothing of the Machine's identity": {
			annotations: map[string]string{"cluster.x-k8s.io/machine": "forged", "cluster.x-k8s.io/labels-from-machine": "kubernetes.io/os"},
			node:        corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/os": "linux"}}},
			more:        [2]string{``, `.*`},
			want: node{
				map[string]string{"kubernetes.io/os": "linux"},
				seen("cluster.x-k8s.io/annotations-from-machine", "cluster.x-k8s.io/labels-from-machine,cluster.x-k8s.io/machine"), nil,
			},
		},
		"labels of our domains go to the Node, others do not": {
			labels: map[string]string{"node-role.kubernetes.io/db": "", "node-restriction.kubernetes.io/a": "1", "x.node.cluster.x-k8s.io/b": "2", "app": "no", "node.cluster.x-k8s.io": "3", "evilnode.cluster.x-k8s.io/c": "no"},
			node:   corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/os": "linux"}}},
			want: node{
				map[string]string{"kubernetes.io/os": "linux", "node-role.kubernetes.io/db": "", "node-restriction.kubernetes.io/a": "1", "x.node.cluster.x-k8s.io/b": "2", "node.cluster.x-k8s.io": "3"},
				seen("cluster.x-k8s.io/labels-from-machine", "node-restriction.kubernetes.io/a,node-role.kubernetes.io/db,node.cluster.x-k8s.io,x.node.cluster.x-k8s.io/b"), nil,
			},
		},
		"what the Machine dropped is dropped, what others set stays": {
			node: corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"node.cluster.x-k8s.io/old": "1", "node.cluster.x-k8s.io/theirs": "1"},
				Annotations: seen("cluster.x-k8s.io/labels-from-machine", "node.cluster.x-k8s.io/old", "cluster.x-k8s.io/annotations-from-machine", "node.cluster.x-k8s.io/note", "node.cluster.x-k8s.io/note", "x"),
			}},
			want: node{map[string]string{"node.cluster.x-k8s.io/theirs": "1"}, seen(), nil},
		},
		"annotations of our domain go to the Node": {
			annotations: map[string]string{"node.cluster.x-k8s.io/note": "x", "other": "no"},
			want:        node{map[string]string{}, seen("node.cluster.x-k8s.io/note", "x", "cluster.x-k8s.io/annotations-from-machine", "node.cluster.x-k8s.io/note"), nil},
		},
		"an interruptible host is labelled": {
			interruptible: true,
			want:          node{map[string]string{"cluster.x-k8s.io/interruptible": ""}, seen("cluster.x-k8s.io/labels-from-machine", "cluster.x-k8s.io/interruptible"), nil},
		},
		"both kinds of taints are set at first": {
			taints: []clusterv1.MachineTaint{always, once},
			want:   node{map[string]string{}, seen("cluster.x-k8s.io/taints-from-machine", "gpu:NoSchedule"), []string{"gpu=yes:NoSchedule", "warming=:NoSchedule"}},
		},
		"a taint for the start is not set again, a permanent one is": {
			taints: []clusterv1.MachineTaint{always, once},
			node:   corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: seen()}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint("gpu", "no", "NoSchedule")}}},
			want:   node{map[string]string{}, seen("cluster.x-k8s.io/taints-from-machine", "gpu:NoSchedule"), []string{"gpu=yes:NoSchedule"}},
		},
		"a taint that the Machine dropped is dropped": {
			node: corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Annotations: seen("cluster.x-k8s.io/taints-from-machine", "gpu:NoSchedule")},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{taint("gpu", "yes", "NoSchedule"), taint("gpu", "yes", "NoExecute")}},
			},
			want: node{map[string]string{}, seen("cluster.x-k8s.io/taints-from-machine", ""), []string{"gpu=yes:NoExecute"}},
		},
		"a formerly permanent taint that is now for the start stays": {
			taints: []clusterv1.MachineTaint{{Key: "gpu", Value: "yes", Effect: "NoSchedule", Propagation: clusterv1.MachineTaintPropagationOnInitialization}},
			node: corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Annotations: seen("cluster.x-k8s.io/taints-from-machine", "gpu:NoSchedule")},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{taint("gpu", "yes", "NoSchedule")}},
			},
			want: node{map[string]string{}, seen("cluster.x-k8s.io/taints-from-machine", ""), []string{"gpu=yes:NoSchedule"}},
		},
		"an outdated Machine taints its Node": {
			outdated: true, want: node{map[string]string{}, seen(), []string{"node.cluster.x-k8s.io/outdated-revision=:PreferNoSchedule"}},
		},
		"a Machine of the newest revision, or of none, takes that taint off": {
			node: corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{OutdatedRevision}}}, want: node{map[string]string{}, seen(), nil},
		},
		"a Machine without an owner takes the former one off": {
			alone: true,
			node:  corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: seen()}},
			want: node{map[string]string{}, map[string]string{
				"cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/cluster-namespace": "ns", "cluster.x-k8s.io/machine": "m0",
				"cluster.x-k8s.io/labels-from-machine": "", "cluster.x-k8s.io/annotations-from-machine": "",
			}, nil},
		},
		"nothing to do": {
			node:     corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: seen("z", "z")}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint("other", "", "NoExecute")}}},
			want:     node{map[string]string{"a": "b"}, seen("z", "z"), []string{"other=:NoExecute"}},
			wantSame: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "m0", Labels: tc.labels, Annotations: tc.annotations,
					OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "s0", Controller: new(true)}},
				},
				Spec: clusterv1.MachineSpec{ClusterName: "demo", Taints: tc.taints},
			}
			if tc.alone {
				m.OwnerReferences = nil
			}
			w := Want{Machine: m, Interruptible: tc.interruptible, Outdated: tc.outdated}
			if err := errors.Join(w.Additional.Labels.Set(tc.more[0]), w.Additional.Annotations.Set(tc.more[1])); err != nil {
				t.Fatal(err)
			}
			if changed := Apply(&tc.node, w); changed == tc.wantSame {
				t.Errorf("changed = %v", changed)
			}
			got := node{tc.node.Labels, tc.node.Annotations, nil}
			for _, t := range tc.node.Spec.Taints {
				got.Taints = append(got.Taints, t.Key+"="+t.Value+":"+string(t.Effect))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if Apply(&tc.node, w) {
				t.Error("a second Apply changed something")
			}
		})
	}
}

func TestPatternsAreReadAsAFlag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		texts   []string // of a flag that is given several times
		key     string
		want    bool
		wantErr string
	}{
		"none":                {key: "a"},
		"empty":               {texts: []string{""}, key: "a"},
		"one":                 {texts: []string{"^a"}, key: "abc", want: true},
		"one that is not it":  {texts: []string{"^b"}, key: "abc"},
		"in the middle":       {texts: []string{"b"}, key: "abc", want: true},
		"the second of two":   {texts: []string{"x,^a"}, key: "abc", want: true},
		"given again":         {texts: []string{"^a", "x"}, key: "abc", want: true},
		"a comma in a quote":  {texts: []string{`"^a{1,3}$"`}, key: "aaa", want: true},
		"not an expression":   {texts: []string{"a(", "b"}, wantErr: "missing closing ): `a(`: give regular expressions"},
		"a quote of nothing":  {texts: []string{`"a`}, wantErr: "extraneous or missing"},
		"the second is wrong": {texts: []string{"a,["}, wantErr: "missing closing ]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p Patterns
			for _, text := range tc.texts {
				if err := p.Set(text); err != nil {
					if tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) {
						t.Errorf("%q: error %v, want %q", text, err, tc.wantErr)
					}
					return
				}
			}
			var again Patterns
			if err := again.Set(p.String()); err != nil || again.String() != p.String() || again.Match(tc.key) != tc.want {
				t.Errorf("%q is read as %q, error %v", p.String(), again.String(), err)
			}
			if got := p.Match(tc.key); got != tc.want || tc.wantErr != "" {
				t.Errorf("%s matches %q: %t, want %t, error %q", p.String(), tc.key, got, tc.want, tc.wantErr)
			}
		})
	}
}
