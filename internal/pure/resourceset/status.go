// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Status is the input of ResourcesApplied.
type Status struct {
	Set *addonsv1.ClusterResourceSet
	// Missing and WrongType are resources that cannot be applied to any Cluster: they do
	// not exist, or are Secrets of another type.
	Missing, WrongType []addonsv1.ResourceRef
	Clusters           []Cluster // the selected Clusters, by name
	Invalid            string    // why the selector cannot be used
	Failed             bool      // the management cluster could not be read or written
}

// Cluster is a selected Cluster.
type Cluster struct {
	Name    string
	Paused  bool
	Binding *addonsv1.ClusterResourceSetBinding // nil if it does not exist yet
}

// maxLines limits the message; the count of the rest follows.
const maxLines = 10

// ResourcesApplied reports whether every resource is applied to every selected Cluster,
// and if not, which is not, where and why.
func ResourcesApplied(s Status) metav1.Condition {
	lines := s.lines()
	reason := addonsv1.ClusterResourceSetResourcesNotAppliedReason
	switch {
	case s.Failed:
		return condition(metav1.ConditionUnknown, addonsv1.ClusterResourceSetResourcesAppliedInternalErrorReason,
			[]string{"Reading or writing objects of the management cluster failed"})
	case len(lines) == 0:
		return condition(metav1.ConditionTrue, addonsv1.ClusterResourceSetResourcesAppliedReason, nil)
	case len(s.WrongType) > 0:
		reason = addonsv1.ClusterResourceSetResourcesAppliedWrongSecretTypeReason
	}
	return condition(metav1.ConditionFalse, reason, lines)
}

func condition(status metav1.ConditionStatus, reason string, lines []string) metav1.Condition {
	message := strings.Join(lines, "\n* ")
	if len(lines) > 1 {
		message = "* " + message
	}
	return conditions.New(addonsv1.ClusterResourceSetResourcesAppliedCondition, status, reason, message)
}

func (s Status) lines() (lines []string) {
	if s.Invalid != "" {
		return []string{"spec.clusterSelector cannot be used: " + shorten(s.Invalid)}
	}
	for _, ref := range s.WrongType {
		lines = append(lines, fmt.Sprintf("Secret %s is not of type %s: create it again with that type", ref.Name, addonsv1.ClusterResourceSetSecretType))
	}
	for _, ref := range s.Missing {
		lines = append(lines, fmt.Sprintf("%s %s does not exist in namespace %s", ref.Kind, ref.Name, s.Set.Namespace))
	}
	var texts []string
	where := map[string][]string{}
	for _, c := range s.Clusters {
		for _, text := range s.of(c) {
			if _, ok := where[text]; !ok {
				texts = append(texts, text)
			}
			where[text] = append(where[text], c.Name)
		}
	}
	for _, text := range texts {
		lines = append(lines, "Cluster "+conditions.Names(where[text])+": "+text)
	}
	if n := len(lines) - maxLines; n > 0 {
		lines = append(lines[:maxLines], "and "+count(n)+" more")
	}
	return lines
}

// of lists what is not applied to a Cluster, in addition to resources that cannot be
// applied to any.
func (s Status) of(c Cluster) (texts []string) {
	switch {
	case c.Binding == nil && c.Paused:
		return []string{"no ClusterResourceSetBinding yet: it is paused"}
	case c.Binding == nil:
		return []string{"waiting for its ClusterResourceSetBinding"}
	}
	entry := Entry(c.Binding.Spec.Bindings, s.Set.Name)
	switch {
	case entry == nil && len(c.Binding.Spec.Bindings) >= MaxSets:
		return []string{fmt.Sprintf("its ClusterResourceSetBinding is full: no more than %d ClusterResourceSets can be applied to one Cluster", MaxSets)}
	case entry == nil:
		return []string{"waiting for its turn"}
	}
	failures := slices.DeleteFunc(Failures(c.Binding), func(f Failure) bool { return f.Set != "" && f.Set != s.Set.Name })
	var waiting []string
	for _, ref := range s.Set.Spec.Resources {
		if slices.Contains(s.Missing, ref) || slices.Contains(s.WrongType, ref) {
			continue
		}
		i := slices.IndexFunc(entry.Resources, func(r addonsv1.ResourceBinding) bool { return r.ResourceRef == ref })
		if i >= 0 && Applied(entry.Resources[i]) {
			continue
		}
		resource := string(ref.Kind) + " " + ref.Name
		if j := slices.IndexFunc(failures, func(f Failure) bool { return f.ResourceRef == ref }); j >= 0 {
			texts = append(texts, resource+" is not applied: "+shorten(failures[j].Message))
			continue
		}
		waiting = append(waiting, resource)
	}
	if len(waiting) == 0 {
		return texts
	}
	text := conditions.Names(waiting) + " not applied yet"
	switch j := slices.IndexFunc(failures, func(f Failure) bool { return f.ResourceRef == addonsv1.ResourceRef{} }); {
	case c.Paused:
		text += ": it is paused"
	case j >= 0:
		text += ": " + shorten(failures[j].Message)
	}
	return append(texts, text)
}

func shorten(text string) string { return sanitize.Line(text, maxMessage) }

func count(n int) string { return strconv.Itoa(n) }
