// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// Variables that "make peer-plan" sets: the kubeconfig of a management cluster with
// upstream's controllers and its dev provider, and the folder of that provider's templates.
const (
	upstreamVariable          = "CAPSTAN_TEST_UPSTREAM"
	upstreamTemplatesVariable = "CAPSTAN_TEST_UPSTREAM_TEMPLATES"
)

// devVersion is the API version of upstream's dev provider.
const devVersion = "infrastructure.cluster.x-k8s.io/v1beta2"

// newUpstreamFleet returns a namespace of the management cluster of "make peer-plan".
func newUpstreamFleet(t *testing.T) fleet {
	t.Helper()
	kubeconfig := os.Getenv(upstreamVariable)
	if kubeconfig == "" {
		t.Skip(`needs a management cluster with upstream's controllers: run "make peer-plan"`)
	}
	env, err := testenv.Connect(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := env.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	env.Namespace = ns.Name
	return fleet{t, env}
}

// devMachine is the spec of a machine of upstream's in-memory backend that boots soon.
const devMachine = `{backend: {inMemory: {vm: {provisioning: {startupDuration: 1s}}, node: {provisioning: {startupDuration: 1s}}, ` +
	`apiServer: {provisioning: {startupDuration: 1s}}, etcd: {provisioning: {startupDuration: 1s}}}}}`

// devCluster is a Cluster without a class in upstream's in-memory backend, whose
// controller panics for a DevCluster without annotations.
const devCluster = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevCluster
metadata: {name: demo, annotations: {any: ""}}
spec: {backend: {inMemory: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: t}
spec: {template: {spec: ` + devMachine + `}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {name: other}
spec: {template: {spec: ` + devMachine + `}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: t}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {criSocket: "unix:///var/run/containerd/containerd.sock"}}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: demo-control-plane}
spec:
  replicas: 3
  version: v1.36.0
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t}}}
  kubeadmConfigSpec: {initConfiguration: {nodeRegistration: {criSocket: "unix:///var/run/containerd/containerd.sock"}}, joinConfiguration: {nodeRegistration: {criSocket: "unix:///var/run/containerd/containerd.sock"}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: demo-workers}
spec:
  clusterName: demo
  replicas: 2
  template:
    spec:
      clusterName: demo
      version: v1.36.0
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: t}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}, services: {cidrBlocks: [10.128.0.0/12]}, serviceDomain: cluster.local}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: demo-control-plane}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: demo}
`

// devClassed is a Cluster of upstream's in-memory class.
const devClassed = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}, services: {cidrBlocks: [10.128.0.0/12]}, serviceDomain: cluster.local}
  topology:
    classRef: {name: in-memory}
    version: v1.36.0
    controlPlane: {replicas: 3}
    workers: {machineDeployments: [{class: default-worker, name: a, replicas: 2}]}
`

// devClassPatch gives upstream's class a variable, and a patch that uses it.
const devClassPatch = `{"spec":{"variables":[{"name":"boot","required":false,"schema":{"openAPIV3Schema":{"type":"string","default":"1s"}}}],
"patches":[{"name":"boot","definitions":[{"selector":{"apiVersion":"` + devVersion + `","kind":"DevMachineTemplate","matchResources":{"machineDeploymentClass":{"names":["default-worker"]}}},
"jsonPatches":[{"op":"replace","path":"/spec/template/spec/backend/inMemory/vm/provisioning/startupDuration","valueFrom":{"variable":"boot"}}]}]}]}}`

// createClass creates upstream's in-memory class, with machines that boot soon.
func (p *planned) createClass() {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv(upstreamTemplatesVariable), "clusterclass-in-memory.yaml"))
	p.must(err)
	p.apply(strings.NewReplacer(`"10s"`, "1s", `"2s"`, "1s").Replace(string(text)))
	p.must(p.mgmt.Patch(p.Context(), p.object(coreVersion, "ClusterClass", "in-memory", map[string]any{}), client.RawPatch(types.MergePatchType, []byte(devClassPatch))))
}

// step is a change to a cluster, as a merge patch of an object or as an object to apply.
type step struct {
	name             string
	apiVersion, kind string
	object           string
	patch            string
	apply            bool
}

// TestUpstreamDoesWhatPlansPredict makes changes to clusters of a management cluster with
// upstream's controllers. Before each, a plan says what happens to each Machine.
func TestUpstreamDoesWhatPlansPredict(t *testing.T) {
	t.Parallel()
	kcp := func(name, patch string) step {
		return step{name: name, apiVersion: kubeadmVersion, kind: "KubeadmControlPlane", object: "demo-control-plane", patch: patch}
	}
	md := func(name, patch string) step {
		return step{name: name, apiVersion: coreVersion, kind: "MachineDeployment", object: "demo-workers", patch: patch}
	}
	cluster := func(name, patch string) step {
		return step{name: name, apiVersion: coreVersion, kind: "Cluster", object: "demo", patch: patch}
	}
	workers := func(name, fields string) step {
		return cluster(name, `{"spec":{"topology":{"workers":{"machineDeployments":[{"class":"default-worker","name":"a",`+fields+`}]}}}}`)
	}
	for name, tc := range map[string]struct {
		classed bool
		steps   []step
	}{
		"cluster without a class": {steps: []step{
			md("more workers", `{"spec":{"replicas":4}}`),
			md("fewer workers", `{"spec":{"replicas":2}}`),
			md("labels of the workers", `{"spec":{"template":{"metadata":{"labels":{"say":"a"}}}}}`),
			md("timeouts of the workers", `{"spec":{"template":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":600}}}}}`),
			kcp("annotations of control plane machines", `{"spec":{"machineTemplate":{"metadata":{"annotations":{"say":"a"}}}}}`),
			{name: "health check", apiVersion: coreVersion, kind: "MachineHealthCheck", object: "check", apply: true,
				patch: `{"spec":{"clusterName":"demo","selector":{"matchLabels":{"cluster.x-k8s.io/cluster-name":"demo"}},"checks":{"nodeStartupTimeoutSeconds":600,"unhealthyNodeConditions":[{"type":"Ready","status":"Unknown","timeoutSeconds":300}]}}}`},
			kcp("version of the control plane", `{"spec":{"version":"v1.36.1"}}`),
			md("version of the workers", `{"spec":{"template":{"spec":{"version":"v1.36.1"}}}}`),
			md("another template of the workers", `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"other"}}}}}`),
			md("version of the workers without a surge, and more of them", `{"spec":{"replicas":3,"rollout":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}},"template":{"spec":{"version":"v1.36.0"}}}}`),
			md("version of the workers above the control plane", `{"spec":{"template":{"spec":{"version":"v1.37.0"}}}}`),
			md("version of the workers back", `{"spec":{"template":{"spec":{"version":"v1.36.0"}}}}`),
			kcp("an argument of the API server", `{"spec":{"kubeadmConfigSpec":{"clusterConfiguration":{"apiServer":{"extraArgs":[{"name":"v","value":"2"}]}}}}}`),
			kcp("one control plane machine", `{"spec":{"replicas":1}}`),
		}},
		"cluster of upstream's class": {classed: true, steps: []step{
			workers("more workers", `"replicas":3`),
			workers("fewer workers", `"replicas":2`),
			workers("labels of the workers", `"replicas":2,"metadata":{"labels":{"say":"a"}}`),
			workers("timeouts of the workers", `"replicas":2,"metadata":{"labels":{"say":"a"}},"deletion":{"nodeDrainTimeoutSeconds":600}`),
			cluster("another variable", `{"spec":{"topology":{"variables":[{"name":"boot","value":"1100ms"}]}}}`),
			cluster("version of the topology", `{"spec":{"topology":{"version":"v1.36.1"}}}`),
			{name: "another patch of the class", apiVersion: coreVersion, kind: "ClusterClass", object: "in-memory", patch: strings.ReplaceAll(devClassPatch, `["default-worker"]}`, `["default-worker"]},"controlPlane":true`)},
			cluster("another minor version of the topology", `{"spec":{"topology":{"version":"v1.37.0"}}}`),
			cluster("one control plane machine", `{"spec":{"topology":{"controlPlane":{"replicas":1}}}}`),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &planned{fleet: newUpstreamFleet(t), name: "demo", quiet: 10 * time.Second}
			p.connect()
			if tc.classed {
				p.createClass()
				p.apply(devClassed)
			} else {
				p.apply(devCluster)
			}
			p.steady(true)
			for _, s := range tc.steps {
				p.comesTrue(s.name, p.change(s))
			}
			p.addOns()
		})
	}
}

// change is a step as the plan reads it.
func (p *planned) change(s step) []changeplan.Write {
	p.Helper()
	fields := map[string]any{}
	p.must(json.Unmarshal([]byte(s.patch), &fields))
	w := changeplan.Write{Object: p.object(s.apiVersion, s.kind, s.object, fields), Patch: types.MergePatchType}
	if s.apply {
		w.Patch = types.ApplyPatchType
	}
	return []changeplan.Write{w}
}

// TestWhyNamesCauseOfFaultForUpstream requires the explanation to name the same causes where
// upstream's controllers report them.
func TestWhyNamesCauseOfFaultForUpstream(t *testing.T) {
	t.Parallel()
	faults := faultsOf("DevMachine")
	// Upstream reports the certificates as available until a new machine uses the key.
	delete(faults, "broken CA key")
	faults["unhealthy machine"] = fault{patch: `{}`, remove: true, object: func(f fleet) client.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": devVersion, "kind": "DevMachine"}}
		u.SetName(workerMachine(f).(*clusterv1.Machine).Spec.InfrastructureRef.Name)
		return u
	}, want: causes.Link{Object: causes.Key{Kind: "DevMachine"}, Condition: "Missing"}}
	for name, tc := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newUpstreamFleet(t)
			f.apply(strings.NewReplacer("replicas: 3", "replicas: 1", "replicas: 2", "replicas: 1").Replace(devCluster))
			f.whyNames(tc)
		})
	}
}
