// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

var controllerRevisions = schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}

// revision finds or creates the revision of a template, and deletes those that are
// no longer needed.
func (c *Controllers) revision(h podplan.History) (*appsv1.ControllerRevision, error) {
	h.Revisions = list[appsv1.ControllerRevision](c, controllerRevisions, h.Owner.GetNamespace(), func(e *store.Entry) bool {
		return slices.Contains(e.Owners, h.Owner.GetUID())
	})
	p := h.Plan()
	if p.Write {
		if err := c.store.Ensure(p.Current); err != nil {
			return nil, err
		}
	}
	for _, r := range p.Delete {
		if err := c.store.Remove(appsv1.SchemeGroupVersion.WithResource(controllerRevisions.Resource), r.Namespace, r.Name); err != nil {
			return nil, err
		}
	}
	return p.Current, nil
}

// hashes are those of the templates from which Pods were created.
func hashes(pods []podplan.Pod) map[string]bool {
	out := map[string]bool{}
	for _, p := range pods {
		out[p.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	return out
}

func limit(n *int32) int32 {
	if n == nil {
		return 10
	}
	return *n
}

func (c *Controllers) daemonSet(key store.Key) (time.Time, error) {
	d := read[appsv1.DaemonSet](c, key)
	if d == nil {
		return time.Time{}, nil
	}
	kind := appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	claimed, err := c.claim(d, *metav1.NewControllerRef(d, kind), d.Spec.Selector)
	if err != nil || d.DeletionTimestamp != nil {
		return time.Time{}, err
	}
	current, err := c.revision(podplan.History{
		Owner: d, Kind: kind, Template: &d.Spec.Template, Used: hashes(claimed), Limit: limit(d.Spec.RevisionHistoryLimit),
	})
	if err != nil {
		return time.Time{}, err
	}
	p := podplan.Daemons{
		Set: d, Nodes: c.nodesByName(), Pods: claimed, Hash: current.Labels[appsv1.ControllerRevisionHashLabelKey], Now: c.clock.Now(),
	}.Plan()
	if err := c.apply(p.Create, p.Delete); err != nil {
		return p.Again, err
	}
	if len(p.Create)+len(p.Delete) > 0 || equality.Semantic.DeepEqual(d.Status, p.Status) {
		return p.Again, nil // its Pods trigger another reconcile
	}
	return p.Again, modify(c, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}, func(o *appsv1.DaemonSet) error {
		o.Status = p.Status
		return nil
	})
}
