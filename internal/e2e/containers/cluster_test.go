// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestAClusterOfContainerMachines does on one cluster what can be done on any: making
// one takes most of the time.
func TestAClusterOfContainerMachines(t *testing.T) {
	l := newLab(t)
	before := l.left(t)
	c := l.create(t, "real", shape{flavor: "container", version: l.version, controlPlane: 1, workers: 2})
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"nodes are what they seem", nodesAreGenuine},
		{"the network came as an add-on", networkIsAnAddon},
		{"Pods reach each other across machines", podsReachEachOther},
		{"a Pod shows its log and runs commands", podsAreLookedInto},
		{"the console of a machine is shown", consoleIsShown},
		{"machines outlive the plane", machinesOutliveThePlane},
		{"a machine reboots", machineReboots},
		{"a control plane reboots", controlPlaneReboots},
		{"a pool is scaled", poolIsScaled},
		{"a machine that was killed is replaced", killedMachineIsReplaced},
	} {
		t.Run(strings.ReplaceAll(part.name, " ", "-"), func(t *testing.T) { part.test(t, c) })
	}
	c.leavesNothing(t, before)
}

func nodesAreGenuine(t *testing.T, c *cluster) {
	out := c.do(t, "", "get", "nodes", "--output", `jsonpath={range .items[*]}{.metadata.name} {.spec.providerID} {.status.nodeInfo.machineID} {.status.nodeInfo.bootID} {.status.nodeInfo.containerRuntimeVersion}{"\n"}{end}`)
	machines, boots := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 5 || f[1] != "local://default/real/"+f[0] || !strings.HasPrefix(f[4], "containerd://") {
			t.Errorf("node %q", line)
			continue
		}
		machines[f[2]], boots[f[3]] = true, true
	}
	if len(machines) != c.machines || len(boots) != c.machines {
		t.Errorf("%d nodes share machine IDs or boot IDs:\n%s", c.machines, out)
	}
}

func networkIsAnAddon(t *testing.T, c *cluster) {
	if got := c.mgmt(t, "", "get", "clusterresourcesetbinding", c.name, "--output", "jsonpath={.spec.bindings[*].resources[*].applied}"); got != "true" {
		t.Errorf("applied resources %q", got)
	}
	if got := c.do(t, "", "get", "daemonset", "capstan-network", "--namespace", "kube-system", "--output", "jsonpath={.status.numberReady}"); got != fmt.Sprint(c.machines) {
		t.Errorf("%s Pods of the network are ready, want %d", got, c.machines)
	}
}

func podsReachEachOther(t *testing.T, c *cluster) {
	pods := c.web(t, "reach", 2)
	if pods[0].node == pods[1].node {
		t.Fatalf("both Pods are on %s", pods[0].node)
	}
	c.reachEachOther(t, "reach", pods)
}

func podsAreLookedInto(t *testing.T, c *cluster) {
	p := c.web(t, "look", 2)[0]
	if got := c.do(t, "", "exec", "--namespace", "look", p.name, "--", "cat", "/tmp/index.html"); got != p.name+"\n" {
		t.Errorf("a command printed %q", got)
	}
	if _, err := c.try(t.Context(), "", "exec", "--namespace", "look", p.name, "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("a command that fails: %v", err)
	}
	testenv.Eventually(t, func() error {
		out, err := c.try(t.Context(), "", "logs", "--namespace", "look", p.name)
		if err == nil && !strings.Contains(out, `"GET / HTTP/1.1" 200`) {
			err = fmt.Errorf("log %q", out)
		}
		return err
	})
}

func consoleIsShown(t *testing.T, c *cluster) {
	node := c.oneOf(t, workers)
	out, err := tryCommand(t.Context(), "", c.program, "logs", "machine", node, "--containers-dir", c.containers)
	if err != nil || !strings.Contains(out, "Welcome to") || !strings.Contains(out, "This node has joined the cluster") {
		t.Errorf("console, %v:\n%s", err, out)
	}
}

func machinesOutliveThePlane(t *testing.T, c *cluster) {
	pods := c.web(t, "outlive", 2)
	running := c.supervisors(t)
	if len(running) != c.machines {
		t.Errorf("containers %v, want %d", running, c.machines)
	}
	if err := c.process.Stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(running, c.supervisors(t)); diff != "" {
		t.Errorf("containers while the plane is away (-want +got):\n%s", diff)
	}
	c.up(t)
	c.ready(t, c.version)
	if diff := cmp.Diff(running, c.supervisors(t)); diff != "" {
		t.Errorf("containers after the plane is back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pods, c.webPods(t, "outlive", 2), cmp.AllowUnexported(pod{})); diff != "" {
		t.Errorf("Pods after the plane is back (-want +got):\n%s", diff)
	}
	c.reachEachOther(t, "outlive", pods)
}

func machineReboots(t *testing.T, c *cluster) {
	pods := c.web(t, "reboot", 2)
	c.reboot(t, pods[0].node)
	testenv.Within(t, changing, func() error { // for a while the API server's Pods are from before
		out, err := c.try(t.Context(), "", "get", "pod", pods[0].name, "--namespace", "reboot", "--output", "jsonpath={.status.containerStatuses[0].restartCount}")
		if err == nil && out != "1" {
			err = fmt.Errorf("the Pod was restarted %s times, want once", out)
		}
		return err
	})
	again := c.webPods(t, "reboot", 2)
	if again[0].name != pods[0].name || again[1] != pods[1] {
		t.Errorf("Pods %v, were %v", again, pods)
	}
	c.reachEachOther(t, "reboot", again)
}

func controlPlaneReboots(t *testing.T, c *cluster) {
	c.do(t, "", "create", "configmap", "kept", "--from-literal", "what=this")
	c.reboot(t, c.oneOf(t, controlPlanes))
	if got := c.do(t, "", "get", "configmap", "kept", "--output", "jsonpath={.data.what}"); got != "this" {
		t.Errorf("etcd has kept %q", got)
	}
	pods := c.web(t, "rebooted", 2)
	c.reachEachOther(t, "rebooted", pods)
}

// reboot makes a machine reboot from inside, and waits until its node is ready
// again.
func (c *cluster) reboot(t *testing.T, node string) {
	t.Helper()
	was, supervisors := c.first(t, node), c.supervisors(t)
	if was == 0 {
		t.Fatalf("machine %s does not run", node)
	}
	c.inside(t, node, "systemctl", "reboot", "--no-block")
	testenv.Within(t, changing, func() error {
		if now := c.first(t, node); now == 0 || now == was {
			return fmt.Errorf("machine %s has not started again: its first process is %d", node, now)
		}
		out, err := c.try(t.Context(), "", "get", "node", node, "--output", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && out != "True" {
			err = fmt.Errorf("node %s is ready: %q", node, out)
		}
		return err
	})
	c.ready(t, c.version)
	if diff := cmp.Diff(supervisors, c.supervisors(t)); diff != "" {
		t.Errorf("containers after the reboot (-want +got):\n%s", diff)
	}
}

// machinePool are workers of a cluster that are one object.
const machinePool = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: real-pool}
spec:
  clusterName: real
  replicas: 1
  template:
    spec:
      clusterName: real
      version: %s
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: real-pool}}
      infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachinePool, name: real-pool}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachinePool
metadata: {name: real-pool, labels: {cluster.x-k8s.io/cluster-name: real}}
spec: {template: {container: {}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: real-pool, labels: {cluster.x-k8s.io/cluster-name: real}}
spec:
  joinConfiguration:
    nodeRegistration:
      name: '{{ ds.meta_data.local_hostname }}'
      kubeletExtraArgs: [{name: provider-id, value: '{{ ds.meta_data.provider_id }}'}]
`

func poolIsScaled(t *testing.T, c *cluster) {
	others := c.machines
	defer func() { c.machines = others }()
	c.mgmt(t, fmt.Sprintf(machinePool, c.version), "apply", "--filename", "-")
	c.machines = others + 1
	c.ready(t, c.version)
	c.mgmt(t, "", "scale", "machinepool", "real-pool", "--replicas", "3")
	c.machines = others + 3
	c.ready(t, c.version)
	c.poolHas(t, 3)
	pods := c.web(t, "pool", 5)
	c.reachEachOther(t, "pool", pods)
	c.mgmt(t, "", "scale", "machinepool", "real-pool", "--replicas", "1")
	c.machines = others + 1
	c.ready(t, c.version)
	c.poolHas(t, 1)
	if running := c.supervisors(t); len(running) != c.machines {
		t.Errorf("containers %v, want %d", running, c.machines)
	}
	c.mgmt(t, "", "delete", "machinepool", "real-pool", "--timeout", changing.String())
	c.machines = others
	c.ready(t, c.version)
}

// poolHas waits until the pool reports that so many of its machines are ready.
func (c *cluster) poolHas(t *testing.T, want int) {
	t.Helper()
	testenv.Within(t, changing, func() error {
		got := c.mgmt(t, "", "get", "machinepool", "real-pool", "--output", "jsonpath={.status.readyReplicas} {.status.replicas}")
		if got != fmt.Sprintf("%d %[1]d", want) {
			return fmt.Errorf("replicas that are ready, and all: %q, want %d", got, want)
		}
		return nil
	})
}

const healthCheck = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: %s}
spec:
  clusterName: %[1]s
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: %[1]s}}
  checks:
    unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 5}]
`

func killedMachineIsReplaced(t *testing.T, c *cluster) {
	c.mgmt(t, fmt.Sprintf(healthCheck, c.name), "apply", "--filename", "-")
	victim := c.oneOf(t, workers)
	pods := c.replaced(t, victim, "killed", 2)
	c.reachEachOther(t, "killed", pods)
}

// replaced kills a machine, and waits until another one replaces it and runs what
// it ran.
func (c *cluster) replaced(t *testing.T, victim, namespace string, workers int) []pod {
	t.Helper()
	c.web(t, namespace, workers)
	c.kill(t, victim)
	testenv.Within(t, changing, func() error {
		nodes, err := c.nodes(t.Context(), c.version)
		if err == nil && nodes[victim] != "" {
			err = fmt.Errorf("node %s is still ready", victim)
		}
		return err
	})
	c.ready(t, c.version)
	if running := slices.Sorted(maps.Keys(c.supervisors(t))); len(running) != c.machines || slices.ContainsFunc(running, func(name string) bool { return strings.HasPrefix(name, victim+"-") }) {
		t.Errorf("containers %v, want %d without %s", running, c.machines, victim)
	}
	return c.webPods(t, namespace, workers)
}

// kill ends the first process of a machine, and all others with it.
func (c *cluster) kill(t *testing.T, machine string) {
	t.Helper()
	pid := c.first(t, machine)
	if pid == 0 {
		t.Fatal(errors.New("machine " + machine + " does not run"))
	}
	if _, err := tryCommand(t.Context(), "", "kill", "-KILL", fmt.Sprint(pid)); err != nil {
		t.Fatal(err)
	}
}

// TestAControlPlaneOutlivesAMachine kills one of three machines of a control plane:
// the API server answers on, at the same endpoint, and another machine takes its place.
func TestAControlPlaneOutlivesAMachine(t *testing.T) {
	l := newLab(t)
	before := l.left(t)
	c := l.create(t, "three", shape{flavor: "container", version: l.version, controlPlane: 3, workers: 1})
	c.count(t)
	c.mgmt(t, fmt.Sprintf(healthCheck, c.name), "apply", "--filename", "-")
	from, err := c.counted(t)
	if err != nil {
		t.Fatal(err)
	}
	// What it leaves in the cluster is removed while there is one.
	t.Run("a-control-plane-that-was-killed-is-replaced", func(t *testing.T) { c.replaced(t, c.oneOf(t, controlPlanes), "lost", 1) })
	c.counts(t, from)
	c.etcdIsWhole(t)
	c.leavesNothing(t, before)
}
