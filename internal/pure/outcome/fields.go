// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

const (
	// maxValue is the number of bytes of a value in a Field.
	maxValue = 120
	// MaxFields is the number of fields of an object that are listed.
	MaxFields = 40
)

// administrative are the fields of metadata that every write changes.
var administrative = []string{"resourceVersion", "generation", "managedFields", "creationTimestamp", "uid", "selfLink"}

// Fields are the fields in which an object differs, except its status and what every
// write changes. Secret values are never among them.
func Fields(from, to runtime.Object) []planv1.Field {
	a, b := both(from, to)
	return differences(a, b, isSecret(from) || isSecret(to))
}

// both are two objects as JSON fields, or nil.
func both(from, to runtime.Object) (a, b map[string]any) {
	a, errA := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	b, errB := runtime.DefaultUnstructuredConverter.ToUnstructured(to)
	if errA != nil || errB != nil {
		return nil, nil
	}
	return a, b
}

// isSecret reports whether an object is a Secret, even if it does not name its kind.
func isSecret(obj runtime.Object) bool {
	_, is := obj.(*corev1.Secret)
	return is || obj.GetObjectKind().GroupVersionKind().Kind == "Secret"
}

// StatusFields are the fields of the status in which an object differs.
func StatusFields(from, to runtime.Object) []planv1.Field {
	a, b := both(from, to)
	var d differ
	d.compare("status", a["status"], b["status"])
	return d.fields
}

// differences are Fields of objects as JSON fields.
func differences(from, to map[string]any, secret bool) []planv1.Field {
	d := differ{secret: secret}
	for _, part := range slices.Sorted(maps.Keys(merge(from, to))) {
		switch {
		case part == "status" || part == "kind" || part == "apiVersion":
		case secret && part != "metadata":
			if !reflect.DeepEqual(from[part], to[part]) {
				d.fields = append(d.fields, planv1.Field{Path: part})
			}
		default:
			d.compare(part, from[part], to[part])
		}
	}
	return d.fields
}

// differ collects fields; those of a Secret without values, because an annotation can
// have a copy of its data.
type differ struct {
	fields []planv1.Field
	secret bool
}

func (d *differ) compare(path string, from, to any) {
	a, isA := from.(map[string]any)
	b, isB := to.(map[string]any)
	switch {
	case len(d.fields) >= MaxFields || reflect.DeepEqual(from, to):
	case isA && isB, isA && to == nil, isB && from == nil:
		for _, name := range slices.Sorted(maps.Keys(merge(a, b))) {
			if path == "metadata" && slices.Contains(administrative, name) {
				continue
			}
			within := differ{secret: d.secret || sanitize.IsSecretField(name)}
			within.compare(path+field(name), a[name], b[name])
			d.add(within.fields)
		}
	case isList(from) && isList(to), isList(from) && to == nil, isList(to) && from == nil:
		d.lists(path, from, to)
	case d.secret:
		d.fields = append(d.fields, planv1.Field{Path: path})
	default:
		d.fields = append(d.fields, planv1.Field{Path: path, From: text(from), To: text(to)})
	}
}

func (d *differ) add(fields []planv1.Field) {
	d.fields = append(d.fields, fields...)
	d.fields = d.fields[:min(len(d.fields), MaxFields)]
}

func isList(value any) bool {
	_, is := value.([]any)
	return is
}

// lists compares lists item by item: by their keys, or by their places if they have
// none.
func (d *differ) lists(path string, from, to any) {
	a, b := items(from), items(to)
	for _, key := range slices.Sorted(maps.Keys(merge(a, b))) {
		d.compare(path+"["+key+"]", a[key], b[key])
	}
}

// items are the items of a list by type or name if each has one of its own, else by
// place.
func items(list any) map[string]any {
	all, _ := list.([]any)
	for _, key := range []string{"type", "name", "path", "key"} {
		by := map[string]any{}
		for _, item := range all {
			if of, is := item.(map[string]any); is {
				if name, is := of[key].(string); is {
					by[name] = item
				}
			}
		}
		if len(by) == len(all) {
			return by
		}
	}
	by := map[string]any{}
	for i, item := range all {
		by[fmt.Sprint(i)] = item
	}
	return by
}

// field is how a path names a field.
func field(name string) string {
	if strings.ContainsAny(name, "./[]") {
		return "[" + name + "]"
	}
	return "." + name
}

// text is a value in one line.
func text(value any) string {
	if value == nil {
		return ""
	}
	s := strings.ReplaceAll(fmt.Sprint(value), "\n", " ")
	if len(s) <= maxValue {
		return s
	}
	end := maxValue
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
