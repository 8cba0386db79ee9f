// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/clusterctl/template"
)

// maxFile is the number of bytes of a file of objects.
const maxFile = 64 << 20

// ReadObjects reads the objects in files: of a folder those that end in .yaml, .yml or
// .json, and of - standard input.
func (e *Env) ReadObjects(files []string) (all []*unstructured.Unstructured, err error) {
	for _, name := range files {
		within := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if within, err = manifests(name); err != nil {
				return nil, fmt.Errorf("read -f %s: %w", name, err)
			}
		}
		for _, file := range within {
			text, err := e.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read -f: %w", err)
			}
			objects, err := template.Objects(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

// ReadKustomization reads the objects that kustomize makes of a folder: by `kubectl
// kustomize`, so that a plan has what `kubectl apply -k` sends, or else by kustomize itself.
func ReadKustomization(ctx context.Context, folder string) ([]*unstructured.Unstructured, error) {
	program, verb := "kubectl", "kustomize"
	if _, err := exec.LookPath(program); err != nil {
		program, verb = "kustomize", "build"
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, verb, folder)
	cmd.Stderr = &said
	text, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("-k %s: neither kubectl nor kustomize is in PATH: install one of them", folder)
	case err != nil:
		return nil, fmt.Errorf("-k %s: %s %s: %w: %s", folder, program, verb, err, bytes.TrimSpace(said.Bytes()))
	case len(text) > maxFile:
		return nil, fmt.Errorf("-k %s: the objects have more than %d MiB", folder, maxFile>>20)
	}
	objects, err := template.Objects(text)
	if err != nil {
		return nil, fmt.Errorf("-k %s: %w", folder, err)
	}
	return objects, nil
}

// manifests are the files of objects in a folder, by name.
func manifests(folder string) (all []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) && !entry.IsDir() {
			all = append(all, filepath.Join(folder, entry.Name()))
		}
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("there is no file that ends in .yaml, .yml or .json")
	}
	return all, err
}

// ReadFile reads a file, or standard input for -.
func (e *Env) ReadFile(name string) ([]byte, error) {
	in := e.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: it has more than %d MiB", name, maxFile>>20)
	}
	return text, err
}
