// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/capstan-dev/capstan/manifests"
)

func TestWhatTheStoredVersionDoesNotAllowIsRefused(t *testing.T) {
	t.Parallel()
	noGroup := bootstrap + "infrastructureRef: {kind: Host, name: h}"
	tests := map[string]struct {
		obj, old string
		want     string // part of the error; "" for none
	}{
		"complete":                             {obj: complete},
		"what is needed is missing":            {obj: bootstrap + "infrastructureRef: {apiVersion: x.io/v1, name: h}", want: "spec.infrastructureRef.kind"},
		"a reference without a group":          {obj: noGroup, want: "spec.infrastructureRef.apiGroup"},
		"a rule of the stored version":         {obj: complete + ", nodeDrainTimeout: -1s", want: "spec.deletion.nodeDrainTimeoutSeconds"},
		"an apiVersion that is none":           {obj: bootstrap + "infrastructureRef: {apiVersion: a/b/c, kind: Host, name: h}", want: "convert Machine ns/a to cluster.x-k8s.io/v1beta2: spec.infrastructureRef.apiVersion"},
		"what could not be read again":         {obj: bootstrap + "infrastructureRef: {apiVersion: unknown.io/v1, kind: Host, name: h}", want: "Host.unknown.io has no label"},
		"what was there already stays":         {obj: noGroup + ", providerID: x://a", old: noGroup},
		"what was there already and no change": {obj: noGroup, old: noGroup},
		"what an update adds":                  {obj: complete + ", nodeDrainTimeout: -1s", old: complete, want: "(as cluster.x-k8s.io/v1beta2, at which it is stored)"},
		"a list with the same key twice":       {obj: complete + ", readinessGates: [{conditionType: A}, {conditionType: A}]", want: "Duplicate value"},
		"a value that is too long":             {obj: complete + ", readinessGates: [{conditionType: '" + strings.Repeat("a", 400) + "'}]", want: "spec.readinessGates[0].conditionType"},
	}
	f := newFits(converter(t), manifests.CRDs)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := machine(t, tc.obj)
			was := obj.DeepCopy()
			err := f.Validate(t.Context(), written(obj, machine(t, tc.old)), nil)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("%v is not told as the fault of the request", err)
			}
			if diff := cmp.Diff(was, obj); diff != "" {
				t.Errorf("it has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWritesOfOldVersionsAreChecked(t *testing.T) {
	t.Parallel()
	f := newFits(converter(t), func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
		t.Error("the schema is read")
		return nil, nil
	})
	obj := machine(t, complete)
	obj.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	if err := f.Validate(t.Context(), written(obj, nil), nil); err != nil {
		t.Error(err)
	}
	if !f.Handles(admission.Create) || !f.Handles(admission.Update) || f.Handles(admission.Delete) {
		t.Error("writes are not checked, or other requests are")
	}
}

func TestAnEmptyListIsNone(t *testing.T) {
	t.Parallel()
	obj := map[string]any{"a": []any{}, "b": map[string]any{"c": []any{}, "d": []any{map[string]any{"e": []any{}, "f": "g"}}, "h": map[string]any{}}, "i": map[string]any{"j": map[string]any{"k": []any{}}}}
	want := map[string]any{"b": map[string]any{"d": []any{map[string]any{"f": "g"}}, "h": map[string]any{}}}
	if diff := cmp.Diff(want, withoutEmpty(obj)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
