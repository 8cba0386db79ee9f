// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	conformance "github.com/capstan-dev/capstan/conformance/extension"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// readRequest reads the request of a hook from a file, or from standard input
// for -. The version of the hook is the one the file names, or the newest.
func readRequest(env *command.Env, file string, hook catalog.Descriptor) (runtime.Object, catalog.Descriptor, error) {
	data, err := env.ReadFile(file)
	if err != nil {
		return nil, hook, fmt.Errorf("read the request: %w", err)
	}
	if file == "-" {
		file = "standard input"
	}
	request, of, err := decodeRequest(data, hook)
	if err != nil {
		return nil, hook, fmt.Errorf("read the request from %s: %w", file, err)
	}
	return request, of, nil
}

// decodeRequest reads one YAML or JSON document. Every field must be known.
func decodeRequest(data []byte, hook catalog.Descriptor) (runtime.Object, catalog.Descriptor, error) {
	data, err := onlyDocument(data)
	if err != nil {
		return nil, hook, err
	}
	data, err = yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, hook, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(data, &is); err != nil {
		return nil, hook, errors.New("it is not an object")
	}
	hook, err = versionOf(is, hook)
	if err != nil {
		return nil, hook, err
	}
	request, err := catalog.Default().NewRequest(hook.GroupVersionHook)
	if err != nil {
		return nil, hook, err
	}
	strict, err := kjson.UnmarshalStrict(data, request, kjson.DisallowUnknownFields)
	if err != nil {
		return nil, hook, err
	}
	if len(strict) > 0 {
		var problems []string
		for _, problem := range strict {
			problems = append(problems, problem.Error())
		}
		return nil, hook, fmt.Errorf("%s: %s", strings.Join(problems, ", "), seeExample(hook))
	}
	request.GetObjectKind().SetGroupVersionKind(hook.Request)
	return request, hook, nil
}

// onlyDocument refuses a file with several YAML documents, of which only the
// first would be sent.
func onlyDocument(data []byte) ([]byte, error) {
	var found [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var content any // none in one that only has comments
		if err := yaml.Unmarshal(doc, &content); err != nil || content != nil {
			found = append(found, doc)
		}
	}
	switch len(found) {
	case 0:
		return nil, errors.New("it is empty")
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("it has %d documents: one request is sent at a time", len(found))
}

// versionOf finds the version of the hook that a request is for. Omitted parts are
// those of the newest version.
func versionOf(is metav1.TypeMeta, hook catalog.Descriptor) (catalog.Descriptor, error) {
	version, kind := hook.Request.ToAPIVersionAndKind()
	if is.Kind != "" && is.Kind != kind {
		return hook, fmt.Errorf("it is a %s: %s takes a %s: %s", is.Kind, hook.Hook, kind, seeExample(hook))
	}
	if is.APIVersion == "" || is.APIVersion == version {
		return hook, nil
	}
	gv, err := schema.ParseGroupVersion(is.APIVersion)
	if err != nil {
		return hook, err
	}
	of, err := catalog.Default().Find(catalog.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: hook.Hook})
	if err != nil {
		var known []string
		for _, v := range catalog.Default().Versions(hook.GroupHook()) {
			known = append(known, v.GroupVersion().String())
		}
		return hook, fmt.Errorf("its apiVersion is %s: %s has %s", is.APIVersion, hook.Hook, strings.Join(known, ", "))
	}
	return of, nil
}

func seeExample(hook catalog.Descriptor) string {
	return fmt.Sprintf("see `capstan extension call %s --example`", hook.Hook)
}

// exampleName is what the Cluster of an example request, and its namespace,
// are called.
const exampleName = "demo"

// printExample prints a request of a hook to start from.
func printExample(env *command.Env, hook catalog.Descriptor, output string) error {
	fields := map[string]any{}
	if !hook.Singleton {
		text, err := conformance.Request(hook.GroupVersionHook)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(conformance.ClusterName), []byte(exampleName))
		if err := json.Unmarshal(text, &fields); err != nil {
			return err
		}
	}
	fields["apiVersion"], fields["kind"] = hook.Request.ToAPIVersionAndKind()
	return env.PrintObject(fields, output)
}
