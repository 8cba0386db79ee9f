// SPDX-License-Identifier: Apache-2.0

package listing

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// column is one column of a kind's table.
type column struct {
	name string
	wide bool // shown with -o wide only
	cell func(o object) any
}

// object is the input of a cell.
type object struct {
	content map[string]any
	now     time.Time
}

// Table shows objects of a kind as of now.
func Table(k *kinds.Kind, objs []*unstructured.Unstructured, now time.Time) (*metav1.Table, error) {
	t := &metav1.Table{}
	if k.Custom == nil {
		fillTable(t, columnsOf(k), objs, now)
	} else {
		var err error
		if t, err = k.Custom.Table(objs...); err != nil {
			return nil, err
		}
	}
	t.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}
	if t.Rows == nil {
		t.Rows = []metav1.TableRow{}
	}
	for i := range t.Rows {
		t.Rows[i].Object = runtime.RawExtension{}
	}
	return t, nil
}

func fillTable(t *metav1.Table, columns []column, objs []*unstructured.Unstructured, now time.Time) {
	t.Rows = make([]metav1.TableRow, len(objs))
	for _, c := range columns {
		def := metav1.TableColumnDefinition{Name: c.name, Type: "string"}
		if c.name == "Name" {
			def.Format = "name"
		}
		if c.wide {
			def.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, def)
		for i, u := range objs {
			t.Rows[i].Cells = append(t.Rows[i].Cells, c.cell(object{content: u.Object, now: now}))
		}
	}
}

func columnsOf(k *kinds.Kind) []column {
	if cs, ok := columns[k.Resource]; ok {
		return cs
	}
	return []column{name, age}
}

var (
	name = column{name: "Name", cell: func(o object) any { return o.text("metadata", "name") }}
	age  = column{name: "Age", cell: func(o object) any { return o.since("metadata", "creationTimestamp") }}
)

// text is a string at a path, or empty.
func (o object) text(path ...string) string {
	v, _, _ := unstructured.NestedString(o.content, path...)
	return v
}

// number is an integer at a path, or 0.
func (o object) number(path ...string) int64 {
	v, _, _ := unstructured.NestedInt64(o.content, path...)
	return v
}

// list is a list of objects at a path, or nil.
func (o object) list(path ...string) []object {
	items, _, _ := unstructured.NestedFieldNoCopy(o.content, path...)
	all, _ := items.([]any)
	var list []object
	for _, item := range all {
		if m, ok := item.(map[string]any); ok {
			list = append(list, object{content: m, now: o.now})
		}
	}
	return list
}

// texts is a list of strings at a path, or nil.
func (o object) texts(path ...string) []string {
	v, _, _ := unstructured.NestedStringSlice(o.content, path...)
	return v
}

// keys counts what a map at a path holds.
func (o object) keys(path ...string) int {
	v, _, _ := unstructured.NestedFieldNoCopy(o.content, path...)
	m, _ := v.(map[string]any)
	return len(m)
}

// since is how long ago the time at a path is.
func (o object) since(path ...string) string {
	at, err := time.Parse(time.RFC3339, o.text(path...))
	if err != nil {
		return "<unknown>"
	}
	return duration.HumanDuration(o.now.Sub(at))
}

// at creates a column of a string at a path; none is what is shown without it.
func at(title, none string, path ...string) column {
	return column{name: title, cell: func(o object) any {
		if v := o.text(path...); v != "" {
			return v
		}
		return none
	}}
}

// count creates a column of a number at a path.
func count(title string, path ...string) column {
	return column{name: title, cell: func(o object) any { return o.number(path...) }}
}

// wide marks a column that is shown with -o wide only.
func wide(c column) column {
	c.wide = true
	return c
}
