// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Release is the release for which a chart is rendered.
type Release struct {
	Name, Namespace string
}

// Render returns the objects of the chart for values, as helm template does, in an
// order that an API server accepts. Other values are the defaults of the chart; an
// unknown value is refused.
func Render(files map[string][]byte, release Release, values map[string]any) ([]*unstructured.Unstructured, error) {
	var defaults, chart map[string]any
	if err := errors.Join(yaml.Unmarshal(files["values.yaml"], &defaults), yaml.Unmarshal(files["Chart.yaml"], &chart)); err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	merged, err := merge(defaults, values, "")
	if err != nil {
		return nil, err
	}
	data := map[string]any{
		"Values":  merged,
		"Release": map[string]any{"Name": release.Name, "Namespace": release.Namespace, "Service": "Helm"},
		"Chart":   map[string]any{"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
		"Files":   chartFiles(files),
	}
	t, names, err := parse(files)
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, name := range names {
		var text bytes.Buffer
		if err := t.ExecuteTemplate(&text, name, data); err != nil {
			return nil, fmt.Errorf("render the chart: %w", err)
		}
		objects, err := split(text.Bytes())
		if err != nil {
			return nil, fmt.Errorf("render the chart: %s: %w", name, err)
		}
		all = append(all, objects...)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(rank(a.GetKind()), rank(b.GetKind())), strings.Compare(a.GetKind(), b.GetKind()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all, nil
}

// order is the order of kinds: dependencies first, and webhooks, without whose
// servers no write succeeds, last.
var order = []string{
	"Namespace", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service",
	"Issuer", "Certificate", "Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

func rank(kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return len(order)
}

// parse reads the templates with the functions that helm has in addition to those
// of sprig.
func parse(files map[string][]byte) (*template.Template, []string, error) {
	t := template.New("").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	t.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := t.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"required": func(what string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, errors.New(what)
			}
			return value, nil
		},
		"toYaml": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	})
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Dir(name) != "templates" || path.Ext(name) == ".txt" {
			continue
		}
		if _, err := t.New(name).Parse(string(files[name])); err != nil {
			return nil, nil, err
		}
		if path.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	return t, names, nil
}

// chartFiles are the files that templates read.
type chartFiles map[string][]byte

// Get returns the text of a file; "" if not found.
func (f chartFiles) Get(name string) string { return string(f[name]) }

// Glob returns the files whose paths match.
func (f chartFiles) Glob(pattern string) (chartFiles, error) {
	found := chartFiles{}
	for name, text := range f {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if ok {
			found[name] = text
		}
	}
	return found, nil
}

// merge applies values to defaults. Maps in both are merged, unless the default is
// empty, which permits any keys.
func merge(defaults, values map[string]any, at string) (map[string]any, error) {
	merged := maps.Clone(defaults)
	for name, value := range values {
		before, known := defaults[name]
		if !known {
			return nil, fmt.Errorf("value %s%s: the chart has no such value: choose among %s", at, name, strings.Join(slices.Sorted(maps.Keys(defaults)), ", "))
		}
		above, ok := before.(map[string]any)
		below, isMap := value.(map[string]any)
		if ok && isMap && len(above) > 0 {
			var err error
			if below, err = merge(above, below, at+name+"."); err != nil {
				return nil, err
			}
			value = below
		}
		merged[name] = value
	}
	return merged, nil
}

// split parses the objects of a text.
func split(text []byte) (all []*unstructured.Unstructured, err error) {
	for doc := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &obj.Object); err != nil {
			return nil, err
		}
		if len(obj.Object) > 0 {
			all = append(all, obj)
		}
	}
	return all, nil
}
