// SPDX-License-Identifier: Apache-2.0

package extension

import (
	_ "embed" // the built-in requests
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/extension/catalog"
)

//go:embed requests/requests.yaml
var requestsYAML []byte

// builtins are the built-in requests by hook, of version v1alpha1. An error is a bug of
// this package.
var builtins = sync.OnceValues(func() (map[string]json.RawMessage, error) {
	var file struct {
		Requests map[string]json.RawMessage `json:"requests"`
	}
	if err := yaml.Unmarshal(requestsYAML, &file); err != nil {
		return nil, fmt.Errorf("read built-in requests: %w", err)
	}
	return file.Requests, nil
})

// request is a request as a JSON object; clone returns a copy that can be changed.
type request map[string]any

// request returns the request for a handler, as a separate tree.
func (s *session) request(h *handler) (request, error) {
	short := strings.TrimSuffix(h.name, "."+s.config.Name)
	for _, key := range []string{h.name, short, h.hook.Hook} {
		for name, given := range s.config.Requests {
			if !strings.EqualFold(name, key) {
				continue
			}
			r, err := parse(given)
			if err != nil {
				return nil, fmt.Errorf("request %s: %w", name, err)
			}
			return s.finish(r, h), nil
		}
	}
	r, err := builtin(h.hook)
	if err != nil {
		return nil, err
	}
	return s.finish(r, h), nil
}

// unmatchedRequests returns an error for requests that match no handler: they were meant to
// replace a built-in request, but would not.
func (s *session) unmatchedRequests(handlers []runtimev1.ExtensionHandler) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.config.Requests)) {
		_, err := s.config.Catalog.Named(name)
		if err != nil && !slices.ContainsFunc(handlers, func(h runtimev1.ExtensionHandler) bool {
			return strings.EqualFold(name, h.Name) || strings.EqualFold(name, strings.TrimSuffix(h.Name, "."+s.config.Name))
		}) {
			errs = append(errs, fmt.Errorf("request %s: there is no such handler or hook", name))
		}
	}
	return errors.Join(errs...)
}

// parse reads a request in JSON or YAML.
func parse(text []byte) (request, error) {
	var r request
	if err := yaml.Unmarshal(text, &r); err != nil || r == nil {
		return nil, errors.New("want an object in JSON or YAML")
	}
	return r, nil
}

// builtin is the built-in request of a hook.
func builtin(hook catalog.GroupVersionHook) (request, error) {
	text, err := Request(hook)
	if err != nil || hook.GroupVersion() != hooksv1.GroupVersion() {
		return nil, conformance.Skip("the suite has no request for %s: give one", hook)
	}
	return decode[request](text)
}

// finish adds what every request has.
func (s *session) finish(r request, h *handler) request {
	r["apiVersion"], r["kind"] = h.request.ToAPIVersionAndKind()
	if len(s.config.Settings) > 0 {
		settings := map[string]any{}
		for k, v := range s.config.Settings {
			settings[k] = v
		}
		own, _ := r["settings"].(map[string]any)
		maps.Copy(settings, own)
		r["settings"] = settings
	}
	return r
}

// clone copies a request so that the copy can be changed.
func (r request) clone() request { return runtime.DeepCopyJSON(r) }

// json is the request as it is sent.
func (r request) json() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a tree of decoded JSON
	}
	return b
}

// text is a field that is a string, or empty.
func (r request) text(field string) string {
	s, _ := r[field].(string)
	return s
}

// list returns the objects in a list of the request.
func (r request) list(field string) []map[string]any {
	var out []map[string]any
	items, _ := r[field].([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Request returns the built-in request of a hook as a JSON object without
// apiVersion and kind. Everything in it is named ClusterName.
func Request(hook catalog.GroupVersionHook) (json.RawMessage, error) {
	all, err := builtins()
	if err != nil {
		return nil, err
	}
	text, ok := all[hook.Hook]
	if !ok {
		return nil, fmt.Errorf("there is no request for %s", hook)
	}
	return text, nil
}

// decode reads JSON.
func decode[T any](text []byte) (T, error) {
	var v T
	_, err := decodeInto(text, &v)
	return v, err
}

func decodeInto[T any](text []byte, into T) (T, error) {
	if err := json.Unmarshal(text, into); err != nil {
		return into, fmt.Errorf("decode: %w", err)
	}
	return into, nil
}

// jsonOf is a value as JSON; the value was decoded from JSON.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// within follows field names; nil if the object does not exist.
func within(m map[string]any, path ...string) map[string]any {
	for _, field := range path {
		next, ok := m[field].(map[string]any)
		if !ok {
			return nil
		}
		m = next
	}
	return m
}
