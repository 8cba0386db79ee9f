// SPDX-License-Identifier: Apache-2.0

// Package resourceset decides what ClusterResourceSets apply to the workload clusters
// that they select: the objects in a Secret or ConfigMap, the content of a Cluster's
// binding, and the status.
package resourceset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Payload is the content of one Secret or ConfigMap.
type Payload struct {
	// Hash changes whenever the data does.
	Hash string
	// Objects are in the order in which they are applied. There are none if there
	// are Problems.
	Objects []*unstructured.Unstructured
	// Problems are the parts of the data that cannot be applied, by key, document,
	// object and field. They never contain a value.
	Problems []string
	// Unnamed say which objects have a metadata.generateName alone. They can be
	// created, and not be applied again: nothing finds them.
	Unnamed []string
}

// Read parses the data of a Secret or ConfigMap: each of its values is any number of
// YAML documents, or of JSON values. A document is an object, a list of objects, or an
// object whose kind ends in List and that has items. A payload with an invalid part is
// not applied at all: the rest may depend on the missing part.
func Read(data map[string][]byte) Payload {
	r := reading{seen: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		r.value(key, data[key])
	}
	if len(r.objects) == 0 && len(r.problems) == 0 {
		r.problems = []string{"it holds no object"}
	}
	p := Payload{Hash: hash(data), Problems: r.problems}
	if len(p.Problems) == 0 {
		slices.SortStableFunc(r.objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
		p.Objects, p.Unnamed = r.objects, r.unnamed
	}
	return p
}

// hash is the hash of all keys and values, each with its length.
func hash(data map[string][]byte) string {
	sum := sha256.New()
	add := func(b []byte) {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		sum.Write(b)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		add([]byte(key))
		add(data[key])
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Kinds that others need, in the order in which they are created, and kinds that can
// break others, which are created after all others.
var (
	first = []string{
		"Namespace", "ResourceQuota", "StorageClass", "CustomResourceDefinition", "ServiceAccount",
		"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret", "Endpoints", "Service",
		"LimitRange", "PriorityClass", "PersistentVolume", "PersistentVolumeClaim",
		"Deployment", "StatefulSet", "CronJob", "PodDisruptionBudget",
	}
	last = []string{
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		"MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding",
	}
)

func rank(obj *unstructured.Unstructured) int {
	if i := slices.Index(first, obj.GetKind()); i >= 0 {
		return i
	}
	return len(first) + slices.Index(last, obj.GetKind()) + 1
}

// maxName limits the length of a name in messages; the input can have any length.
const maxName = 120

// Name names an object as users do.
func Name(obj *unstructured.Unstructured) string {
	name := obj.GetName()
	if name == "" && obj.GetGenerateName() != "" {
		name = obj.GetGenerateName() + "*"
	}
	if ns := obj.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return sanitize.Line(obj.GetKind(), maxName) + " " + sanitize.Line(name, maxName)
}

// reading is a payload that is being parsed.
type reading struct {
	objects  []*unstructured.Unstructured
	seen     map[string]string // where an object was found first
	problems []string
	unnamed  []string
}

func (r *reading) problem(where, format string, args ...any) {
	r.problems = append(r.problems, where+": "+fmt.Sprintf(format, args...))
}

func (r *reading) value(key string, data []byte) {
	documents, broken := documents(data)
	for i, doc := range documents {
		where := fmt.Sprintf("key %s, document %d", key, i+1)
		if len(documents) == 1 {
			where = "key " + key
		}
		r.document(where, doc)
	}
	if broken != "" {
		r.problem("key "+key, "document %d %s", len(documents)+1, broken)
	}
}

func (r *reading) document(where string, v any) {
	switch v := v.(type) {
	case nil: // only comments
	case []any:
		for i, item := range v {
			r.document(fmt.Sprintf("%s, item %d", where, i+1), item)
		}
	case map[string]any:
		if items, ok := list(v); ok {
			r.document(where, items)
			return
		}
		r.object(where, v)
	default:
		r.problem(where, "it is not an object")
	}
}

// object adds an object, without the fields that only the API server sets.
func (r *reading) object(where string, fields map[string]any) {
	obj := &unstructured.Unstructured{Object: fields}
	for _, field := range []string{"apiVersion", "kind"} {
		if s, ok := fields[field].(string); !ok || s == "" {
			r.problem(where, "the object has no %s", field)
			return
		}
	}
	if strings.Count(obj.GetAPIVersion(), "/") > 1 {
		r.problem(where, "apiVersion of %s is not a group and a version", sanitize.Line(obj.GetKind(), maxName))
		return
	}
	metadata, _ := fields["metadata"].(map[string]any)
	prefix, _ := metadata["generateName"].(string)
	name, named := metadata["name"].(string)
	if name == "" && (prefix == "" || !named && metadata["name"] != nil) {
		r.problem(where, "%s has no metadata.name and no metadata.generateName", sanitize.Line(obj.GetKind(), maxName))
		return
	}
	if ns, ok := metadata["namespace"]; ok {
		if _, ok := ns.(string); ns != nil && !ok {
			r.problem(where, "metadata.namespace of %s is not a string", Name(obj))
			return
		}
	}
	for _, field := range []string{"name", "generateName", "namespace"} {
		if value, _ := metadata[field].(string); len(path.IsValidPathSegmentName(value)) > 0 || len(value) > maxName*4 {
			r.problem(where, "metadata.%s of %s cannot be a name", field, Name(obj))
			return
		}
	}
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, field)
	}
	if name == "" {
		r.unnamed = append(r.unnamed, fmt.Sprintf("%s: %s has no metadata.name, by which strategy Reconcile applies it again: set one, or use ApplyOnce", where, Name(obj)))
		r.objects = append(r.objects, obj)
		return
	}
	id := fmt.Sprintf("%q", []string{obj.GroupVersionKind().GroupKind().String(), obj.GetNamespace(), obj.GetName()})
	if before, ok := r.seen[id]; ok {
		r.problem(where, "%s is in %s, too", Name(obj), before)
		return
	}
	r.seen[id] = where
	r.objects = append(r.objects, obj)
}
