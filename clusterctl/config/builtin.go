// SPDX-License-Identifier: Apache-2.0

package config

import (
	_ "embed" // for builtin.txt
	"strings"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// Local is the infrastructure provider that is included in the program.
const Local = "local"

// EmbeddedScheme is the scheme of the URLs of providers that are included in the
// program.
const EmbeddedScheme = "embedded"

// sources lists where the built-in providers are released: after the type and the file of
// the components, the name, the repository of GitHub, and another file if there is one.
//
//go:embed builtin.txt
var sources string

// builtin returns the providers that are known without a configuration.
func builtin() []Provider {
	local := Provider{Name: Local, Type: clusterctlv1.InfrastructureProviderType}
	local.URL = EmbeddedScheme + ":///" + local.Label() + "/latest/infrastructure-components.yaml"
	all := []Provider{local}
	kind, file := clusterctlv1.ProviderTypeUnknown, ""
	for line := range strings.Lines(sources) {
		f := strings.Fields(line)
		if !strings.Contains(f[1], "/") {
			kind, file = clusterctlv1.ProviderType(f[0]), f[1]
			continue
		}
		f = append(f, file)
		all = append(all, Provider{Name: f[0], Type: kind, URL: "https://github.com/" + f[1] + "/releases/latest/" + f[2]})
	}
	return all
}
