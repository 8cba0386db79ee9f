// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stateful is a StatefulSet with its objects.
type Stateful struct {
	Set    *appsv1.StatefulSet
	Pods   []Pod
	Update string                  // the name of the revision of its template
	Old    *corev1.PodTemplateSpec // that of status.currentRevision; nil if its revision no longer exists
	Now    time.Time
}

// StatefulPlan is the result of Plan.
type StatefulPlan struct {
	Create []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim // of those Pods; some may exist
	Delete []Pod
	Status appsv1.StatefulSetStatus
	Again  time.Time // when to reconcile again even if nothing changed
}

// Ordinal is the number at the end of a Pod's name; -1 if it is none of the
// set.
func Ordinal(set, pod string) int {
	text, ok := strings.CutPrefix(pod, set+"-")
	n, err := strconv.ParseUint(text, 10, 31)
	if !ok || err != nil {
		return -1
	}
	return int(n)
}

func (s Stateful) bounds() (first, end int) {
	if s.Set.Spec.Ordinals != nil {
		first = int(s.Set.Spec.Ordinals.Start)
	}
	replicas := int32(1)
	if s.Set.Spec.Replicas != nil {
		replicas = *s.Set.Spec.Replicas
	}
	return first, first + int(replicas)
}

// Plan decides which Pods are created and deleted: one after another, each once the
// previous one is available, unless the set manages them in parallel.
func (s Stateful) Plan() StatefulPlan {
	p := StatefulPlan{Status: s.status()}
	count := Count(s.Pods, s.Set.Spec.MinReadySeconds, s.Now)
	p.Status.ReadyReplicas, p.Status.AvailableReplicas, p.Again = count.Ready, count.Available, count.Again
	if s.Set.DeletionTimestamp == nil && s.scale(&p) {
		s.replace(&p)
	}
	return p
}

func (s Stateful) by() map[int]Pod {
	out := map[int]Pod{}
	for _, p := range s.Pods {
		if n := Ordinal(s.Set.Name, p.Name); n >= 0 {
			out[n] = p
		}
	}
	return out
}

func (s Stateful) available(p Pod) bool {
	ok, _ := p.Available(s.Set.Spec.MinReadySeconds, s.Now)
	return ok && !p.Leaving
}

// scale creates the missing Pods, and deletes those beyond. It reports whether the
// set is complete.
func (s Stateful) scale(p *StatefulPlan) bool {
	first, end := s.bounds()
	by, parallel, whole := s.by(), s.Set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement, true
	for n := first; n < end; n++ {
		pod, ok := by[n]
		switch {
		case !ok:
			s.make(p, n)
		case pod.Ended() && !pod.Leaving:
			p.Delete = append(p.Delete, pod)
		case s.available(pod):
			continue
		}
		whole = false
		if !parallel {
			return false
		}
	}
	var beyond []int
	for n := range by {
		if n < first || n >= end {
			beyond = append(beyond, n)
		}
	}
	slices.SortFunc(beyond, func(a, b int) int { return cmp.Compare(b, a) })
	for _, n := range beyond {
		whole = false
		if !by[n].Leaving {
			p.Delete = append(p.Delete, by[n])
		}
		if !parallel {
			break
		}
	}
	return whole
}

// replace deletes the last Pod of another revision, if all after it are of the new
// one and available. The next reconcile creates it again.
func (s Stateful) replace(p *StatefulPlan) {
	if s.Set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	_, end := s.bounds()
	by := s.by()
	for n := end - 1; n >= s.partition(); n-- {
		if by[n].Labels[appsv1.ControllerRevisionHashLabelKey] != s.Update {
			p.Delete = append(p.Delete, by[n])
			return
		}
	}
}

// partition is the first ordinal that gets the new revision.
func (s Stateful) partition() int {
	first, _ := s.bounds()
	if by := s.Set.Spec.UpdateStrategy.RollingUpdate; by != nil && by.Partition != nil {
		return first + int(*by.Partition)
	}
	return first
}

// make creates a Pod. One below the partition is of the revision that the set had
// before.
func (s Stateful) make(p *StatefulPlan, n int) {
	t, revision := &s.Set.Spec.Template, s.Update
	if was := s.Set.Status.CurrentRevision; s.Old != nil && was != "" && n < s.partition() {
		t, revision = s.Old, was
	}
	pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	pod.Namespace, pod.Name = s.Set.Namespace, fmt.Sprintf("%s-%d", s.Set.Name, n)
	pod.Labels = With(pod.Labels, appsv1.ControllerRevisionHashLabelKey, revision)
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(n)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.Set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, s.Set.Spec.ServiceName
	for _, c := range s.Set.Spec.VolumeClaimTemplates {
		claim := c.DeepCopy()
		claim.Namespace, claim.Name = pod.Namespace, c.Name+"-"+pod.Name
		for key, value := range s.Set.Spec.Selector.MatchLabels {
			claim.Labels = With(claim.Labels, key, value)
		}
		p.Claims = append(p.Claims, claim)
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == c.Name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	p.Create = append(p.Create, pod)
}

func (s Stateful) status() appsv1.StatefulSetStatus {
	out := appsv1.StatefulSetStatus{
		ObservedGeneration: s.Set.Generation, CurrentRevision: cmp.Or(s.Set.Status.CurrentRevision, s.Update), UpdateRevision: s.Update,
		CollisionCount: s.Set.Status.CollisionCount,
	}
	first, end := s.bounds()
	updated := 0
	for n, p := range s.by() {
		out.Replicas++
		revision := p.Labels[appsv1.ControllerRevisionHashLabelKey]
		if revision == out.CurrentRevision && !p.Leaving {
			out.CurrentReplicas++
		}
		if revision == s.Update && !p.Leaving {
			out.UpdatedReplicas++
			if n >= first && n < end && s.available(p) {
				updated++
			}
		}
	}
	if updated == end-first {
		out.CurrentRevision, out.CurrentReplicas = s.Update, out.UpdatedReplicas
	}
	return out
}
