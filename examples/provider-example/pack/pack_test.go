// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

func TestReleasesDifferInTheVersionThatIsStored(t *testing.T) {
	t.Chdir("..")
	out := filepath.Join(t.TempDir(), "dist")
	if err := run(out, false); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]struct {
		versions []string
		stored   string
		contract string
		converts bool
	}{
		"v0.1.0": {[]string{"v1alpha1"}, "v1alpha1", "v1alpha1", false},
		"v0.2.0": {[]string{"v1alpha1", "v1beta1"}, "v1beta1", "v1alpha1_v1beta1", true},
	} {
		kinds := map[string]int{}
		for _, obj := range read(t, filepath.Join(out, "infrastructure-example", version, "infrastructure-components.yaml")) {
			kinds[obj.GetKind()]++
			if obj.GetKind() != "CustomResourceDefinition" {
				continue
			}
			all, _, err := unstructured.NestedSlice(obj.Object, "spec", "versions")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			stored := ""
			for _, v := range all {
				name := v.(map[string]any)["name"].(string)
				names = append(names, name)
				if v.(map[string]any)["storage"] == true {
					stored += name
				}
			}
			_, converts, err := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook")
			if err != nil || !slices.Equal(names, want.versions) || stored != want.stored || converts != want.converts || obj.GetLabels()["cluster.x-k8s.io/v1beta2"] != want.contract {
				t.Errorf("%s: %s has versions %v, stores %s, converts: %v, labels %v (%v)", version, obj.GetName(), names, stored, converts, obj.GetLabels(), err)
			}
		}
		for kind, n := range map[string]int{"CustomResourceDefinition": 4, "Deployment": 1, "Service": 1, "Certificate": 1, "Issuer": 1, "MutatingWebhookConfiguration": 1} {
			if kinds[kind] != n {
				t.Errorf("%s: %d of %s, want %d", version, kinds[kind], kind, n)
			}
		}
	}
}

func read(t *testing.T, file string) (all []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := docs.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(obj.Object) > 0 {
			all = append(all, obj)
		}
	}
}
