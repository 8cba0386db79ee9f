// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// BenchmarkGet reads a Machine at both versions in turns, so that a busy computer is
// as busy for either. At the old one it may take 1.3 times as long.
func BenchmarkGet(b *testing.B) {
	env := testenv.Start(b)
	machine := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: a, labels: {cluster.x-k8s.io/cluster-name: c}}
spec:
  clusterName: c
  version: v1.36.3
  providerID: simulated://a
  deletion: {nodeDrainTimeoutSeconds: 600, nodeDeletionTimeoutSeconds: 10}
  bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: a}, dataSecretName: a}
  infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachine, name: a}
`), &machine.Object); err != nil {
		b.Fatal(err)
	}
	all, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		b.Fatal(err)
	}
	machines := all.Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}).Namespace(env.Namespace)
	if _, err := machines.Create(b.Context(), machine, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	cfg := rest.CopyConfig(env.Config)
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		b.Fatal(err)
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, version := range []string{"v1beta2", "v1beta1"} {
			begin := time.Now()
			if _, err := d.RESTClient().Get().AbsPath("/apis/cluster.x-k8s.io", version, "namespaces", env.Namespace, "machines", "a").Do(b.Context()).Raw(); err != nil {
				b.Fatal(err)
			}
			took[version] = append(took[version], time.Since(begin))
		}
	}
	median := func(version string) float64 {
		slices.Sort(took[version])
		return float64(took[version][len(took[version])/2].Microseconds())
	}
	b.ReportMetric(median("v1beta2"), "µs/v1beta2")
	b.ReportMetric(median("v1beta1"), "µs/v1beta1")
	b.ReportMetric(median("v1beta1")/median("v1beta2"), "ratio")
}
