// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// MaxSets is how many ClusterResourceSets a binding can hold.
const MaxSets = 100

// Selects reports whether a ClusterResourceSet must be applied to a Cluster of its
// namespace. An empty selector selects nothing, and a Cluster that is being deleted is
// never selected.
func Selects(set *addonsv1.ClusterResourceSet, cluster *clusterv1.Cluster) bool {
	if !cluster.DeletionTimestamp.IsZero() || !set.DeletionTimestamp.IsZero() {
		return false
	}
	selector, err := Selector(set)
	return err == nil && selector.Matches(labels.Set(cluster.Labels))
}

// Selector returns the selector of a ClusterResourceSet for Clusters.
func Selector(set *addonsv1.ClusterResourceSet) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.ClusterSelector)
	if err == nil && selector.Empty() {
		return labels.Nothing(), nil
	}
	return selector, err
}

// Entries are the desired entries in the binding of a Cluster, sorted by name: one for
// each ClusterResourceSet that selects the Cluster, and those of ClusterResourceSets
// that did and have applied something. These are retained until the ClusterResourceSet
// is deleted, so that a label that is set again applies nothing twice. A resource that a
// ClusterResourceSet no longer names is omitted.
//
// A binding can hold MaxSets. Entries that no longer select are dropped first; then the
// last by name have to wait.
func Entries(cluster *clusterv1.Cluster, sets []addonsv1.ClusterResourceSet, before []addonsv1.ResourceSetBinding) []addonsv1.ResourceSetBinding {
	var selecting, former []addonsv1.ResourceSetBinding
	for i := range sets {
		set := &sets[i]
		known := Entry(before, set.Name)
		switch {
		case Selects(set, cluster):
			selecting = append(selecting, addonsv1.ResourceSetBinding{ClusterResourceSetName: set.Name, Resources: resources(set, known)})
		case set.DeletionTimestamp.IsZero() && known != nil && slices.ContainsFunc(known.Resources, Applied):
			former = append(former, *known)
		}
	}
	byName := func(a, b addonsv1.ResourceSetBinding) int {
		return strings.Compare(a.ClusterResourceSetName, b.ClusterResourceSetName)
	}
	slices.SortFunc(selecting, byName)
	slices.SortFunc(former, byName)
	all := append(selecting, former...)
	all = all[:min(len(all), MaxSets)]
	slices.SortFunc(all, byName)
	return all
}

func resources(set *addonsv1.ClusterResourceSet, known *addonsv1.ResourceSetBinding) (out []addonsv1.ResourceBinding) {
	for _, ref := range set.Spec.Resources {
		if slices.ContainsFunc(out, func(r addonsv1.ResourceBinding) bool { return r.ResourceRef == ref }) {
			continue // a user listed it twice
		}
		next := addonsv1.ResourceBinding{ResourceRef: ref, Applied: new(false)}
		if known != nil {
			if i := slices.IndexFunc(known.Resources, func(r addonsv1.ResourceBinding) bool { return r.ResourceRef == ref }); i >= 0 {
				next = *known.Resources[i].DeepCopy()
			}
		}
		out = append(out, next)
	}
	return out
}

// Entry returns the entry of a ClusterResourceSet, or nil.
func Entry(entries []addonsv1.ResourceSetBinding, set string) *addonsv1.ResourceSetBinding {
	i := slices.IndexFunc(entries, func(e addonsv1.ResourceSetBinding) bool { return e.ClusterResourceSetName == set })
	if i < 0 {
		return nil
	}
	return &entries[i]
}

// Applied reports whether a resource is applied according to the binding.
func Applied(r addonsv1.ResourceBinding) bool { return ptr.Deref(r.Applied, false) }

// FailuresAnnotation is the annotation in which a ClusterResourceSetBinding reports why
// something is not applied to its Cluster: the API has no field for it.
const FailuresAnnotation = "capstan.dev/not-applied"

// Failure is why a resource is not applied to a Cluster.
type Failure struct {
	Set                  string `json:"clusterResourceSet,omitempty"` // "" means all that select the Cluster
	addonsv1.ResourceRef        // empty means all of the set
	Message              string `json:"message"`
}

const (
	maxFailures = 32 << 10 // bytes of all failures of a Cluster
	maxMessage  = 600      // bytes of the message of one
)

// SetFailures records the resources that are not applied, up to the size limit.
func SetFailures(b *addonsv1.ClusterResourceSetBinding, failures []Failure) {
	slices.SortFunc(failures, func(a, b Failure) int {
		return cmp.Or(strings.Compare(a.Set, b.Set), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	var lines []string
	size := 0
	for _, f := range failures {
		line, err := json.Marshal(f)
		if size += len(line); err != nil || size > maxFailures {
			break
		}
		lines = append(lines, string(line))
	}
	if len(lines) == 0 {
		delete(b.Annotations, FailuresAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, FailuresAnnotation, "["+strings.Join(lines, ",")+"]")
}

// Failures decodes what SetFailures wrote. It returns nil for an annotation that another
// client wrote.
func Failures(b *addonsv1.ClusterResourceSetBinding) (failures []Failure) {
	if json.Unmarshal([]byte(b.Annotations[FailuresAnnotation]), &failures) != nil {
		return nil
	}
	return failures
}

// Joined is the message about the problems of one resource: the first few, and how many
// more there are.
func Joined(problems []string) string {
	const told = 3
	text := strings.Join(problems[:min(told, len(problems))], "; ")
	if n := len(problems) - told; n > 0 {
		text += "; and " + count(n) + " more"
	}
	return shorten(text)
}
