// SPDX-License-Identifier: Apache-2.0

// Command pack builds a local repository of both releases of the provider: the files
// that "capstan init" reads, and the images that it runs, without Docker.
//
//	go run ./pack -out dist
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// release is what differs from one release to the next.
type release struct {
	Version string
	API     string // the version of its API that is stored
	Size    string // how the field is named there
	tags    string // of the build
}

var releases = []release{
	{Version: "v0.1.0", API: "v1alpha1", Size: "size", tags: "first"},
	{Version: "v0.2.0", API: "v1beta1", Size: "machineSize"},
}

func main() {
	out := flag.String("out", "dist", "folder to write to; it must not be there")
	images := flag.Bool("images", true, "make images, too")
	flag.Parse()
	if err := run(*out, *images); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(out string, images bool) error {
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another folder with -out", out)
	}
	for _, r := range releases {
		if err := r.write(filepath.Join(out, "infrastructure-example", r.Version)); err != nil {
			return fmt.Errorf("release %s: %w", r.Version, err)
		}
		if !images {
			continue
		}
		if err := r.image(filepath.Join(out, "images")); err != nil {
			return fmt.Errorf("image of release %s: %w", r.Version, err)
		}
	}
	return nil
}

// write writes the files of a release.
func (r release) write(dir string) error {
	definitions, err := r.definitions()
	if err != nil {
		return err
	}
	components, err := r.fill("config/components.yaml")
	if err != nil {
		return err
	}
	clusters, err := filepath.Glob("config/cluster-template*.yaml")
	if err != nil {
		return err
	}
	metadata, err := os.ReadFile("config/metadata.yaml")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range clusters { // one for each flavor
		cluster, err := r.fill(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), cluster, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "infrastructure-components.yaml"), append(definitions, components...), 0o644),
		os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o644),
	)
}

func (r release) fill(file string) ([]byte, error) {
	t, err := template.New(filepath.Base(file)).Delims("<<", ">>").ParseFiles(file)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, r)
	return text.Bytes(), err
}

// definitions are those that controller-gen generated, in the form of the release:
// the first one has one version, the second stores another and converts.
func (r release) definitions() ([]byte, error) {
	files, err := filepath.Glob("config/crd/*.yaml")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("config/crd holds no definitions: run go generate ./...")
	}
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if err := r.adapt(crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if text, err = yaml.Marshal(crd.Object); err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "%s---\n", text)
	}
	return all.Bytes(), nil
}

func (r release) adapt(crd *unstructured.Unstructured) error {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	contract := "v1alpha1_v1beta1" // the last is the one that is used
	if r.API == "v1alpha1" {
		contract = "v1alpha1"
		versions = slices.DeleteFunc(versions, func(v any) bool { return v.(map[string]any)["name"] != "v1alpha1" })
		versions[0].(map[string]any)["storage"] = true
	} else {
		crd.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from": "example-system/provider-example"})
		service := map[string]any{"name": "provider-example", "namespace": "example-system", "path": "/convert"}
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": service},
		}}
		if err := unstructured.SetNestedMap(crd.Object, conversion, "spec", "conversion"); err != nil {
			return err
		}
	}
	crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta2": contract})
	return unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
}

// image compiles the provider and builds an image of it.
func (r release) image(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", "image",
		"-name", "example.com/provider-example:"+r.Version, "-out", filepath.Join(dir, r.Version), ".")
	cmd.Env = os.Environ()
	if r.tags != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -tags="+r.tags)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
