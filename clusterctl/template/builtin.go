// SPDX-License-Identifier: Apache-2.0

package template

import (
	_ "embed" // for the templates below
	"slices"
)

// A template is the first of these, with one of the others for the workers.
var (
	//go:embed local.yaml
	local []byte
	//go:embed local-workers.yaml
	localWorkers []byte
	//go:embed local-machine-pool.yaml
	localMachinePool []byte
)

// Local returns the template of a cluster of the local provider. It needs the
// variables CLUSTER_NAME, NAMESPACE and KUBERNETES_VERSION.
func Local() []byte { return joined(local, localWorkers) }

// LocalMachinePool returns that of one whose workers are a MachinePool.
func LocalMachinePool() []byte { return joined(local, localMachinePool) }

func joined(cluster, workers []byte) []byte {
	return slices.Concat(cluster, []byte("---\n"), workers)
}
