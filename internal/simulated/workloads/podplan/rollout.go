// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Annotations that a rollout of a Deployment keeps.
const (
	RevisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maximumAnnotation  = "deployment.kubernetes.io/max-replicas"
)

// Rollout is a Deployment with its objects.
type Rollout struct {
	Deployment *appsv1.Deployment
	Sets       []*appsv1.ReplicaSet // that it controls, and that are not being deleted
	Running    int                  // Pods of sets with another template, until they are deleted
	Now        time.Time
}

// RolloutPlan is the result of Plan. Sets are complete and as they should be.
type RolloutPlan struct {
	Create   *appsv1.ReplicaSet
	Update   []*appsv1.ReplicaSet
	Delete   []*appsv1.ReplicaSet
	Revision string // of the Deployment; empty if it stays as it is
	Status   appsv1.DeploymentStatus
	Again    time.Time // when to reconcile again even if nothing changed
}

// Plan decides the next step of a rollout.
func (r Rollout) Plan() RolloutPlan {
	d := r.Deployment
	sets := make([]*appsv1.ReplicaSet, 0, len(r.Sets))
	for _, s := range r.Sets {
		sets = append(sets, s.DeepCopy())
	}
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var p RolloutPlan
	current := Newest(d, sets)
	old := slices.DeleteFunc(slices.Clone(sets), func(s *appsv1.ReplicaSet) bool { return s == current })
	made := false
	if current == nil && !d.Spec.Paused && d.DeletionTimestamp == nil {
		current, made = r.set(), true
	}
	if current != nil {
		p.Revision = number(current, old)
		annotate(current, d, p.Revision)
		if d.Annotations[RevisionAnnotation] == p.Revision {
			p.Revision = ""
		}
	}
	all := old
	if current != nil {
		all = append(slices.Clone(old), current)
	}
	switch {
	case d.DeletionTimestamp != nil:
	case d.Spec.Paused:
		spread(all, wanted(d))
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		r.recreate(current, old)
	default:
		r.roll(current, old)
	}
	if made && (d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || *current.Spec.Replicas > 0 || wanted(d) == 0) {
		p.Create = current
	}
	for _, s := range all {
		s.Annotations = With(s.Annotations, desiredAnnotation, strconv.Itoa(int(wanted(d))))
		s.Annotations = With(s.Annotations, maximumAnnotation, strconv.Itoa(int(wanted(d)+surge(d))))
	}
	for _, s := range sets {
		before := r.Sets[slices.IndexFunc(r.Sets, func(o *appsv1.ReplicaSet) bool { return o.UID == s.UID })]
		if (*s.Spec.Replicas > 0 || s == current || *before.Spec.Replicas > 0) && !equality.Semantic.DeepEqual(before, s) {
			p.Update = append(p.Update, s)
		}
	}
	if made && p.Create == nil {
		current, p.Revision = nil, ""
	}
	p.Status, p.Again = r.status(current, old)
	p.Delete = outdated(d, old, p.Status)
	return p
}

// Newest is the oldest of the sets that have the Deployment's template, or else the
// set that was created from it: a template that was stored without defaults differs
// from that of its set, and another set would be created each time.
func Newest(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	for _, s := range sets {
		if equality.Semantic.DeepEqual(withoutHash(&s.Spec.Template), withoutHash(&d.Spec.Template)) {
			return s
		}
	}
	name := d.Name + "-" + Hash(&d.Spec.Template, 0)
	if i := slices.IndexFunc(sets, func(s *appsv1.ReplicaSet) bool { return s.Name == name }); i >= 0 {
		return sets[i]
	}
	return nil
}

func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return t
}

// set is a new one for the Deployment's template, without replicas yet.
func (r Rollout) set() *appsv1.ReplicaSet {
	d := r.Deployment
	name, hash := unused(d.Name, &d.Spec.Template, func(name string) bool {
		return slices.ContainsFunc(r.Sets, func(s *appsv1.ReplicaSet) bool { return s.Name == name })
	})
	template := d.Spec.Template.DeepCopy()
	template.Labels = With(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = With(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: name, Labels: maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), MinReadySeconds: d.Spec.MinReadySeconds, Selector: selector, Template: *template},
	}
}

// unused returns a name that is not taken and ends with a hash of a template.
func unused(of string, template *corev1.PodTemplateSpec, taken func(name string) bool) (name, hash string) {
	for n := int32(0); ; n++ {
		hash = Hash(template, n)
		if name = of + "-" + hash; !taken(name) {
			return name, hash
		}
	}
}

// Hash returns the hash of a template, for suffixes of names and label values.
// Collisions distinguishes templates with the same hash.
func Hash(template *corev1.PodTemplateSpec, collisions int32) string {
	h := fnv.New32a()
	raw, err := json.Marshal(template)
	if err != nil {
		panic(err) // it was read from JSON
	}
	_, _ = h.Write(raw) // never fails
	if collisions > 0 {
		_, _ = fmt.Fprint(h, collisions)
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// number is the revision of the desired set: above all others.
func number(current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) string {
	most := int64(0)
	for _, s := range old {
		most = max(most, revision(s))
	}
	return strconv.FormatInt(max(most+1, revision(current)), 10)
}

func revision(s *appsv1.ReplicaSet) int64 {
	n, _ := strconv.ParseInt(s.Annotations[RevisionAnnotation], 10, 64) // none is 0
	return n
}

// annotate gives the set what it takes over from its Deployment.
func annotate(s *appsv1.ReplicaSet, d *appsv1.Deployment, revision string) {
	own := []string{corev1.LastAppliedConfigAnnotation, RevisionAnnotation, historyAnnotation, desiredAnnotation, maximumAnnotation}
	s.Annotations = maps.Clone(s.Annotations)
	for key, value := range d.Annotations {
		if !slices.Contains(own, key) {
			s.Annotations = With(s.Annotations, key, value)
		}
	}
	if before := s.Annotations[RevisionAnnotation]; before != "" && before != revision {
		history := append(strings.FieldsFunc(s.Annotations[historyAnnotation], func(r rune) bool { return r == ',' }), before)
		s.Annotations = With(s.Annotations, historyAnnotation, strings.Join(history, ","))
	}
	s.Annotations = With(s.Annotations, RevisionAnnotation, revision)
	s.Spec.MinReadySeconds = d.Spec.MinReadySeconds
}

// With is a copy of m with one more entry.
func With(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

func wanted(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// surge is how many Pods may exist beyond the desired number.
func surge(d *appsv1.Deployment) int32 {
	n, _ := bounds(d)
	return n
}

// bounds are how many Pods a rollout may have too many, and too few. Not both are
// zero, or it could not start.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	by := appsv1.RollingUpdateDeployment{}
	if d.Spec.Strategy.RollingUpdate != nil {
		by = *d.Spec.Strategy.RollingUpdate
	}
	surge = Share(by.MaxSurge, intstr.FromString("25%"), wanted(d), true)
	unavailable = min(Share(by.MaxUnavailable, intstr.FromString("25%"), wanted(d), false), wanted(d))
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// Share is a number, or that percentage of all, rounded up or down.
func Share(v *intstr.IntOrString, unset intstr.IntOrString, of int32, up bool) int32 {
	if v == nil {
		v = &unset
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(of), up)
	if err != nil {
		return 0
	}
	return int32(max(0, n))
}

// recreate ends all old Pods before it starts new ones.
func (r Rollout) recreate(current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	idle := r.Running == 0
	for _, s := range old {
		idle = idle && *s.Spec.Replicas == 0
		s.Spec.Replicas = new(int32)
	}
	if idle {
		current.Spec.Replicas = new(wanted(r.Deployment))
	}
}

// roll adds new Pods and removes old ones as far as the bounds allow it.
func (r Rollout) roll(current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	want := wanted(r.Deployment)
	surge, unavailable := bounds(r.Deployment)
	total, available := *current.Spec.Replicas, current.Status.AvailableReplicas
	for _, s := range old {
		total, available = total+*s.Spec.Replicas, available+s.Status.AvailableReplicas
	}
	switch have := *current.Spec.Replicas; {
	case have > want:
		total -= have - want
		current.Spec.Replicas = new(want)
	case have < want:
		more := max(0, min(want+surge-total, want-have))
		total += more
		current.Spec.Replicas = new(have + more)
	}
	least := want - unavailable
	// Unavailable Pods may be deleted immediately; available ones only as far as
	// enough remain.
	spare := total - least - max(0, *current.Spec.Replicas-current.Status.AvailableReplicas)
	for _, s := range old {
		n := max(0, min(*s.Spec.Replicas-s.Status.AvailableReplicas, spare))
		s.Spec.Replicas, spare = new(*s.Spec.Replicas-n), spare-n
	}
	spare = min(spare, available-least)
	for _, s := range old {
		n := max(0, min(*s.Spec.Replicas, spare))
		s.Spec.Replicas, spare = new(*s.Spec.Replicas-n), spare-n
	}
}

// spread applies a change of the desired number while nothing is rolled out: the
// largest set takes it, and others if that does not suffice.
func spread(all []*appsv1.ReplicaSet, want int32) {
	total := int32(0)
	for _, s := range all {
		total += *s.Spec.Replicas
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas) })
	for _, s := range order {
		n := max(0, *s.Spec.Replicas+want-total)
		total += n - *s.Spec.Replicas
		s.Spec.Replicas = new(n)
	}
}

// outdated are the sets that the history has no room for.
func outdated(d *appsv1.Deployment, old []*appsv1.ReplicaSet, s appsv1.DeploymentStatus) []*appsv1.ReplicaSet {
	if d.DeletionTimestamp != nil || !complete(d, s) || d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	var idle []*appsv1.ReplicaSet
	for _, s := range old {
		if *s.Spec.Replicas == 0 && s.Status.Replicas == 0 && s.Status.ObservedGeneration >= s.Generation {
			idle = append(idle, s)
		}
	}
	slices.SortStableFunc(idle, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revision(a), revision(b)) })
	return beyond(idle, int(*d.Spec.RevisionHistoryLimit))
}
