// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Daemons is a DaemonSet with its objects.
type Daemons struct {
	Set   *appsv1.DaemonSet
	Nodes []Node
	Pods  []Pod
	Hash  string // of its template
	Now   time.Time
}

// DaemonPlan is the result of Plan.
type DaemonPlan struct {
	Create []*corev1.Pod
	Delete []Pod
	Status appsv1.DaemonSetStatus
	Again  time.Time // when to reconcile again even if nothing changed
}

// place is one Node of a DaemonSet.
type place struct {
	node     string
	old, now *Pod // of an earlier template, and of this one
}

// Plan decides which Pods are created and deleted.
func (d Daemons) Plan() DaemonPlan {
	sample := d.pod("")
	sample.Spec.Affinity = d.Set.Spec.Template.Spec.Affinity
	needs := NeedsOf(sample)
	on := map[string][]*Pod{}
	for i := range d.Pods {
		p := &d.Pods[i]
		if !p.Leaving {
			on[cmp.Or(p.Node, p.Target)] = append(on[cmp.Or(p.Node, p.Target)], p)
		}
	}
	plan := DaemonPlan{Status: appsv1.DaemonSetStatus{ObservedGeneration: d.Set.Generation, CollisionCount: d.Set.Status.CollisionCount}}
	var places []place
	for _, n := range d.Nodes {
		matches := needs.Match(n)
		_, banned := needs.Untolerated(n, corev1.TaintEffectNoExecute)
		_, kept := needs.Untolerated(n, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
		here := on[n.Name]
		slices.SortStableFunc(here, func(a, b *Pod) int { return a.Created.Compare(b.Created) })
		if len(here) > 0 && !(matches && !kept) {
			plan.Status.NumberMisscheduled++
		}
		if !matches || banned || kept && len(here) == 0 {
			for _, p := range here {
				plan.Delete = append(plan.Delete, *p)
			}
			continue
		}
		if !kept {
			plan.Status.DesiredNumberScheduled++
		}
		at, extra := d.sort(n.Name, here)
		plan.Delete = append(plan.Delete, extra...)
		if at.old == nil && at.now == nil && !kept && !n.Leaving {
			plan.Create = append(plan.Create, d.pod(n.Name))
		}
		plan.count(d, at)
		places = append(places, at)
	}
	for i := range d.Pods { // of a Node that was deleted before they were scheduled
		p := &d.Pods[i]
		if !p.Leaving && p.Node == "" && p.Target != "" && !slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.Name == p.Target }) {
			plan.Delete = append(plan.Delete, *p)
		}
	}
	plan.Status.NumberUnavailable = max(0, plan.Status.DesiredNumberScheduled-plan.Status.NumberAvailable)
	if d.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && len(plan.Create)+len(plan.Delete) == 0 {
		d.update(&plan, places)
	}
	return plan
}

// sort separates the Pods of a Node. Those that have ended, and duplicates, are
// extra.
func (d Daemons) sort(node string, here []*Pod) (at place, extra []Pod) {
	at.node = node
	for _, p := range here {
		slot := &at.old
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == d.Hash {
			slot = &at.now
		}
		if p.Ended() || *slot != nil {
			extra = append(extra, *p)
			continue
		}
		*slot = p
	}
	return at, extra
}

func (plan *DaemonPlan) count(d Daemons, at place) {
	s := &plan.Status
	best := at.now
	if best == nil || at.old != nil && !best.Ready {
		best = at.old
	}
	if at.now != nil {
		s.UpdatedNumberScheduled++
	}
	if best == nil {
		return
	}
	s.CurrentNumberScheduled++
	if best.Ready {
		s.NumberReady++
	}
	available, again := best.Available(d.Set.Spec.MinReadySeconds, d.Now)
	if available {
		s.NumberAvailable++
	}
	plan.Again = Sooner(plan.Again, again)
}

// update replaces Pods of an earlier template, as many at a time as may be
// unavailable, or beyond one a Node.
func (d Daemons) update(plan *DaemonPlan, places []place) {
	by := appsv1.RollingUpdateDaemonSet{}
	if d.Set.Spec.UpdateStrategy.RollingUpdate != nil {
		by = *d.Set.Spec.UpdateStrategy.RollingUpdate
	}
	desired := plan.Status.DesiredNumberScheduled
	surge := Share(by.MaxSurge, intstr.FromInt32(0), desired, true)
	room := Share(by.MaxUnavailable, intstr.FromInt32(1), desired, true)
	if surge == 0 {
		room = max(room, 1)
	}
	ready := func(p *Pod) bool {
		ok, _ := p.Available(d.Set.Spec.MinReadySeconds, d.Now)
		return ok
	}
	for _, at := range places {
		if (at.old == nil || !ready(at.old)) && (at.now == nil || !ready(at.now)) {
			room--
		}
		if at.old != nil && at.now != nil {
			surge--
		}
	}
	for _, at := range places {
		switch {
		case at.old == nil:
		case at.now != nil && ready(at.now), at.now == nil && !ready(at.old):
			plan.Delete = append(plan.Delete, *at.old)
		case at.now != nil:
		case surge > 0:
			plan.Create = append(plan.Create, d.pod(at.node))
			surge--
		case room > 0 && Share(by.MaxSurge, intstr.FromInt32(0), desired, true) == 0:
			plan.Delete = append(plan.Delete, *at.old)
			room--
		}
	}
}

// pod is one for a Node.
func (d Daemons) pod(node string) *corev1.Pod {
	t := d.Set.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.GenerateName = d.Set.Namespace, d.Set.Name+"-"
	p.Labels = With(p.Labels, appsv1.ControllerRevisionHashLabelKey, d.Hash)
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d.Set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	for _, t := range []corev1.Taint{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule},
	} {
		if t.Key == corev1.TaintNodeNetworkUnavailable && !p.Spec.HostNetwork {
			continue
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpExists, Effect: t.Effect})
	}
	pin(&p.Spec, node)
	return p
}

// pin restricts a Pod to one Node.
func pin(spec *corev1.PodSpec, node string) {
	a := spec.Affinity
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	field := []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range required.NodeSelectorTerms {
		required.NodeSelectorTerms[i].MatchFields = field
	}
	a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	spec.Affinity = a
}
