// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"testing"

	"github.com/capstan-dev/capstan/conformance/provider"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// ours are the examples of the providers that are included in Capstan.
const ours = `
kubernetesVersion: v1.36.0
infraCluster:
  example:
    apiVersion: infrastructure.capstan.dev/v1beta2
    kind: LocalCluster
    spec:
      simulated: {}
      failureDomains: [{name: a, controlPlane: true}, {name: b, controlPlane: true}]
infraMachine:
  example:
    apiVersion: infrastructure.capstan.dev/v1beta2
    kind: LocalMachine
    spec:
      simulated: {}
  change:
    simulated: {node: {startupMilliseconds: 10}}
bootstrapConfig:
  example:
    apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
    kind: KubeadmConfig
    spec: {format: cloud-config}
  change: {verbosity: 2}
controlPlane:
  example:
    apiVersion: controlplane.cluster.x-k8s.io/v1beta2
    kind: KubeadmControlPlane
    spec:
      replicas: 1
      version: v1.36.0
      kubeadmConfigSpec: {format: cloud-config}
      machineTemplate:
        spec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: machines}}
infraMachinePool:
  example:
    apiVersion: infrastructure.capstan.dev/v1beta2
    kind: LocalMachinePool
    spec: {template: {simulated: {}}}
objects:
- apiVersion: infrastructure.capstan.dev/v1beta2
  kind: LocalMachineTemplate
  metadata: {name: machines}
  spec: {template: {spec: {simulated: {}}}}
`

// TestOurProvidersKeepTheContract including the checks that are advice.
func TestOurProvidersKeepTheContract(t *testing.T) {
	t.Parallel()
	for role := range provider.Roles() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c, err := provider.ReadConfig([]byte(ours))
			if err != nil {
				t.Fatal(err)
			}
			c.Mgmt, c.Roles = testenv.Start(t).Config, []string{role}
			provider.Unhurried(&c)
			wantFailures(t, role, provider.Examine(t.Context(), c))
		})
	}
}
