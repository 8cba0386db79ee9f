// SPDX-License-Identifier: Apache-2.0

package core

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/certs"
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

func TestAuthoritiesAndSettingsAreChecked(t *testing.T) {
	t.Parallel()
	pair, err := certs.NewCA(certs.ECDSAP256, "ca", time.Unix(1_000_000_000, 0), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	const inject = "metadata: {name: e, annotations: {runtime.cluster.x-k8s.io/inject-ca-from-secret: '%s'}}\nspec: {clientConfig: {url: 'https://h'}}"
	bundle := func(data []byte) string {
		return fmt.Sprintf("metadata: {name: e}\nspec: {clientConfig: {url: 'https://h', caBundle: %s}}", base64.StdEncoding.EncodeToString(data))
	}
	const malformed = `metadata.annotations[runtime.cluster.x-k8s.io/inject-ca-from-secret]: Invalid value: "%[1]s": "%[1]s" does not name a Secret: write namespace/name`
	builder.CheckValidation(t, ValidateExtensionConfig, map[string]builder.Validated{
		"from a Secret":          {Obj: fmt.Sprintf(inject, "ns/a.b")},
		"from no namespace":      {Obj: fmt.Sprintf(inject, "name"), Want: []string{fmt.Sprintf(malformed, "name")}},
		"from too long a path":   {Obj: fmt.Sprintf(inject, "a/b/c"), Want: []string{fmt.Sprintf(malformed, "a/b/c")}},
		"from nothing":           {Obj: fmt.Sprintf(inject, ""), Want: []string{fmt.Sprintf(malformed, "")}},
		"two certificates":       {Obj: bundle(append(slices.Clone(pair.Cert), pair.Cert...))},
		"no certificate":         {Obj: bundle([]byte("rubbish")), Want: []string{`spec.clientConfig.caBundle: Invalid value: "7 bytes": holds no certificate in PEM form`}},
		"a key":                  {Obj: bundle(append(slices.Clone(pair.Cert), pair.Key...)), Want: []string{fmt.Sprintf(`spec.clientConfig.caBundle: Invalid value: "%d bytes": holds a PEM block of type "EC PRIVATE KEY": only certificates belong there`, len(pair.Cert)+len(pair.Key))}},
		"too many settings":      {Obj: "metadata: {name: e}\nspec: {clientConfig: {url: 'https://h'}, settings: {k: " + strings.Repeat("x", 256<<10) + "}}", Want: []string{"spec.settings: Too long: may not be more than 262144 bytes"}},
		"a selector of nonsense": {Obj: "metadata: {name: e}\nspec: {clientConfig: {url: 'https://h'}, namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}", Want: []string{`spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`}},
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	version := catalog.V1Alpha1()
	for i := range version.Hooks {
		if reflect.ValueOf(version.Hooks[i].Func).Pointer() == reflect.ValueOf(hooksv1.BeforeClusterUpgrade).Pointer() {
			version.Hooks[i].Deprecated = &catalog.Deprecation{Since: "v1.9.0", Date: "2026-01-02", Use: "v1alpha2"}
		}
	}
	c, err := catalog.New(version, v1alpha2.Version())
	if err != nil {
		t.Fatal(err)
	}
	const (
		system = "spec.clientConfig.caBundle is empty and there is no annotation runtime.cluster.x-k8s.io/inject-ca-from-secret: the extension's certificate will be verified with the system's certificate authorities"
		old    = "hooks.runtime.cluster.x-k8s.io/v1alpha1 BeforeClusterUpgrade is deprecated since v1.9.0: use v1alpha2"
		hook   = "status: {handlers: [{name: a.e, requestHook: {apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: %s}}]}\n"
	)
	for name, tc := range map[string]struct {
		obj  string
		want []string
	}{
		"no authority":               {"spec: {clientConfig: {url: 'https://h'}}", []string{system}},
		"no authority for a service": {"spec: {clientConfig: {service: {name: a, namespace: b}}}", []string{system}},
		"an authority":               {"spec: {clientConfig: {caBundle: eA==}}", nil},
		"one to come":                {"metadata: {annotations: {runtime.cluster.x-k8s.io/inject-ca-from-secret: a/b}}", nil},
		"an old hook":                {fmt.Sprintf(hook, "BeforeClusterUpgrade") + "spec: {clientConfig: {caBundle: eA==}}", []string{old}},
		"a hook of today":            {fmt.Sprintf(hook, "BeforeClusterCreate") + "spec: {clientConfig: {caBundle: eA==}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, extensionWarnings(c, builder.Parse[runtimev1.ExtensionConfig](t, tc.obj))); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
