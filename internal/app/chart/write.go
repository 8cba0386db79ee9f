// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// YAML is objects as one file.
func YAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var all bytes.Buffer
	for _, obj := range objects {
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		all.WriteString("---\n")
		all.Write(text)
	}
	return all.Bytes(), nil
}

// Kustomization is objects as a base for kustomize: a file for each purpose, and the
// kustomization that names them.
func Kustomization(objects []*unstructured.Unstructured) (map[string][]byte, error) {
	purposes := map[string][]*unstructured.Unstructured{}
	for _, obj := range objects {
		file := "manager.yaml"
		switch kind := obj.GetKind(); {
		case kind == "CustomResourceDefinition":
			file = "crds.yaml"
		case strings.HasSuffix(kind, "Role"), strings.HasSuffix(kind, "RoleBinding"):
			file = "rbac.yaml"
		case strings.HasSuffix(kind, "WebhookConfiguration"):
			file = "webhooks.yaml"
		}
		purposes[file] = append(purposes[file], obj)
	}
	files := map[string][]byte{}
	for name, objects := range purposes {
		text, err := YAML(objects)
		if err != nil {
			return nil, err
		}
		files[name] = append([]byte(header), text...)
	}
	list := header + "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
	for _, name := range slices.Sorted(maps.Keys(purposes)) {
		list += "- " + name + "\n"
	}
	files["kustomization.yaml"] = []byte(list)
	return files, nil
}

// Write writes files into a folder, which must be empty or not there: what is left
// of others would belong to it.
func Write(dir string, files map[string][]byte) error {
	there, err := os.ReadDir(dir)
	if err == nil && len(there) > 0 {
		return fmt.Errorf("write %s: it is not empty; name another folder", dir)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
