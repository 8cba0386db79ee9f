// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// History is what a DaemonSet keeps of its templates.
type History struct {
	Owner     metav1.Object
	Kind      schema.GroupVersionKind
	Template  *corev1.PodTemplateSpec
	Revisions []*appsv1.ControllerRevision // that it controls
	Used      map[string]bool              // names or hashes that Pods have
	Limit     int32
}

// HistoryPlan is the result of Plan. Current is the revision of the template, and
// must be written if Write is true: it is new, or was not the latest.
type HistoryPlan struct {
	Current *appsv1.ControllerRevision
	Write   bool
	Delete  []*appsv1.ControllerRevision
}

// Plan finds the revision of the template, and those that are no longer needed.
func (h History) Plan() HistoryPlan {
	data := h.data()
	all := slices.Clone(h.Revisions)
	slices.SortStableFunc(all, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
	})
	latest := int64(0)
	if len(all) > 0 {
		latest = all[len(all)-1].Revision
	}
	var p HistoryPlan
	for _, r := range all {
		if bytes.Equal(compact(r.Data.Raw), data) {
			p.Current = r.DeepCopy()
		}
	}
	switch {
	case p.Current == nil:
		p.Current, p.Write = h.revision(data, latest+1), true
	case p.Current.Revision < latest:
		p.Current.Revision, p.Write = latest+1, true
	}
	idle := slices.DeleteFunc(all, func(r *appsv1.ControllerRevision) bool {
		return r.Name == p.Current.Name || h.Used[r.Name] || h.Used[r.Labels[appsv1.ControllerRevisionHashLabelKey]]
	})
	p.Delete = beyond(idle, int(h.Limit))
	return p
}

func (h History) revision(data []byte, number int64) *appsv1.ControllerRevision {
	name, hash := unused(h.Owner.GetName(), h.Template, func(name string) bool {
		return slices.ContainsFunc(h.Revisions, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
	})
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Owner.GetNamespace(), Name: name, Annotations: h.Owner.GetAnnotations(),
			Labels:          With(h.Template.Labels, appsv1.ControllerRevisionHashLabelKey, hash),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(h.Owner, h.Kind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// data is the patch that restores a template, as kubectl rollout undo sends it.
func (h History) data() []byte {
	raw, err := json.Marshal(h.Template)
	var template map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &template)
	}
	if err == nil {
		template["$patch"] = "replace"
		raw, err = json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	}
	if err != nil {
		panic(fmt.Sprintf("a template that was read from JSON: %v", err))
	}
	return raw
}

// compact gives JSON the form in which data is.
func compact(raw []byte) []byte {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, _ := json.Marshal(v) // it was JSON
	return out
}
