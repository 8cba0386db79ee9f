// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/clusterctl/template"
)

// clusterOf is a Cluster of a class whose provider publishes none with it.
func clusterOf(class, workers, variables string) string {
	return `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}}
  topology:
    classRef: {name: ` + class + `}
    version: v1.36.1
    controlPlane: {replicas: 1}
    workers: {` + workers + `}
    variables: [` + variables + `]
`
}

const (
	defaultWorker = "machineDeployments: [{class: default-worker, name: md-0, replicas: 1}]"
	demoWorker    = "machineDeployments: [{class: demo-worker, name: md-0, replicas: 1}]"
	vSphereWorker = "machineDeployments: [{class: cluster-class-name-worker, name: md-0, replicas: 1}]"
	managedPools  = "machinePools: [{class: default-system, name: mp-0, replicas: 1}, {class: default-worker, name: mp-1, replicas: 1}]"
)

const forVSphere = `{name: sshKey, value: key}, {name: controlPlaneIpAddr, value: 10.0.0.9}, {name: controlPlanePort, value: 6443}, {name: kubeVipPodManifest, value: "spec:\n  containers:\n  - env:\n    - name: address\n      value: none\n"}`

// published reads a file of a provider with its variables filled in.
func published(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "published", file))
	if err != nil {
		t.Fatal(err)
	}
	variables, err := template.Envsubst{}.Variables(text)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := template.Envsubst{}.Process(text, func(name string) (string, bool) {
		switch {
		case variables[name] != nil:
			return "", false // it has a default
		case name == "KUBERNETES_VERSION":
			return "v1.36.1", true
		case name == "NAMESPACE":
			return "default", true
		case name == "CLUSTER_NAME":
			return "demo", true
		case strings.HasSuffix(name, "_COUNT"):
			return "1", true
		}
		return strings.ToLower(strings.ReplaceAll(name, "_", "-")), true
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(filled)
}

// TestPublishedClassesRender renders each class that providers publish, of which
// there are files in testdata, with all of its patches.
func TestPublishedClassesRender(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files   []string
		cluster string   // if no file has it
		stored  []string // texts, and how the provider's webhook has them stored
		want    string   // kinds
		wantErr string
	}{
		"capa simple": {files: []string{"capa/cluster-template-simple-clusterclass.yaml"},
			want: "AWSCluster AWSMachineTemplate AWSMachineTemplate KubeadmConfigTemplate KubeadmControlPlane MachineDeployment"},
		"capa multitenancy": {files: []string{"capa/cluster-template-multitenancy-clusterclass.yaml"},
			stored: []string{"controlPlaneLoadBalancer:", "bastion: {enabled: false}\n      identityRef: {kind: AWSClusterControllerIdentity, name: default}\n      network: {vpc: {availabilityZoneUsageLimit: 3, availabilityZoneSelection: Ordered}}\n      controlPlaneLoadBalancer:"},
			want:   "AWSCluster AWSMachineTemplate AWSMachineTemplate KubeadmConfigTemplate KubeadmControlPlane MachineDeployment"},
		"capa eks": {files: []string{"capa/cluster-template-eks-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", defaultWorker, ""),
			want: "AWSMachineTemplate AWSManagedCluster AWSManagedControlPlane MachineDeployment NodeadmConfigTemplate"},
		"capd": {files: []string{"capd/clusterclass-quick-start.yaml"}, cluster: clusterOf("quick-start", defaultWorker, ""),
			want: "DevCluster DevMachineTemplate DevMachineTemplate KubeadmConfigTemplate KubeadmControlPlane MachineDeployment MachineHealthCheck MachineHealthCheck"},
		"capd in memory": {files: []string{"capd/clusterclass-in-memory.yaml"}, cluster: clusterOf("in-memory", defaultWorker, ""),
			want: "DevCluster DevMachineTemplate DevMachineTemplate KubeadmConfigTemplate KubeadmControlPlane MachineDeployment MachineHealthCheck MachineHealthCheck"},
		"capg": {files: []string{"capg/cluster-template-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", defaultWorker, ""),
			want: "GCPCluster GCPMachineTemplate GCPMachineTemplate KubeadmConfigTemplate KubeadmControlPlane MachineDeployment"},
		"capg gke": {files: []string{"capg/cluster-template-gke-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", managedPools, ""),
			want: "GCPManagedCluster GCPManagedControlPlane GCPManagedMachinePool GCPManagedMachinePool GKEConfig GKEConfig MachinePool MachinePool"},
		"capg autopilot": {files: []string{"capg/cluster-template-gke-autopilot-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", "", ""),
			want: "GCPManagedCluster GCPManagedControlPlane"},
		"capo": {files: []string{"capo/clusterclass-dev-test.yaml", "capo/cluster-template-topology.yaml"},
			want: "KubeadmConfigTemplate KubeadmControlPlane MachineDeployment OpenStackCluster OpenStackMachineTemplate OpenStackMachineTemplate"},
		"capv": {files: []string{"capv/clusterclass-template.yaml"}, cluster: clusterOf("cluster-class-name", vSphereWorker, forVSphere+", {name: infraServer, value: {url: vcenter, thumbprint: ab}}, {name: credsSecretName, value: demo}"),
			want: "KubeadmConfigTemplate KubeadmControlPlane MachineDeployment VSphereCluster VSphereMachineTemplate VSphereMachineTemplate"},
		"capv supervisor": {files: []string{"capv/clusterclass-template-supervisor.yaml"}, cluster: clusterOf("cluster-class-name", vSphereWorker, forVSphere),
			want: "KubeadmConfigTemplate KubeadmControlPlane MachineDeployment VSphereCluster VSphereMachineTemplate VSphereMachineTemplate"},
		"capz": {files: []string{"capz/cluster-template-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", demoWorker, ""),
			want: "AzureCluster AzureMachineTemplate AzureMachineTemplate KubeadmConfigTemplate KubeadmControlPlane MachineDeployment"},
		"capz rke2": {files: []string{"capz/cluster-template-clusterclass-rke2.yaml"}, cluster: clusterOf("cluster-class-name", demoWorker, ""),
			wantErr: `patch "azureClusterTemplate", definitions[0] for AzureClusterTemplate: add /spec/template/spec/subscriptionID: valueFrom.variable: the class defines no variable "subscriptionID"`}, // as published
		"capz aks": {files: []string{"capz/cluster-template-aks-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", managedPools, ""),
			want: "AzureManagedCluster AzureManagedControlPlane AzureManagedMachinePool AzureManagedMachinePool KubeadmConfig KubeadmConfig MachinePool MachinePool"},
		"capz aks by aso": {files: []string{"capz/cluster-template-aks-aso-clusterclass.yaml"}, cluster: clusterOf("cluster-class-name", managedPools, ""),
			want: "AzureASOManagedCluster AzureASOManagedControlPlane AzureASOManagedMachinePool AzureASOManagedMachinePool KubeadmConfig KubeadmConfig MachinePool MachinePool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tc.cluster
			for _, file := range tc.files {
				text += "\n---\n" + published(t, file)
			}
			r, err := rendered(t, strings.NewReplacer(tc.stored...).Replace(text))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil || len(r.Notes) > 0 {
				t.Fatal(err, r.Notes)
			}
			var kinds []string
			for _, o := range r.Objects {
				kinds = append(kinds, o.GetKind())
			}
			slices.Sort(kinds)
			if diff := cmp.Diff(tc.want, strings.Join(kinds, " ")); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// rendered reads a template and renders the objects of its Cluster.
func rendered(t *testing.T, text string) (Rendered, error) {
	t.Helper()
	objects, err := template.Objects([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(objects, "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Render()
}

// TestAPatchMayReplaceSpecOfATemplate and add below, as the class for vSphere does.
func TestAPatchMayReplaceSpecOfATemplate(t *testing.T) {
	t.Parallel()
	r, err := rendered(t, published(t, "capv/clusterclass-template-supervisor.yaml")+clusterOf("cluster-class-name", vSphereWorker, forVSphere))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "VSphereCluster" })
	if i < 0 {
		t.Fatal("no VSphereCluster")
	}
	host, _, _ := unstructured.NestedString(r.Objects[i].Object, "spec", "controlPlaneEndpoint", "host")
	if host != "10.0.0.9" || r.Objects[i].GetLabels()["cluster.x-k8s.io/cluster-name"] != "demo" {
		t.Errorf("got host %q, labels %v", host, r.Objects[i].GetLabels())
	}
}
