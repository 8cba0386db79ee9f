// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestBecome(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ had, fresh, want map[string]any }{
		"the desired fields are set": {
			had:   map[string]any{"size": "small"},
			fresh: map[string]any{"size": "big", "disk": map[string]any{"gb": int64(9)}},
			want:  map[string]any{"size": "big", "disk": map[string]any{"gb": int64(9)}},
		},
		"what others have added stays": {
			had:   map[string]any{"size": "small", "providerID": "x://1", "net": map[string]any{"mine": "a", "theirs": "b"}},
			fresh: map[string]any{"size": "big", "net": map[string]any{"mine": "c"}},
			want:  map[string]any{"size": "big", "providerID": "x://1", "net": map[string]any{"mine": "c", "theirs": "b"}},
		},
		"what we have written and no longer desire is removed": {
			had:   map[string]any{"size": "small", "net": map[string]any{"mine": "a", "theirs": "b"}},
			fresh: map[string]any{},
			want:  map[string]any{"net": map[string]any{"theirs": "b"}},
		},
		"with the whole of an object that was ours": {
			had:   map[string]any{"net": map[string]any{"mine": "a"}},
			fresh: map[string]any{},
			want:  map[string]any{},
		},
		"an object takes the place of a value": {
			had:   map[string]any{"size": "small"},
			fresh: map[string]any{"size": map[string]any{"gb": int64(1)}},
			want:  map[string]any{"size": map[string]any{"gb": int64(1)}},
		},
		"lists are taken over whole": {
			had:   map[string]any{"size": []any{"a", "b"}},
			fresh: map[string]any{"size": []any{"c"}},
			want:  map[string]any{"size": []any{"c"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := object("Host", tc.had)
			current.SetManagedFields([]metav1.ManagedFieldsEntry{
				{Manager: "us", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{".":{},"f:size":{},"f:net":{".":{},"f:mine":{}}}}`)}},
				{Manager: "them", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:providerID":{},"f:net":{"f:theirs":{}}}}`)}},
			})
			fresh := object("Host", tc.fresh)
			current.SetLabels(map[string]string{"set": "old", "theirs": "x"})
			fresh.SetLabels(map[string]string{"set": "new"})
			fresh.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "t2"})
			got, err := Become(current, fresh, nil, "us")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Object["spec"]); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if l := got.GetLabels(); got.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation] != "t2" || l["set"] != "new" || l["theirs"] != "x" {
				t.Errorf("annotations %v, labels %v", got.GetAnnotations(), l)
			}
			again, err := Become(got, fresh, nil, "us")
			if err != nil || !cmp.Equal(got, again) {
				t.Errorf("done again it is another: %v, %s", err, cmp.Diff(got, again))
			}
		})
	}
}

func TestWhatATemplateHadGoesWithoutManagedFieldsToo(t *testing.T) {
	t.Parallel()
	current := object("Host", map[string]any{"size": "small", "providerID": "x://1", "net": map[string]any{"mine": "a", "theirs": "b"}})
	current.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "restore", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:size":{},"f:providerID":{},"f:net":{"f:mine":{},"f:theirs":{}}}}`)}}})
	current.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "t1"})
	fresh := object("Host", map[string]any{"disk": "big"})
	if _, err := Become(current, fresh, nil, "us"); !errors.Is(err, ErrLost) {
		t.Errorf("error %v", err)
	}
	got, err := Become(current, fresh, map[string]any{"size": "small", "net": map[string]any{"mine": "a"}}, "us")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"disk": "big", "providerID": "x://1", "net": map[string]any{"theirs": "b"}}, got.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
