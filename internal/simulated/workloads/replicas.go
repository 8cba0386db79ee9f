// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

// claim returns the Pods of a controller: it adopts those without a controller that
// its selector matches, and releases those that it no longer matches.
func (c *Controllers) claim(owner metav1.Object, ref metav1.OwnerReference, s *metav1.LabelSelector) ([]podplan.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err == nil && (s == nil || selector.Empty()) { // it would release each Pod that it creates
		err = errors.New("it selects no Pods or all Pods")
	}
	if err != nil {
		return nil, fmt.Errorf("selector of %s %s: %w", ref.Kind, owner.GetName(), err)
	}
	var out []podplan.Pod
	for _, p := range c.podsOf(owner.GetUID()) {
		if selector.Matches(labels.Set(p.Labels)) {
			out = append(out, p)
		} else if err := c.own(p, func(p *corev1.Pod) { p.OwnerReferences = without(p.OwnerReferences, ref) }); err != nil {
			return nil, err
		}
	}
	if owner.GetDeletionTimestamp() != nil {
		return out, nil
	}
	for _, p := range c.orphans(owner.GetNamespace()) {
		if p.Active() && selector.Matches(labels.Set(p.Labels)) {
			if err := c.own(p, func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, ref) }); err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

func (c *Controllers) own(p podplan.Pod, change func(*corev1.Pod)) error {
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	return modify(c, obj, func(o *corev1.Pod) error {
		if o.UID != p.UID {
			return errUnchanged
		}
		change(o)
		return nil
	})
}

func without(refs []metav1.OwnerReference, ref metav1.OwnerReference) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, r := range refs {
		if r.UID != ref.UID {
			out = append(out, r)
		}
	}
	return out
}

// newPod creates a Pod from a template.
func newPod(namespace string, t *corev1.PodTemplateSpec, ref metav1.OwnerReference) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
	p.Namespace, p.Name, p.GenerateName = namespace, "", ref.Name+"-"
	p.OwnerReferences = []metav1.OwnerReference{ref}
	return p
}

// burst is how many Pods of a set are created at a time, as by a real controller: others
// do not wait for millions.
const burst = 500

func (c *Controllers) replicaSet(key store.Key) (time.Time, error) {
	s := read[appsv1.ReplicaSet](c, key)
	if s == nil {
		return time.Time{}, nil
	}
	ref := *metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	claimed, err := c.claim(s, ref, s.Spec.Selector)
	if err != nil {
		return time.Time{}, err
	}
	var failed error
	if s.DeletionTimestamp == nil {
		create, remove := podplan.Replicas(*s.Spec.Replicas, claimed)
		var made []*corev1.Pod
		for range min(create, burst) {
			made = append(made, newPod(s.Namespace, &s.Spec.Template, ref))
		}
		if failed = c.apply(made, remove); failed == nil && create+len(remove) > 0 {
			return time.Time{}, nil // its Pods trigger another reconcile
		}
	}
	status, again := podplan.SetStatus(s, claimed, failed, c.clock.Now())
	if equality.Semantic.DeepEqual(s.Status, status) {
		return again, quiet(failed)
	}
	return again, modify(c, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}, func(o *appsv1.ReplicaSet) error {
		o.Status = status
		return nil
	})
}

// quiet drops refusals, which the object itself reports.
func quiet(err error) error {
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return nil
	}
	return err
}

// apply creates and deletes Pods until one cannot be.
func (c *Controllers) apply(create []*corev1.Pod, remove []podplan.Pod) error {
	for _, p := range create {
		if err := c.store.Add(p); err != nil {
			return err
		}
	}
	for _, p := range remove {
		if err := c.deletePod(p, nil); err != nil {
			return err
		}
	}
	return nil
}

// deletePod deletes a Pod: with its own grace if none is given, as a controller does.
func (c *Controllers) deletePod(p podplan.Pod, grace *int64) error {
	_, _, err := c.store.Delete(podKind, p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (c *Controllers) deployment(key store.Key) (time.Time, error) {
	d := read[appsv1.Deployment](c, key)
	if d == nil {
		return time.Time{}, nil
	}
	sets := c.setsOf(d)
	current := podplan.Newest(d, sets)
	running := 0
	for _, s := range sets {
		if s != current {
			for _, p := range c.podsOf(s.UID) {
				if !p.Ended() {
					running++
				}
			}
		}
	}
	p := podplan.Rollout{Deployment: d, Sets: sets, Running: running, Now: c.clock.Now()}.Plan()
	if p.Create != nil {
		if err := c.store.Add(p.Create); err != nil && !apierrors.IsAlreadyExists(err) {
			return p.Again, err
		}
	}
	for _, s := range p.Update {
		if err := modify(c, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}, func(o *appsv1.ReplicaSet) error {
			o.Annotations, o.Spec.Replicas, o.Spec.MinReadySeconds = s.Annotations, s.Spec.Replicas, s.Spec.MinReadySeconds
			return nil
		}); err != nil {
			return p.Again, err
		}
	}
	for _, s := range p.Delete {
		if err := c.store.Remove(appsv1.SchemeGroupVersion.WithResource("replicasets"), s.Namespace, s.Name); err != nil {
			return p.Again, err
		}
	}
	if p.Create != nil || len(p.Update) > 0 {
		return p.Again, nil // its sets trigger another reconcile
	}
	if p.Revision == "" && equality.Semantic.DeepEqual(d.Status, p.Status) {
		return p.Again, nil
	}
	return p.Again, modify(c, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}, func(o *appsv1.Deployment) error {
		if p.Revision != "" {
			o.Annotations = podplan.With(o.Annotations, podplan.RevisionAnnotation, p.Revision)
		}
		o.Status = p.Status
		return nil
	})
}
