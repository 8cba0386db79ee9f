// SPDX-License-Identifier: Apache-2.0

package template

import (
	_ "embed" // for the network
	"fmt"
	"slices"
	"strings"
)

//go:embed network.yaml
var network []byte

// NetworkLabel on a Cluster with the cluster's name as its value makes the add-on of
// NetworkAddon apply to it.
const NetworkLabel = "capstan.dev/network"

// Network returns the objects that a workload cluster of container machines needs so
// that its Pods reach each other. Their image is in the node images of Capstan.
func Network() []byte { return slices.Clone(network) }

// NetworkAddon returns the part of a template that installs Network on its cluster:
// a ConfigMap, and a ClusterResourceSet for the Cluster with the label NetworkLabel.
func NetworkAddon() []byte {
	var b strings.Builder
	b.WriteString(networkAddon)
	for line := range strings.Lines(string(network)) {
		fmt.Fprintf(&b, "    %s", line)
	}
	return []byte(b.String())
}

// networkAddon ends where the objects of the workload cluster start.
const networkAddon = `apiVersion: addons.cluster.x-k8s.io/v1beta2
kind: ClusterResourceSet
metadata:
  name: ${CLUSTER_NAME}-network
  namespace: "${NAMESPACE}"
spec:
  strategy: Reconcile
  clusterSelector:
    matchLabels:
      ` + NetworkLabel + `: "${CLUSTER_NAME}"
  resources:
  - kind: ConfigMap
    name: ${CLUSTER_NAME}-network
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: ${CLUSTER_NAME}-network
  namespace: "${NAMESPACE}"
data:
  network.yaml: |
`
