// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func TestDecodeRefusesOtherKinds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ body, want string }{
		"nothing":                  {"", "must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		"no object":                {"[]", "the object provided is unrecognized (must be of type ConfigMap)"},
		"binary data":              {"\x00\x01", "(0001)"},
		"a long text":              {`{"a": "` + strings.Repeat("x", 100) + `", `, `({"a": "xxxxxxxxxxxxxxxxxxxxxxx ...)`},
		"another kind":             {`{"apiVersion": "v1", "kind": "Secret"}`, `Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion`},
		"another version":          {`{"apiVersion": "apps/v1", "kind": "Deployment"}`, `the API version in the data (apps/v1) does not match the expected API version (v1)`},
		"a kind that is not known": {`{"apiVersion": "v1", "kind": "Thing"}`, `Thing in version "v1" cannot be handled as a ConfigMap`},
		"a field of another type":  {`{"apiVersion": "v1", "kind": "ConfigMap", "data": 7}`, `ConfigMap in version "v1" cannot be handled as a ConfigMap`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, _, err := objects.Decode(configMapKind, []byte(tc.body), "")
			refused(t, err, metav1.StatusReasonBadRequest, tc.want)
			if u != nil {
				t.Errorf("got %v with the error", u)
			}
		})
	}
}

func TestDecodeReadsEachForm(t *testing.T) {
	t.Parallel()
	c := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "b"}}
	binary, err := runtime.Encode(protobuf.NewSerializer(kinds.Scheme(), kinds.Scheme()), c)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"JSON": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"b"}}`, "YAML": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n",
		"protobuf": string(binary), "no kind": `{"metadata":{"name":"c"},"data":{"a":"b"}}`,
	} {
		u, warnings, err := objects.Decode(configMapKind, []byte(body), metav1.FieldValidationStrict)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", name, err, warnings)
			continue
		}
		if u.GetName() != "c" || u.GroupVersionKind() != configMapKind || at(u, "data.a") != "b" {
			t.Errorf("%s: got %v", name, u.Object)
		}
	}
}

func TestUnknownFieldsAreReported(t *testing.T) {
	t.Parallel()
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","bogus":1},"data":{"a":"b","a":"c"}}`
	found := []string{`unknown field "metadata.bogus"`, `duplicate field "data.a"`}
	for validation, want := range map[string][]string{metav1.FieldValidationWarn: found, "": found, metav1.FieldValidationIgnore: nil} {
		u, warnings, err := objects.Decode(configMapKind, []byte(body), validation)
		if err != nil || at(u, "metadata.bogus") != nil || at(u, "data.a") != "c" {
			t.Errorf("%q: got %v, error %v", validation, u, err)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(warnings, "\n"), w) {
				t.Errorf("%q: got warnings %q, want %q", validation, warnings, w)
			}
		}
		if len(warnings) != len(want) {
			t.Errorf("%q: got warnings %q", validation, warnings)
		}
	}
	_, _, err := objects.Decode(configMapKind, []byte(body), metav1.FieldValidationStrict)
	for _, w := range found {
		refused(t, err, metav1.StatusReasonBadRequest, w)
	}
}

func TestDeleteOptionsAreReadInAnyGroup(t *testing.T) {
	t.Parallel()
	want := metav1.DeleteOptions{GracePeriodSeconds: new(int64(7)), PropagationPolicy: new(foreground)}
	const fields = `"gracePeriodSeconds": 7, "propagationPolicy": "Foreground"}`
	for name, body := range map[string]string{
		"its own": `{"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", ` + fields, "another": `{"apiVersion": "apps/v1", "kind": "DeleteOptions", ` + fields,
		"none": `{` + fields, "YAML": "gracePeriodSeconds: 7\npropagationPolicy: Foreground\n",
	} {
		var got metav1.DeleteOptions
		err := objects.DecodeOptions([]byte(body), &got)
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	err := objects.DecodeOptions([]byte(`{"gracePeriodSeconds": "x"}`), &metav1.DeleteOptions{})
	refused(t, err, metav1.StatusReasonBadRequest, "could not read DeleteOptions")
}

func TestNormalizeDropsWhatAKindDoesNotHave(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := object(t, podText)
	set(t, "x", "spec.bogus")(u)
	k := y.kind(u)
	got, warnings, err := objects.Normalize(k, u, metav1.FieldValidationWarn)
	if err != nil || at(got, "spec.bogus") != nil || len(warnings) != 1 {
		t.Errorf("got %v, warnings %q, error %v", got, warnings, err)
	}
	_, _, err = objects.Normalize(k, u, metav1.FieldValidationStrict)
	refused(t, err, metav1.StatusReasonBadRequest, `unknown field "spec.bogus"`)
	if _, _, err := y.store.FromTyped(&clusterv1.Machine{}); err == nil {
		t.Error("a type that is not known is accepted")
	}
	if _, k, err := y.store.FromTyped(&corev1.Pod{}); err != nil || k.GroupVersionKind != (schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) {
		t.Errorf("got kind %v, error %v", k, err)
	}
}
