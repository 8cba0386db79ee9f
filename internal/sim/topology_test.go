// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
)

// templates are those from which the class of the stories is built.
const templates = `
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalClusterTemplate
metadata: {name: cluster}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachineTemplate
metadata: {name: host}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: plane}
spec:
  template:
    spec:
      kubeadmConfigSpec:
        clusterConfiguration: {encryptionAlgorithm: ECDSA-P256}
        initConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}
        joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: join}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}}}}
---
`

// fleetClass is the class of the stories.
const fleetClass = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: fleet}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: cluster}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: plane}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}
  workers:
    machineDeployments:
    - {class: worker, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: join}}, infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}}
  kubernetesVersions: [v1.33.1, v1.34.2, v1.35.0, v1.36.3]
  variables:
  - {name: startup, required: false, schema: {openAPIV3Schema: {type: integer, default: 2000, minimum: 0}}}
  patches:
  - name: startup
    definitions:
    - selector: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, matchResources: {machineDeploymentClass: {names: [worker]}}}
      jsonPatches: [{op: add, path: /spec/template/spec/simulated/vm, valueFrom: {template: 'startupMilliseconds: {{ .startup }}'}}]
`

const fleetCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}}
  topology:
    classRef: {name: fleet}
    version: v1.33.1
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: worker, name: blue, replicas: 1}]}
`

// create creates the objects of a document, as a user does.
func (s *story) create(doc string) {
	s.t.Helper()
	s.createIn("default", doc)
}

func (s *story) createIn(namespace, doc string) {
	s.t.Helper()
	objects, err := template.Objects([]byte(doc))
	s.must(err)
	for _, obj := range objects {
		obj.SetNamespace(namespace)
		s.must(s.Mgmt.Create(s.t.Context(), obj))
	}
}

// topologyOf writes the result of a class for a Cluster: the Cluster's condition, its
// parts by name, with the source of each.
func topologyOf(t *testing.T, w *story) {
	t.Helper()
	c := get(t, w, "demo", &clusterv1.Cluster{})
	says := conditions.Get(c, clusterv1.ClusterTopologyReconciledCondition)
	if says == nil {
		w.Record("Cluster demo says nothing of its topology")
	} else {
		w.Record("Cluster demo: TopologyReconciled %s %s %s", says.Status, says.Reason, says.Message)
	}
	for _, name := range []string{"runtime.cluster.x-k8s.io/pending-hooks", "topology.internal.cluster.x-k8s.io/upgrade-step"} {
		if value, is := c.Annotations[name]; is {
			w.Record("  %s: %s", name, value)
		}
	}
	for _, obj := range w.objects("KubeadmControlPlane") {
		k := obj.(*controlplanev1.KubeadmControlPlane)
		w.Record("KubeadmControlPlane %s: %s, %d replicas of %s", k.Name, k.Spec.Version, *k.Spec.Replicas, k.Spec.MachineTemplate.Spec.InfrastructureRef.Name)
	}
	for _, obj := range w.objects("MachineDeployment") {
		d := obj.(*clusterv1.MachineDeployment)
		w.Record("MachineDeployment %s: %s, %d replicas of %s and %s", d.Name, d.Spec.Template.Spec.Version, *d.Spec.Replicas,
			d.Spec.Template.Spec.InfrastructureRef.Name, d.Spec.Template.Spec.Bootstrap.ConfigRef.Name)
	}
	var all []string
	for _, kind := range []string{"LocalCluster", "LocalMachineTemplate", "KubeadmConfigTemplate", "MachineHealthCheck"} {
		for _, obj := range w.objects(kind) {
			if _, owned := obj.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; owned {
				all = append(all, fmt.Sprintf("%s %s", kind, obj.GetName()))
			}
		}
	}
	slices.Sort(all)
	w.Record("and %s", cmp.Or(strings.Join(all, ", "), "nothing else"))
}

func newTopology(t *testing.T, change func(*Options)) *story {
	t.Helper()
	w := newWith(t, change)
	w.Record("# a class")
	w.create(templates + fleetClass)
	w.Run()
	return w
}

func TestAClusterComesUpFromItsClass(t *testing.T) {
	t.Parallel()
	w := newTopology(t, func(*Options) {})
	w.Record("# a Cluster of it")
	w.create(fleetCluster)
	w.RunFor(time.Minute)
	topologyOf(t, w)
	end(t, w)
	w.Golden("a-cluster-comes-up-from-its-class.txt")
}
