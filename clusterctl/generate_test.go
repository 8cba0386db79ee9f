// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"errors"
	"strings"
	"testing"
)

func TestOptionsThatMakeNoClusterAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options GenerateOptions
		want    string // in what is generated
		err     string // or in the error
	}{
		"a version":                        {GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3"}, "version: v1.36.3\n", ""},
		"a version without its v":          {GenerateOptions{Name: "demo", KubernetesVersion: "1.36.3"}, "version: v1.36.3\n", ""},
		"a version with metadata":          {GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3-rc.0+k3s1"}, "version: v1.36.3-rc.0+k3s1\n", ""},
		"a version of two numbers":         {GenerateOptions{Name: "demo", KubernetesVersion: "1.36"}, "", `"1.36" is no Kubernetes version: it has the form v1.36.3`},
		"a version that is set by name":    {GenerateOptions{Name: "demo", Set: map[string]string{"KUBERNETES_VERSION": "v1.36"}}, "", `"v1.36" is no Kubernetes version`},
		"an empty version":                 {GenerateOptions{Name: "demo", Set: map[string]string{"KUBERNETES_VERSION": ""}}, "", `"" is no Kubernetes version`},
		"a version that nobody asks for":   {GenerateOptions{Name: "demo", Set: map[string]string{"A": "1"}, Template: []byte("a: ${A}\n"), Lookup: func(string) (string, bool) { return "1.36", true }}, "a: 1\n", ""},
		"a version for no use":             {GenerateOptions{Name: "demo", KubernetesVersion: "1.36", Template: []byte("a: b\n")}, "", "is no Kubernetes version"},
		"a variable that the template has": {GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", Set: map[string]string{"POD_CIDR": "10.1.0.0/16"}}, `["10.1.0.0/16"]`, ""},
		"variables that it lacks":          {GenerateOptions{Name: "demo", Template: []byte("${B} ${A:=1}"), Set: map[string]string{"AA": "", "C": "", "B": "x"}}, "", "the template has no variable AA, C, but A, B"},
		"a name that is a number in YAML":  {GenerateOptions{Name: "1e3", KubernetesVersion: "v1.36.3"}, "  name: \"1e3\"\n", ""},
		"a name that cannot be":            {GenerateOptions{Name: "Demo"}, "", `"Demo" cannot be the name of a cluster`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := Generate(tc.options)
			if tc.err != "" {
				if !errors.As(err, new(*OptionError)) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || !strings.Contains(string(doc), tc.want) {
				t.Errorf("error %v, want %q in\n%s", err, tc.want, doc)
			}
		})
	}
}
