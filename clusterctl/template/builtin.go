// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	_ "embed" // for the template below
)

//go:embed local.yaml
var local []byte

// Local returns the template of a cluster of the local provider. It needs the
// variables CLUSTER_NAME, NAMESPACE and KUBERNETES_VERSION.
func Local() []byte { return bytes.Clone(local) }
