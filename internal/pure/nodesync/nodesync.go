// SPDX-License-Identifier: Apache-2.0

// Package nodesync decides which labels, annotations and taints of a Machine are set on
// its Node.
//
// Labels and annotations of certain domains, and taints, are copied from Machine to
// Node. The copied keys are recorded in annotations of the Node, so that a key that is
// removed from the Machine is removed from the Node too, and those of other clients
// stay.
package nodesync

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Taints that only Cluster API sets and removes.
var (
	// Uninitialized keeps Pods off a Node that does not have its labels yet.
	Uninitialized = corev1.Taint{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}
	// OutdatedRevision steers Pods away from Nodes that a rollout will remove.
	OutdatedRevision = corev1.Taint{Key: "node.cluster.x-k8s.io/outdated-revision", Effect: corev1.TaintEffectPreferNoSchedule}
)

// Want is the desired state of a Node from its Machine.
type Want struct {
	// Machine has no name if it represents the template of a MachinePool for its Nodes.
	Machine *clusterv1.Machine
	// Interruptible says that the infrastructure may terminate the machine.
	Interruptible bool
	// Outdated says whether a rollout will replace the Machine.
	Outdated bool
	// Additional selects what is copied to the Node in addition to the default.
	Additional Additional
}

// Apply sets the desired state on node and reports whether it changed anything.
func Apply(node *corev1.Node, w Want) bool {
	initialized := has(node.Annotations, clusterv1.LabelsFromMachineAnnotation)
	labels, annotations := wantedLabels(w), managed(w.Machine.Annotations, managedAnnotation, w.Additional.Annotations)
	newLabels := replace(node.Labels, labels, tracked(node, clusterv1.LabelsFromMachineAnnotation))
	newAnnotations := replace(node.Annotations, annotations, append(tracked(node, clusterv1.AnnotationsFromMachineAnnotation), owned...))
	maps.Copy(newAnnotations, identity(w.Machine))
	newAnnotations[clusterv1.LabelsFromMachineAnnotation] = joined(labels)
	newAnnotations[clusterv1.AnnotationsFromMachineAnnotation] = joined(annotations)
	newTaints, note, noted := taints(node, w, initialized)
	if noted {
		newAnnotations[clusterv1.TaintsFromMachineAnnotation] = note
	}
	if maps.Equal(newLabels, node.Labels) && maps.Equal(newAnnotations, node.Annotations) && sameTaints(newTaints, node.Spec.Taints) {
		return false
	}
	node.Labels, node.Annotations, node.Spec.Taints = newLabels, newAnnotations, newTaints
	return true
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(a, b corev1.Taint) bool {
		return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
	})
}

func wantedLabels(w Want) map[string]string {
	labels := managed(w.Machine.Labels, ManagedLabel, w.Additional.Labels)
	if w.Interruptible {
		labels[clusterv1.InterruptibleLabel] = ""
	}
	return labels
}

// owned are the annotations of a Machine with an owner.
var owned = []string{clusterv1.OwnerKindAnnotation, clusterv1.OwnerNameAnnotation}

// identity are the annotations that identify the Machine of a Node.
func identity(m *clusterv1.Machine) map[string]string {
	id := map[string]string{
		clusterv1.ClusterNameAnnotation:      m.Spec.ClusterName,
		clusterv1.ClusterNamespaceAnnotation: m.Namespace,
	}
	if m.Name != "" {
		id[clusterv1.MachineAnnotation] = m.Name
	}
	if o := metav1.GetControllerOfNoCopy(m); o != nil {
		id[clusterv1.OwnerKindAnnotation], id[clusterv1.OwnerNameAnnotation] = o.Kind, o.Name
	}
	return id
}

// ManagedLabel reports whether a label is copied from Machine to Node.
func ManagedLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == clusterv1.NodeRoleLabelPrefix ||
		within(domain, clusterv1.NodeRestrictionLabelDomain) || within(domain, clusterv1.ManagedNodeLabelDomain)
}

func managedAnnotation(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return within(domain, clusterv1.ManagedNodeAnnotationDomain)
}

// within reports whether a domain is parent or a subdomain of it.
func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

func managed(all map[string]string, is func(string) bool, more Patterns) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if is(k) || more.Match(k) {
			out[k] = v
		}
	}
	return out
}

// tracked lists the keys that an annotation of the Node records.
func tracked(node *corev1.Node, annotation string) []string {
	return strings.FieldsFunc(node.Annotations[annotation], func(r rune) bool { return r == ',' })
}

// replace returns have without the keys in old, and with all of want.
func replace(have, want map[string]string, old []string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for _, k := range old {
		delete(out, k)
	}
	maps.Copy(out, want)
	return out
}

func joined(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ",") }

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

// taints returns the taints of the Node, and the record of those that follow the Machine
// permanently. There is no record until there is such a taint. A taint whose propagation
// changes to OnInitialization stays: after initialization it belongs to the Node.
func taints(node *corev1.Node, w Want, initialized bool) (out []corev1.Taint, note string, noted bool) {
	out = slices.Clone(node.Spec.Taints)
	var keys, all []string
	for _, t := range w.Machine.Spec.Taints {
		taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}
		all = append(all, id(taint))
		if t.Propagation == clusterv1.MachineTaintPropagationAlways {
			keys = append(keys, id(taint))
		} else if initialized {
			continue
		}
		out = set(out, taint)
	}
	for _, old := range tracked(node, clusterv1.TaintsFromMachineAnnotation) {
		if !slices.Contains(all, old) {
			out = slices.DeleteFunc(out, func(t corev1.Taint) bool { return id(t) == old })
		}
	}
	out = unset(out, Uninitialized)
	if w.Outdated {
		out = set(out, OutdatedRevision)
	} else {
		out = unset(out, OutdatedRevision)
	}
	slices.Sort(keys)
	return out, strings.Join(keys, ","), len(keys) > 0 || has(node.Annotations, clusterv1.TaintsFromMachineAnnotation)
}

// id identifies taints as Kubernetes does.
func id(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

func set(all []corev1.Taint, t corev1.Taint) []corev1.Taint {
	at := slices.IndexFunc(all, func(have corev1.Taint) bool { return id(have) == id(t) })
	if at < 0 {
		return append(all, t)
	}
	all[at].Value = t.Value
	return all
}

func unset(all []corev1.Taint, t corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(all, func(have corev1.Taint) bool { return id(have) == id(t) })
}

// Additional selects labels and annotations that go from Machine to Node as those of
// our domains do. The zero value selects none.
type Additional struct{ Labels, Annotations Patterns }

// Patterns select keys that one of them matches, anywhere unless it is anchored. It is
// the value of a flag.
type Patterns []*regexp.Regexp

// Match reports whether a pattern matches a key.
func (p Patterns) Match(key string) bool {
	return slices.ContainsFunc(p, func(r *regexp.Regexp) bool { return r.MatchString(key) })
}

// Set implements pflag.Value: it adds patterns, with commas between.
func (p *Patterns) Set(text string) error {
	patterns, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil && !errors.Is(err, io.EOF) { // of an empty text
		return err
	}
	for _, pattern := range patterns {
		r, err := regexp.Compile(pattern)
		if err != nil {
			return fmt.Errorf("%w: give regular expressions, with commas between", err)
		}
		*p = append(*p, r)
	}
	return nil
}

// String implements pflag.Value: it is all patterns as Set reads them.
func (p *Patterns) String() string {
	var all []string
	for _, r := range *p {
		all = append(all, r.String())
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	_ = w.Write(all) // a Builder never fails
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}

// Type implements pflag.Value.
func (*Patterns) Type() string { return "regexp,..." }
