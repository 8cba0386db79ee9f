// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestDefaultExtensionConfig(t *testing.T) {
	t.Parallel()
	builder.CheckDefaults(t, DefaultExtensionConfig, map[string]builder.Defaulted{
		"all namespaces": {Obj: `spec: {clientConfig: {url: u}}`, Want: `spec: {clientConfig: {url: u}, namespaceSelector: {}}`},
		"the usual port": {Obj: `spec: {namespaceSelector: {matchLabels: {a: b}}, clientConfig: {service: {name: s}}}`, Want: `spec: {namespaceSelector: {matchLabels: {a: b}}, clientConfig: {service: {name: s, port: 443}}}`},
		"what is said":   {Obj: `spec: {namespaceSelector: {}, clientConfig: {service: {name: s, port: 1}}}`, Want: `spec: {namespaceSelector: {}, clientConfig: {service: {name: s, port: 1}}}`},
	})
}

func TestValidateExtensionConfig(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateExtensionConfig, map[string]builder.Validated{
		"at a URL": {Obj: `metadata: {name: e}
spec: {clientConfig: {url: 'https://h:8443/p'}}`},
		"at a service": {Obj: `metadata: {name: e}
spec: {clientConfig: {service: {namespace: a, name: b, path: /p, port: 443}}}`},
		"nowhere": {Obj: `metadata: {name: e}
spec: {}`, Want: []string{`spec.clientConfig: Required value: set url or service`}},
		"at both": {Obj: `metadata: {name: e}
spec: {clientConfig: {url: 'https://h', service: {namespace: a, name: b}}}`, Want: []string{`spec.clientConfig: Forbidden: has both url and service; leave one of them out`}},
		"without TLS": {Obj: `metadata: {name: e}
spec: {clientConfig: {url: 'http://h'}}`, Want: []string{`spec.clientConfig.url: Invalid value: "http://h": must be https://host:port/path, without user, query and fragment`}},
		"with a query": {Obj: `metadata: {name: e}
spec: {clientConfig: {url: 'https://h/?a=b'}}`, Want: []string{`spec.clientConfig.url: Invalid value: "https://h/?a=b": must be https://host:port/path, without user, query and fragment`}},
		"a bad service": {Obj: `metadata: {name: e}
spec: {clientConfig: {service: {namespace: a, name: b, path: p, port: 0}}}`, Want: []string{`spec.clientConfig.service.path: Invalid value: "p": must start with /`, `spec.clientConfig.service.port: Invalid value: 0: must be between 1 and 65535, inclusive`}},
		"a name with dots": {Obj: `metadata: {name: a.b}
spec: {clientConfig: {url: 'https://h'}}`, Want: []string{`metadata.name: Invalid value: "a.b": must not contain dots`}},
	})
}
