// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/extension/mutation"
)

func TestTakeMakesFieldsWhatIsDesired(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		current, desired string
		paths            []string
		want             string
	}{
		"a field":                        {`{"spec":{"a":1,"b":1}}`, `{"spec":{"a":2,"b":2}}`, []string{"spec.a"}, `[{"op":"add","path":"/spec/a","value":2}]`},
		"several fields":                 {`{"spec":{"a":1,"b":1}}`, `{"spec":{"a":2,"b":2}}`, []string{"spec.b", "spec.a"}, `[{"op":"add","path":"/spec/a","value":2},{"op":"add","path":"/spec/b","value":2}]`},
		"a field that goes":              {`{"spec":{"a":{"b":1,"c":1}}}`, `{"spec":{}}`, []string{"spec.a.b"}, `[{"op":"remove","path":"/spec/a/b"}]`},
		"a field that comes":             {`{"spec":{}}`, `{"spec":{"a":{"b":1,"c":1}}}`, []string{"spec.a.b"}, `[{"op":"add","path":"/spec/a","value":{"b":1}}]`},
		"a field below null":             {`{"spec":{"a":null}}`, `{"spec":{"a":{"b":1}}}`, []string{"spec.a.b"}, `[{"op":"add","path":"/spec/a","value":{"b":1}}]`},
		"a field that neither has":       {`{"spec":{}}`, `{"spec":{}}`, []string{"spec.a.b.c", "spec.d"}, ``},
		"nothing for fields not asked":   {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, []string{"spec.b"}, ``},
		"nothing without paths":          {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, nil, ``},
		"nothing without current object": {``, `{"spec":{"a":2}}`, []string{"spec.a"}, ``},
		"nothing without desired object": {`{"spec":{"a":2}}`, ``, []string{"spec.a"}, ``},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := mutation.Take(runtime.RawExtension{Raw: []byte(tc.current)}, []byte(tc.desired), tc.paths...)
			if string(p.Patch) != tc.want || err != nil {
				t.Errorf("got %s, %v; want %s", p.Patch, err, tc.want)
			}
		})
	}
}

func TestTakeSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		current, desired any
		path, want       string
	}{
		"outside spec":         {[]byte(`{}`), []byte(`{"metadata":{"labels":{"a":"b"}}}`), "metadata.labels", "changes /metadata: a patch may change only spec"},
		"through a string":     {[]byte(`{"spec":{"a":"x"}}`), []byte(`{"spec":{"a":{"b":1}}}`), "spec.a.b", "take spec.a.b: current a is a string and has no fields"},
		"desired from a list":  {[]byte(`{}`), []byte(`{"spec":[]}`), "spec.a", "take spec.a: desired spec is a list and has no fields"},
		"an empty path":        {[]byte(`{}`), []byte(`{}`), "", `path "" has an empty part`},
		"broken current":       {[]byte(`{`), []byte(`{}`), "spec", "decode current object: unexpected end of JSON input"},
		"desired of no object": {clusterv1.Machine{}, 7, "spec", "desired object is not a JSON object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := mutation.Take(tc.current, tc.desired, tc.path)
			if fmt.Sprint(err) != tc.want || p.Patch != nil {
				t.Errorf("got %v %s, want %s", err, p.Patch, tc.want)
			}
		})
	}
}
