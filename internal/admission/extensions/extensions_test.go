// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

// parse reads an object; "" is none.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	if text == "" {
		return nil
	}
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func messages(errs field.ErrorList) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestDefaultExtensionConfig(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ obj, want string }{
		"all namespaces": {`spec: {clientConfig: {url: u}}`, `spec: {clientConfig: {url: u}, namespaceSelector: {}}`},
		"the usual port": {`spec: {namespaceSelector: {matchLabels: {a: b}}, clientConfig: {service: {name: s}}}`, `spec: {namespaceSelector: {matchLabels: {a: b}}, clientConfig: {service: {name: s, port: 443}}}`},
		"what is said":   {`spec: {namespaceSelector: {}, clientConfig: {service: {name: s, port: 1}}}`, `spec: {namespaceSelector: {}, clientConfig: {service: {name: s, port: 1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse[runtimev1.ExtensionConfig](t, tc.obj)
			DefaultExtensionConfig(got, nil)
			if diff := cmp.Diff(parse[runtimev1.ExtensionConfig](t, tc.want), got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateExtensionConfig(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obj, old string
		want     []string
	}{
		"at a URL": {`metadata: {name: e}
spec: {clientConfig: {url: 'https://h:8443/p'}}`, ``, nil},
		"at a service": {`metadata: {name: e}
spec: {clientConfig: {service: {namespace: a, name: b, path: /p, port: 443}}}`, ``, nil},
		"nowhere": {`metadata: {name: e}
spec: {}`, ``, []string{`spec.clientConfig: Required value: set url or service`}},
		"at both": {`metadata: {name: e}
spec: {clientConfig: {url: 'https://h', service: {namespace: a, name: b}}}`, ``, []string{`spec.clientConfig: Forbidden: has both url and service; leave one of them out`}},
		"without TLS": {`metadata: {name: e}
spec: {clientConfig: {url: 'http://h'}}`, ``, []string{`spec.clientConfig.url: Invalid value: "http://h": must be https://host:port/path, without user, query and fragment`}},
		"with a query": {`metadata: {name: e}
spec: {clientConfig: {url: 'https://h/?a=b'}}`, ``, []string{`spec.clientConfig.url: Invalid value: "https://h/?a=b": must be https://host:port/path, without user, query and fragment`}},
		"a bad service": {`metadata: {name: e}
spec: {clientConfig: {service: {namespace: a, name: b, path: p, port: 0}}}`, ``, []string{`spec.clientConfig.service.path: Invalid value: "p": must start with /`, `spec.clientConfig.service.port: Invalid value: 0: must be between 1 and 65535, inclusive`}},
		"a name with dots": {`metadata: {name: a.b}
spec: {clientConfig: {url: 'https://h'}}`, ``, []string{`metadata.name: Invalid value: "a.b": must not contain dots`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, messages(ValidateExtensionConfig(parse[runtimev1.ExtensionConfig](t, tc.obj), parse[runtimev1.ExtensionConfig](t, tc.old)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
