// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changed reports whether anything but status differs, and which fields of status
// do. It compares the values: most reconciles change nothing or a status that is
// not written yet, and the JSON of both objects costs many times as much.
func changed(before, after client.Object) (rest bool, status []string) {
	compare(fieldsOf(before), fieldsOf(after), func(name string, was, is any) {
		if name != "status" {
			rest = true
			return
		}
		compare(fieldsOf(was), fieldsOf(is), func(name string, _, _ any) { status = append(status, name) })
	})
	return rest, status
}

// compare calls differs for each field that is not the same in both. What is the
// very same, as most is, Go finds several times sooner.
func compare(before, after map[string]any, differs func(name string, was, is any)) {
	for name, is := range after {
		if was := before[name]; !reflect.DeepEqual(was, is) && !equality.Semantic.DeepEqual(was, is) {
			differs(name, was, is)
		}
	}
	for name, was := range before {
		if _, ok := after[name]; !ok {
			differs(name, was, nil)
		}
	}
}

// fieldsOf are the fields of an object, or of its status, by their names in
// JSON. What is neither a struct nor a map has none.
func fieldsOf(obj any) map[string]any {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return o.Object
	case map[string]any:
		return o
	}
	v := reflect.Indirect(reflect.ValueOf(obj))
	if v.Kind() != reflect.Struct {
		return nil
	}
	fields := make(map[string]any, v.NumField())
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[cmp.Or(name, v.Type().Field(i).Name)] = v.Field(i).Interface()
	}
	return fields
}

// statusAlone is an object with nothing in it but its status.
func statusAlone(obj client.Object) any {
	return map[string]any{"status": fieldsOf(obj)["status"]}
}

// difference is the merge patch that converts before to after.
func difference(before, after any) (map[string]any, error) {
	was, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, err
	}
	diff := map[string]any{}
	return diff, json.Unmarshal(raw, &diff)
}
