// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Texts from a workload cluster end up in conditions, events and logs of the
// management cluster, and on terminals.
const (
	maxName    = 253      // bytes of a name
	maxWords   = 4 << 10  // bytes of one text of a status
	maxRefusal = 64 << 10 // bytes of an error response
)

// clean sanitizes every string to which v refers.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(sanitize.Line(v.String(), maxWords))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			clean(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			clean(v.Field(i))
		}
	}
}

// cleanRefusal sanitizes the texts of an error response before it is converted to
// an error.
func cleanRefusal(resp *http.Response) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = resp.Body.Close() // the rest is not needed
	var status metav1.Status
	switch {
	case err != nil:
		body = []byte(sanitize.Error(err, maxError).Error())
		resp.Header.Set("Content-Type", "text/plain")
	case json.Unmarshal(body, &status) == nil && status.Kind == "Status":
		clean(reflect.ValueOf(&status))
		if body, err = json.Marshal(status); err != nil {
			body = nil
		}
	default:
		body = []byte(sanitize.Line(string(body), maxWords))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// named refuses objects with names that no API server creates: names are copied
// into references and messages unchanged.
func named(obj runtime.Object) error {
	if o, ok := obj.(client.Object); ok && (!plainName(o.GetName()) || !plainName(o.GetNamespace())) {
		return fmt.Errorf("its answer holds a %T with an impossible name", obj)
	}
	return nil
}

func plainName(name string) bool { return sanitize.Line(name, maxName) == name }
