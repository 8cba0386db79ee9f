// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/simulated"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// vSphere is a simulated vCenter (peer/capv/vcsim). A virtual machine that the genuine
// manager clones there and gives power to is booted as a simulated machine of this test,
// with the user data that it has in vCenter: it is a Node of the workload cluster, whose
// API server and etcd are simulated.
type vSphere struct {
	fleet
	backend  localinfra.Backend
	cluster  localinfra.Cluster
	endpoint clusterv1.APIEndpoint
	vCenter  struct{ VCenter, Username, Password, Machines string }
	booted   map[string]localinfra.Machine // by UUID
}

// newVSphere starts the vCenter and boots its machines until the test ends.
func newVSphere(f fleet, cluster string) *vSphere {
	f.Helper()
	v := &vSphere{fleet: f, booted: map[string]localinfra.Machine{}}
	backend, err := simulated.New(simulated.Options{Dir: f.TempDir()})
	f.must(err)
	v.backend = backend
	f.Cleanup(func() {
		if err := backend.Close(); err != nil {
			f.Errorf("close the machines of the virtual machines: %v", err)
		}
	})
	v.cluster = localinfra.Cluster{NamespacedName: f.key(cluster), ID: "vsphere-" + localinfra.ID(cluster), Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{}}}
	v.endpoint, err = backend.EnsureCluster(f.Context(), v.cluster)
	f.must(err)
	cmd := f.program("CAPSTAN_CAPV_VCSIM", nil)
	in, err := cmd.StdinPipe()
	f.must(err)
	out, err := cmd.StdoutPipe()
	f.must(err)
	f.must(cmd.Start())
	f.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			f.Errorf("vCenter: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	f.must(err)
	f.must(json.Unmarshal(line, &v.vCenter))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if err := v.boot(ctx); err != nil && ctx.Err() == nil {
				f.Logf("the machines of vCenter: %v", err)
			}
		}
	}()
	f.Cleanup(func() { cancel(); <-ended })
	return v
}

// program is one that make peer-capv built, whose path is in a variable. Its output is
// shown if the test fails.
func (f fleet) program(variable string, env []string, args ...string) *exec.Cmd {
	f.Helper()
	cmd := exec.Command(os.Getenv(variable), args...)
	cmd.Env = append(os.Environ(), env...)
	log, err := os.Create(filepath.Join(f.TempDir(), "log"))
	f.must(err)
	cmd.Stderr = log
	f.Cleanup(func() {
		text, err := os.ReadFile(log.Name())
		if f.Failed() {
			f.Logf("%s: %v\n%s", filepath.Base(cmd.Path), err, text[max(0, len(text)-20_000):])
		}
		_ = log.Close()
	})
	return cmd
}

// machines are the virtual machines that have power.
func (v *vSphere) machines(ctx context.Context) (all []struct {
	Name, UUID, Version string
	UserData            []byte
}, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.vCenter.Machines, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return all, json.NewDecoder(resp.Body).Decode(&all)
}

// boot starts the machines of virtual machines that got power, and removes those of the
// others.
func (v *vSphere) boot(ctx context.Context) error {
	all, err := v.machines(ctx)
	if err != nil {
		return err
	}
	left := map[string]localinfra.Machine{}
	for uuid, m := range v.booted {
		left[uuid] = m
	}
	var errs []error
	for _, vm := range all {
		delete(left, vm.UUID)
		m := localinfra.Machine{
			NamespacedName: types.NamespacedName{Namespace: v.cluster.Namespace, Name: vm.Name}, ID: localinfra.ID(vm.UUID), Cluster: v.cluster.Name, ClusterID: v.cluster.ID,
			Version: vm.Version, BootstrapData: vm.UserData, Spec: infrav1.LocalMachineSpec{ProviderID: "vsphere://" + vm.UUID, Simulated: &infrav1.LocalMachineSimulated{}},
		}
		v.booted[vm.UUID] = m
		_, err := v.backend.EnsureMachine(ctx, m)
		errs = append(errs, err)
	}
	for uuid, m := range left {
		errs = append(errs, v.backend.DeleteMachine(ctx, m))
		delete(v.booted, uuid)
	}
	return errors.Join(errs...)
}

// startManager defines the kinds of the genuine manager and runs it until the test ends,
// as a process of this host. Its webhooks are not registered.
func (v *vSphere) startManager(kubeconfig string) {
	v.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("CAPSTAN_CAPV_CRDS"), "*.yaml"))
	v.must(err)
	if len(files) == 0 {
		v.Fatal("CAPSTAN_CAPV_CRDS names a folder without definitions: run make peer-capv")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		v.must(err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		v.must(yaml.Unmarshal(text, crd))
		crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1"} // as the provider's kustomization has it
		v.Define(v.T, crd)
	}
	pair, err := certs.New(certs.CA, certs.ECDSAP256, time.Now(), 0) // nothing calls the webhooks
	v.must(err)
	dir := v.TempDir()
	v.must(errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Cert, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600)))
	cmd := v.program("CAPSTAN_CAPV_MANAGER", []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=default"},
		"--leader-elect=false", "--webhook-cert-dir="+dir, "--webhook-port="+port(testenv.FreeAddress(v.T)), "--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics", "--v=4")
	v.must(cmd.Start())
	v.Cleanup(func() {
		v.must(cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // how it ends is its own matter
	})
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// vSphereTemplate is a template of virtual machines, with the version of their image.
const vSphereTemplate = `---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineTemplate
metadata: {name: NAME-v1.35.2}
spec: {template: {spec: {server: VCENTER, datacenter: DC0, folder: /DC0/vm, datastore: LocalDS_0, resourcePool: /DC0/host/DC0_C0/Resources, template: DC0_C0_RP0_VM0,
  cloneMode: fullClone, numCPUs: 2, memoryMiB: 2048, diskGiB: 25, network: {devices: [{networkName: VM Network, dhcp4: true}]}, customVMXKeys: {capstan.version: v1.35.2}}}}
`

// vSphereCluster is a cluster, after the provider's template.
const vSphereCluster = `
apiVersion: v1
kind: Secret
metadata: {name: NAME}
stringData: {username: USERNAME, password: PASSWORD}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereCluster
metadata: {name: NAME}
spec:
  server: VCENTER
  identityRef: {kind: Secret, name: NAME}
  controlPlaneEndpoint: {host: HOST, port: PORT}
` + vSphereTemplate + `---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: NAME}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: '{{ local_hostname }}'}}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: NAME}
spec:
  replicas: 1
  version: v1.35.2
  machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereMachineTemplate, name: NAME-v1.35.2}}}
  kubeadmConfigSpec:
    initConfiguration: {nodeRegistration: {name: '{{ local_hostname }}'}}
    joinConfiguration: {nodeRegistration: {name: '{{ local_hostname }}'}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: NAME, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec:
  clusterName: NAME
  replicas: 1
  selector: {}
  template:
    spec:
      clusterName: NAME
      version: v1.35.2
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: NAME}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereMachineTemplate, name: NAME-v1.35.2}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: NAME}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereCluster, name: NAME}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: NAME}
`

// TestVSphereManagerRunsCluster has the genuine manager of the vSphere provider create,
// scale, upgrade and delete a cluster in a simulated vCenter.
func TestVSphereManagerRunsCluster(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	if os.Getenv("CAPSTAN_CAPV_MANAGER") == "" {
		t.Skip("CAPSTAN_CAPV_MANAGER names no program: run make peer-capv")
	}
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	v := newVSphere(f, "vm")
	v.startManager(datadir.Dir(p.dir).Kubeconfig())
	filled := strings.NewReplacer("VCENTER", v.vCenter.VCenter, "USERNAME", v.vCenter.Username, "PASSWORD", v.vCenter.Password, "HOST", v.endpoint.Host, "PORT", fmt.Sprint(v.endpoint.Port))
	f.write(filled.Replace(vSphereCluster+strings.ReplaceAll(vSphereTemplate, "v1.35.2", "v1.36.3")), "vm")
	f.eventually(func() error { return f.has("vm", 2) })
	v.areNodes(2)
	three := func(n *int32) { *n = 3 }
	modify(f, "vm", &controlplanev1.KubeadmControlPlane{}, func(cp *controlplanev1.KubeadmControlPlane) { three(cp.Spec.Replicas) })
	modify(f, "vm", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { three(md.Spec.Replicas) })
	f.eventually(func() error { return f.has("vm", 6) })
	v.areNodes(6)
	modify(f, "vm", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(1)) })
	f.eventually(func() error { return f.has("vm", 4) })
	modify(f, "vm", &controlplanev1.KubeadmControlPlane{}, func(cp *controlplanev1.KubeadmControlPlane) {
		cp.Spec.Version, cp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "v1.36.3", "vm-v1.36.3"
	})
	f.eventually(func() error { return f.runs("vm", controlPlane, "v1.36.3") })
	modify(f, "vm", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Version, md.Spec.Template.Spec.InfrastructureRef.Name = "v1.36.3", "vm-v1.36.3"
	})
	f.eventually(func() error { return f.runs("vm", every, "v1.36.3") })
	v.areNodes(4)
	f.remove("vm")
	f.eventually(func() error {
		left, err := v.machines(t.Context())
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("vCenter has %d virtual machines with power", len(left))
		}
		return err
	})
}

// areNodes holds the Machines against vCenter and the Nodes of the workload cluster.
func (v *vSphere) areNodes(want int) {
	v.Helper()
	all, err := v.machines(v.Context())
	v.must(err)
	vms := map[string]bool{}
	for _, vm := range all {
		vms["vsphere://"+vm.UUID] = true
	}
	nodes, err := v.nodes("vm")
	v.must(err)
	machines, err := v.fleet.machines("vm")
	v.must(err)
	if len(vms) != want || len(nodes) != want || len(machines) != want {
		v.Errorf("%d virtual machines, %d Nodes, %d Machines, want %d", len(vms), len(nodes), len(machines), want)
	}
	for i := range machines {
		if m := &machines[i]; !vms[m.Spec.ProviderID] || !m.Status.NodeRef.IsDefined() || len(m.Status.Addresses) == 0 {
			v.Errorf("Machine %s has provider ID %q, Node %q, addresses %v", m.Name, m.Spec.ProviderID, m.Status.NodeRef.Name, m.Status.Addresses)
		}
	}
	for i := range nodes {
		if !vms[nodes[i].Spec.ProviderID] {
			v.Errorf("Node %s has provider ID %q, which no virtual machine has", nodes[i].Name, nodes[i].Spec.ProviderID)
		}
	}
}
