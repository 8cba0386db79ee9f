// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Fits lists why a Node is not suitable for an unbound Pod: it is the only Node, so the
// Pod waits until either changes.
func Fits(pod *corev1.Pod, node *corev1.Node) []Problem {
	var found []Problem
	no := func(field, detail string, args ...any) {
		found = append(found, Problem{field, fmt.Sprintf(detail, args...)})
	}
	if n := pod.Spec.SchedulerName; n != "" && n != corev1.DefaultSchedulerName {
		no("spec.schedulerName", "a plane has no scheduler %q: leave it out", n)
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		no("spec.schedulingGates", "the Pod waits until %q is removed", pod.Spec.SchedulingGates[0].Name)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		if got, ok := node.Labels[key]; !ok || got != value {
			no("spec.nodeSelector", "node %s has no label %s=%s: set the label, or leave the selector out", node.Name, key, value)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if !matchesAny(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, node) {
			no("spec.affinity.nodeAffinity", "node %s has none of the required labels: set them, or leave the affinity out", node.Name)
		}
	}
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append([]corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}, taints...)
	}
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(pod.Spec.Tolerations, taint) {
			no("spec.tolerations", "node %s has the taint %s: remove it, or tolerate it", node.Name, taint.ToString())
		}
	}
	return found
}

func matchesAny(terms []corev1.NodeSelectorTerm, node *corev1.Node) bool {
	return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return len(term.MatchExpressions)+len(term.MatchFields) > 0 && matches(term, node)
	})
}

func matches(term corev1.NodeSelectorTerm, node *corev1.Node) bool {
	for _, e := range term.MatchExpressions {
		if !holds(e, node.Labels) {
			return false
		}
	}
	for _, e := range term.MatchFields {
		if e.Key != "metadata.name" || !holds(e, map[string]string{e.Key: node.Name}) {
			return false
		}
	}
	return true
}

// holds reports whether a requirement matches; one with an unknown operator does not.
func holds(e corev1.NodeSelectorRequirement, of map[string]string) bool {
	value, there := of[e.Key]
	among := slices.Contains(e.Values, value)
	switch e.Operator {
	case corev1.NodeSelectorOpIn:
		return there && among
	case corev1.NodeSelectorOpNotIn:
		return !there || !among
	case corev1.NodeSelectorOpExists:
		return there
	case corev1.NodeSelectorOpDoesNotExist:
		return !there
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			return false
		}
		got, err := strconv.ParseInt(value, 10, 64)
		than, thanErr := strconv.ParseInt(e.Values[0], 10, 64)
		if err != nil || thanErr != nil {
			return false
		}
		return e.Operator == corev1.NodeSelectorOpGt && got > than || e.Operator == corev1.NodeSelectorOpLt && got < than
	}
	return false
}

func tolerated(by []corev1.Toleration, taint corev1.Taint) bool {
	for _, t := range by {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			if t.Key != "" && t.Value == taint.Value {
				return true
			}
		}
	}
	return false
}

// NodeLabels are the labels of each Node of a plane. Providers may require a Node of the
// control plane, which the Node of a single-node management cluster is.
func NodeLabels(name, os, arch string) labels.Set {
	return labels.Set{
		corev1.LabelHostname: name, corev1.LabelOSStable: os, corev1.LabelArchStable: arch,
		"node-role.kubernetes.io/control-plane": "",
	}
}
