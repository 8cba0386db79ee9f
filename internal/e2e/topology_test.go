// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// simulatedClass is a class with a variable that a patch uses.
const simulatedClass = `
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalClusterTemplate
metadata: {name: t}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachineTemplate
metadata: {name: t}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: t}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {encryptionAlgorithm: ECDSA-P256}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: t}
spec: {template: {spec: {format: cloud-config}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: simulated}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: t}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: t}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: t}}
  workers:
    machineDeployments:
    - class: plain
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: t}}
      infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: t}}
      healthCheck: {checks: {nodeStartupTimeoutSeconds: 900}}
  variables:
  - {name: delay, required: false, schema: {openAPIV3Schema: {type: integer, default: 0}}}
  patches:
  - name: delay
    definitions:
    - selector: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, matchResources: {machineDeploymentClass: {names: [plain]}}}
      jsonPatches: [{op: add, path: /spec/template/metadata, valueFrom: {template: "labels: {delay: '{{ .delay }}'}"}}]
`

const ofTheClass = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  topology:
    classRef: {name: simulated}
    version: v1.35.2
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: plain, name: a, replicas: 1}]}
`

// apply creates objects that are written as users write them.
func (f fleet) apply(documents string) {
	f.Helper()
	for _, doc := range strings.Split(documents, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			f.Fatal(err)
		}
		u.SetNamespace(f.Namespace)
		if err := f.Client.Create(f.Context(), u); err != nil {
			f.Fatal(err)
		}
	}
}

// reconciled returns why a Cluster is not in the state of its topology.
func (f fleet) reconciled(name string) error {
	return f.says(&clusterv1.Cluster{}, clusterv1.ClusterTopologyReconciledCondition, "True", "", name)
}

// TestAClusterIsMadeFromAClassAndGoes: it is there before its class, follows
// templates, variables and versions, and leaves nothing.
func TestAClusterIsMadeFromAClassAndGoes(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"of its namespace": false, "of another namespace": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			classes, cluster := f, ofTheClass
			if elsewhere {
				classes = newFleet(t)
				cluster = strings.Replace(cluster, "{name: simulated}", "{name: simulated, namespace: "+classes.Namespace+"}", 1)
			}
			f.apply(cluster)
			f.followsItsClass(classes)
			f.goesAlone()
			var class clusterv1.ClusterClass
			if err := classes.Client.Get(t.Context(), classes.key("simulated"), &class); err != nil {
				t.Error(err)
			}
		})
	}
}

// followsItsClass checks that Cluster c is created when its class exists, among
// others, and follows it.
func (f fleet) followsItsClass(classes fleet) {
	f.Helper()
	f.eventually(func() error {
		return f.says(&clusterv1.Cluster{}, clusterv1.ClusterTopologyReconciledCondition, "False", fmt.Sprintf("ClusterClass %s/simulated does not exist", classes.Namespace), "c")
	})
	classes.apply(simulatedClass)
	f.becomes("c")
	f.eventually(func() error { return f.reconciled("c") })
	f.eventually(func() error { return f.nodesAre("c", "v1.35.2", 2) })

	workers := f.uids("c", worker)
	modify(classes, "t", &infrav1.LocalClusterTemplate{}, func(o *infrav1.LocalClusterTemplate) {
		o.Spec.Template.ObjectMeta.Labels = map[string]string{"site": "x"}
	})
	f.eventually(func() error {
		var nets infrav1.LocalClusterList
		if err := f.list("c", &nets); err != nil || len(nets.Items) != 1 || nets.Items[0].Labels["site"] != "x" {
			return fmt.Errorf("the label of the template has not come: %v", err)
		}
		return nil
	})
	modify(f, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: "delay", Value: apiextensionsv1.JSON{Raw: []byte("3")}}}
	})
	f.eventually(func() error {
		if now := f.uids("c", worker); slices.Equal(now, workers) {
			return fmt.Errorf("workers are still those of the other template: %v", now)
		}
		return errors.Join(f.settled("c"), f.reconciled("c"))
	})
	modify(f, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.3" })
	f.eventually(func() error { return errors.Join(f.nodesAre("c", "v1.36.3", 2), f.settled("c"), f.reconciled("c")) })
	f.eventually(func() error {
		var templates infrav1.LocalMachineTemplateList
		if err := f.Client.List(f.Context(), &templates, client.InNamespace(f.Namespace), client.HasLabels{clusterv1.ClusterTopologyOwnedLabel}); err != nil || len(templates.Items) != 2 {
			return fmt.Errorf("%d copies of templates, want 2, for control plane and workers: %v", len(templates.Items), err)
		}
		return nil
	})
	class := &clusterv1.ClusterClass{}
	class.Namespace, class.Name = classes.Namespace, "simulated"
	if err := classes.Client.Delete(f.Context(), class); err == nil || !strings.Contains(err.Error(), "used by Cluster(s): "+f.Namespace+"/c") {
		f.Errorf("the class is deleted while it is used: %v", err)
	}
}

// goesAlone checks that Cluster c is deleted, with all that was created from its
// class.
func (f fleet) goesAlone() {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.must(f.Client.Get(f.Context(), f.key("c"), cluster))
	f.must(f.Client.Delete(f.Context(), cluster))
	f.eventually(func() error {
		if err := f.Client.Get(f.Context(), f.key("c"), cluster); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Cluster is still there: %v", cluster.Status.Conditions)
		}
		return nil
	})
	for _, kind := range []string{"LocalMachineTemplate", "KubeadmConfigTemplate"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(map[bool]string{true: "infrastructure.capstan.dev/v1beta2", false: "bootstrap.cluster.x-k8s.io/v1beta2"}[kind == "LocalMachineTemplate"])
		list.SetKind(kind + "List")
		f.eventually(func() error {
			if err := f.Client.List(f.Context(), list, client.InNamespace(f.Namespace), client.HasLabels{clusterv1.ClusterTopologyOwnedLabel}); err != nil || len(list.Items) > 0 {
				return fmt.Errorf("%d %s left, %v", len(list.Items), kind, err)
			}
			return nil
		})
	}
}
