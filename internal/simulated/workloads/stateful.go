// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/plan"
)

func (c *Controllers) statefulSet(key store.Key) (time.Time, error) {
	s := read[appsv1.StatefulSet](c, key)
	if s == nil {
		return time.Time{}, nil
	}
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	claimed, err := c.claim(s, *metav1.NewControllerRef(s, kind), s.Spec.Selector)
	if err != nil {
		return time.Time{}, err
	}
	used := hashes(claimed)
	used[s.Status.CurrentRevision] = true
	update, err := c.revision(plan.History{Owner: s, Kind: kind, Template: &s.Spec.Template, Used: used, Limit: limit(s.Spec.RevisionHistoryLimit)})
	if err != nil {
		return time.Time{}, err
	}
	p := plan.Stateful{Set: s, Pods: claimed, Update: update.Name, Old: c.templateOf(s.Namespace, s.Status.CurrentRevision), Now: c.clock.Now()}.Plan()
	for _, claim := range p.Claims {
		if err := c.store.Add(claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return p.Again, err
		}
	}
	if err := c.apply(p.Create, p.Delete); err != nil {
		return p.Again, err
	}
	if len(p.Create)+len(p.Delete) > 0 && s.Status.UpdateRevision == update.Name || equality.Semantic.DeepEqual(s.Status, p.Status) {
		return p.Again, nil // its Pods trigger another reconcile
	}
	return p.Again, modify(c, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}, func(o *appsv1.StatefulSet) error {
		o.Status = p.Status
		return nil
	})
}

// templateOf is the template that a revision keeps; nil if there is none.
func (c *Controllers) templateOf(namespace, revision string) *corev1.PodTemplateSpec {
	r := read[appsv1.ControllerRevision](c, store.Key{Resource: controllerRevisions, Namespace: namespace, Name: revision})
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if r == nil || json.Unmarshal(r.Data.Raw, &data) != nil {
		return nil
	}
	return data.Spec.Template
}
