// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

func taint(key string, effect corev1.TaintEffect, added ...time.Time) corev1.Taint {
	t := corev1.Taint{Key: key, Effect: effect}
	for _, at := range added {
		t.TimeAdded = new(metav1.NewTime(at))
	}
	return t
}

func exists(key string, seconds ...int64) corev1.Toleration {
	x := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
	for _, s := range seconds {
		x.TolerationSeconds = &s
	}
	return x
}

func TestPodsStayAsLongAsTheyTolerate(t *testing.T) {
	t.Parallel()
	const out = corev1.TaintEffectNoExecute
	earlier := start.Add(-time.Minute)
	tests := map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		stays       bool
		until       time.Time
	}{
		"without taints":                 {nil, nil, true, time.Time{}},
		"with one that only repels":      {[]corev1.Taint{taint("k", corev1.TaintEffectNoSchedule)}, nil, true, time.Time{}},
		"not tolerated":                  {[]corev1.Taint{taint("k", out)}, nil, false, time.Time{}},
		"tolerated":                      {[]corev1.Taint{taint("k", out)}, []corev1.Toleration{exists("k")}, true, time.Time{}},
		"tolerated with all":             {[]corev1.Taint{taint("k", out)}, []corev1.Toleration{exists("")}, true, time.Time{}},
		"another is tolerated":           {[]corev1.Taint{taint("k", out)}, []corev1.Toleration{exists("j")}, false, time.Time{}},
		"tolerated for a while":          {[]corev1.Taint{taint("k", out, earlier)}, []corev1.Toleration{exists("k", 90)}, true, start.Add(30 * time.Second)},
		"tolerated until now":            {[]corev1.Taint{taint("k", out, earlier)}, []corev1.Toleration{exists("k", 60)}, false, start},
		"tolerated for less than none":   {[]corev1.Taint{taint("k", out, start)}, []corev1.Toleration{exists("k", -1)}, false, start.Add(-time.Second)},
		"the first toleration counts":    {[]corev1.Taint{taint("k", out, earlier)}, []corev1.Toleration{exists("k"), exists("k", 1)}, true, time.Time{}},
		"the first is for a while":       {[]corev1.Taint{taint("k", out, earlier)}, []corev1.Toleration{exists("k", 90), exists("")}, true, start.Add(30 * time.Second)},
		"the sooner of two taints":       {[]corev1.Taint{taint("k", out, start), taint("j", out, start)}, []corev1.Toleration{exists("k", 90), exists("j", 60)}, true, start.Add(time.Minute)},
		"one of two taints is tolerated": {[]corev1.Taint{taint("k", out), taint("j", out)}, []corev1.Toleration{exists("k")}, false, time.Time{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := node("a", func(n *Node) { n.Taints = tc.taints })
			stays, until := NeedsOf(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.tolerations}}).Stays(n, start)
			if stays != tc.stays || !until.Equal(tc.until) {
				t.Errorf("stays %t until %s, want %t until %s", stays, until, tc.stays, tc.until)
			}
		})
	}
}

func TestTolerationsMatchAsInKubernetes(t *testing.T) {
	t.Parallel()
	of := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	tolerations := []corev1.Toleration{
		{Key: "k", Value: "v"}, {Key: "k", Operator: corev1.TolerationOpEqual, Value: "v"}, {Key: "k", Value: "other"}, {Key: "k"}, exists("k"), exists(""), exists("j"),
		{Value: "v"}, {Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}, {Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}, {Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	for _, x := range tolerations {
		if got, want := toleration([]corev1.Toleration{x}, &of) == 0, x.ToleratesTaint(klog.Background(), &of, false); got != want {
			t.Errorf("%+v: tolerated %t, want %t", x, got, want)
		}
	}
}

// TestMarkSetsTaintsOfTheNodeController: one for a Node that is cordoned, and times by
// which Pods have to leave.
func TestMarkSetsTaintsOfTheNodeController(t *testing.T) {
	t.Parallel()
	const repels, out = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	earlier := start.Add(-time.Hour)
	cordon := taint(corev1.TaintNodeUnschedulable, repels, start)
	tests := map[string]struct {
		cordoned bool
		taints   []corev1.Taint
		want     []corev1.Taint // nil if nothing changes
	}{
		"none":                             {false, nil, nil},
		"cordoned":                         {true, nil, []corev1.Taint{cordon}},
		"cordoned, with another":           {true, []corev1.Taint{taint("k", repels)}, []corev1.Taint{taint("k", repels), cordon}},
		"cordoned before":                  {true, []corev1.Taint{taint(corev1.TaintNodeUnschedulable, repels)}, nil},
		"no longer cordoned":               {false, []corev1.Taint{cordon, taint("k", repels)}, []corev1.Taint{taint("k", repels)}},
		"a user's taint of the same key":   {false, []corev1.Taint{taint(corev1.TaintNodeUnschedulable, out, earlier)}, nil},
		"without a time":                   {false, []corev1.Taint{taint("k", out)}, []corev1.Taint{taint("k", out, start)}},
		"with a time":                      {false, []corev1.Taint{taint("k", out, earlier)}, nil},
		"that only repels, without a time": {false, []corev1.Taint{taint("k", repels)}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := node("a", func(n *Node) { n.Taints, n.Unschedulable = tc.taints, tc.cordoned })
			before := fmt.Sprint(tc.taints)
			got, changed := n.Mark(start)
			want := tc.want
			if want == nil {
				want = tc.taints
			}
			if diff := cmp.Diff(want, got); diff != "" || changed != (tc.want != nil) {
				t.Errorf("changed %t, taints (-want +got):\n%s", changed, diff)
			}
			if fmt.Sprint(tc.taints) != before {
				t.Error("it changed its input")
			}
			n.Taints = got
			if again, changed := n.Mark(start.Add(time.Hour)); changed || !cmp.Equal(again, got) {
				t.Errorf("again: changed %t, taints %v", changed, again)
			}
		})
	}
}

func TestEachNodeHasARangeOfPods(t *testing.T) {
	t.Parallel()
	taken := func(ranges ...string) (nodes []Node) {
		for _, r := range ranges {
			nodes = append(nodes, node("a", func(n *Node) { n.PodCIDR = r }))
		}
		return nodes
	}
	tests := map[string]struct {
		subnet string
		nodes  []Node
		want   string
	}{
		"the first":                    {"10.244.0.0/16", nil, "10.244.0.0/24"},
		"the second":                   {"10.244.0.0/16", taken("10.244.0.0/24"), "10.244.1.0/24"},
		"one that is free again":       {"10.244.0.0/16", taken("10.244.0.0/24", "10.244.2.0/24"), "10.244.1.0/24"},
		"of the first of two subnets":  {"10.244.0.0/16,fd00::/48", taken("", "other"), "10.244.0.0/24"},
		"of a subnet with other bits":  {"10.244.7.9/16", nil, "10.244.0.0/24"},
		"over a byte":                  {"10.0.254.0/23", taken("10.0.254.0/24"), "10.0.255.0/24"},
		"into the next byte":           {"10.0.0.0/8", taken255(t), "10.1.0.0/24"},
		"of IPv6":                      {"fd00::/48", taken("fd00::/64"), "fd00:0:0:1::/64"},
		"none is left":                 {"10.244.0.0/24", taken("10.244.0.0/24"), ""},
		"none is left at the very end": {"255.255.255.0/24", taken("255.255.255.0/24"), ""},
		"a subnet that is smaller":     {"10.244.0.0/28", nil, "10.244.0.0/28"},
		"no subnet":                    {"", nil, ""},
		"a subnet that is none":        {"pods", nil, ""},
	}
	for name, tc := range tests {
		if got := PodCIDR(tc.subnet, tc.nodes); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func taken255(t *testing.T) (nodes []Node) {
	t.Helper()
	for i := range 256 {
		nodes = append(nodes, node("a", func(n *Node) { n.PodCIDR = fmt.Sprintf("10.0.%d.0/24", i) }))
	}
	return nodes
}

func TestNodeOfTakesWhatDecisionsNeed(t *testing.T) {
	t.Parallel()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: new(metav1.NewTime(start))},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.0.0/24", Unschedulable: true},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: corev1.ConditionFalse}},
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "a"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Ki"), corev1.ResourcePods: resource.MustParse("7")},
			NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: "v1.36.1"},
		},
	}
	want := Node{
		Name: "a", PodCIDR: "10.244.0.0/24", Unschedulable: true, Leaving: true, Ready: corev1.ConditionFalse, Address: "10.0.0.1",
		Has: Resources{CPU: 1500, Memory: 1024, Pods: 7}, Version: "v1.36.1",
	}
	if diff := cmp.Diff(want, NodeOf(n)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for status, lives := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: true, corev1.ConditionUnknown: false, "": false} {
		if got := (Node{Ready: status}).Lives(); got != lives {
			t.Errorf("a Node that is %q lives: %t", status, got)
		}
	}
	if (Node{Taints: []corev1.Taint{taint("k", corev1.TaintEffectNoSchedule)}}).Evicts() || !(Node{Taints: []corev1.Taint{taint("k", corev1.TaintEffectNoExecute)}}).Evicts() {
		t.Error("Pods have to leave by another effect")
	}
}
