// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

func TestWorkersAreScaledUpAndDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	kept := f.uids("c", controlPlane)
	for _, n := range []int32{3, 1} {
		modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &n })
		f.becomes("c")
		f.eventually(func() error { return f.nodesAre("c", "v1.36.3", 1+int(n)) })
	}
	if diff := cmp.Diff(kept, f.uids("c", controlPlane)); diff != "" {
		t.Errorf("control plane machines (-before +after):\n%s", diff)
	}
}

func TestAControlPlaneIsScaledUpAndDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	kept := f.uids("c", worker)
	for _, n := range []int32{3, 5, 3} {
		modify(f, "c-control-plane", &controlplanev1.KubeadmControlPlane{}, func(cp *controlplanev1.KubeadmControlPlane) { cp.Spec.Replicas = &n })
		f.becomes("c")
		f.eventually(func() error { return f.nodesAre("c", "v1.36.3", int(n)+1) })
	}
	if diff := cmp.Diff(kept, f.uids("c", worker)); diff != "" {
		t.Errorf("workers (-before +after):\n%s", diff)
	}
}

func TestAnotherTemplateReplacesTheWorkersAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 2})
	f.becomes("c")
	old, kept := f.uids("c", worker), f.uids("c", controlPlane)
	next := &infrav1.LocalMachineTemplate{}
	next.Namespace, next.Name = f.Namespace, "c-workers-2"
	next.Spec.Template.ObjectMeta.Labels = map[string]string{"size": "large"}
	next.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	if err := f.Client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.InfrastructureRef.Name = next.Name
	})
	f.eventually(func() error {
		for _, uid := range f.uids("c", worker) {
			if slices.Contains(old, uid) {
				return fmt.Errorf("worker %s is of the old template", uid)
			}
		}
		return f.settled("c")
	})
	var machines infrav1.LocalMachineList
	if err := f.list("c", &machines); err != nil {
		t.Fatal(err)
	}
	large := 0
	for i := range machines.Items {
		if machines.Items[i].Labels["size"] == "large" {
			large++
		}
	}
	if large != 2 {
		t.Errorf("%d LocalMachines are of the new template, want 2", large)
	}
	if diff := cmp.Diff(kept, f.uids("c", controlPlane)); diff != "" {
		t.Errorf("control plane machines (-before +after):\n%s", diff)
	}
}

func TestAnotherVersionReplacesTheControlPlane(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{controlPlane: 3, workers: 1, version: "v1.35.2"})
	f.becomes("c")
	f.eventually(func() error { return f.nodesAre("c", "v1.35.2", 4) })
	old, kept := f.uids("c", controlPlane), f.uids("c", worker)
	modify(f, "c-control-plane", &controlplanev1.KubeadmControlPlane{}, func(cp *controlplanev1.KubeadmControlPlane) { cp.Spec.Version = "v1.36.3" })
	f.eventually(func() error {
		for _, uid := range f.uids("c", controlPlane) {
			if slices.Contains(old, uid) {
				return fmt.Errorf("control plane machine %s is of the old version", uid)
			}
		}
		return f.settled("c")
	})
	cp := &controlplanev1.KubeadmControlPlane{}
	if err := f.Client.Get(t.Context(), f.key("c-control-plane"), cp); err != nil || cp.Status.Version != "v1.36.3" {
		t.Errorf("the control plane reports version %q, %v", cp.Status.Version, err)
	}
	if diff := cmp.Diff(kept, f.uids("c", worker)); diff != "" {
		t.Errorf("workers (-before +after):\n%s", diff)
	}
	modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.36.3" })
	f.eventually(func() error { return errors.Join(f.settled("c"), f.nodesAre("c", "v1.36.3", 4)) })
}

func TestDeletedMachineIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{controlPlane: 3, workers: 2})
	f.becomes("c")
	for _, of := range []func(*clusterv1.Machine) bool{worker, controlPlane} {
		before := f.uids("c", of)
		uid, name, _ := strings.Cut(before[0], " ")
		if err := f.Client.Delete(t.Context(), f.machine(name)); err != nil {
			t.Fatal(err)
		}
		f.eventually(func() error {
			if slices.Contains(f.uids("c", every), uid+" "+name) {
				return fmt.Errorf("Machine %s is still there", name)
			}
			return f.settled("c")
		})
		for _, kept := range before[1:] {
			if after := f.uids("c", of); !slices.Contains(after, kept) {
				t.Errorf("Machine %s is gone, too; there are %v", kept, after)
			}
		}
	}
	f.eventually(func() error { return f.nodesAre("c", "v1.36.3", 5) })
}

func TestANodeThatIsNotReadyShowsInTheConditions(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	_, name, _ := strings.Cut(f.uids("c", worker)[0], " ")
	modify(f, name, &infrav1.LocalMachine{}, func(m *infrav1.LocalMachine) {
		m.Spec.Simulated.Faults = []infrav1.MachineFault{infrav1.MachineFaultNodeNotReady}
	})
	f.eventually(func() error {
		return errors.Join(
			f.says(f.machine(name), clusterv1.MachineNodeHealthyCondition, "False", "Node.Ready: "),
			f.says(f.machine(name), clusterv1.ReadyCondition, "False", "NodeHealthy"),
			f.says(&clusterv1.MachineDeployment{}, clusterv1.AvailableCondition, "False", "", "c-workers"),
			f.says(&clusterv1.Cluster{}, clusterv1.AvailableCondition, "False", "MachineDeployment c-workers", "c"))
	})
	modify(f, name, &infrav1.LocalMachine{}, func(m *infrav1.LocalMachine) { m.Spec.Simulated.Faults = nil })
	f.becomes("c")
}

func TestUnresponsiveClusterDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, fault := range []infrav1.ClusterFault{infrav1.ClusterFaultAPIServerHangs, infrav1.ClusterFaultAPIServerRefuses} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			for _, name := range []string{"ill", "doomed", "well"} {
				f.create(name, shape{workers: 1})
			}
			for _, name := range []string{"ill", "doomed", "well"} {
				f.becomes(name)
			}
			machines := f.uids("ill", every)
			for _, name := range []string{"ill", "doomed"} {
				modify(f, name, &infrav1.LocalCluster{}, func(lc *infrav1.LocalCluster) { lc.Spec.Simulated.Faults = []infrav1.ClusterFault{fault} })
				f.eventually(func() error {
					if _, err := f.nodesWithin(name, time.Second); err == nil {
						return fmt.Errorf("%s answers", name)
					}
					return nil
				})
			}
			modify(f, "well-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(3)) })
			f.becomes("well")
			f.remove("doomed")
			modify(f, "ill", &infrav1.LocalCluster{}, func(lc *infrav1.LocalCluster) { lc.Spec.Simulated.Faults = nil })
			modify(f, "ill-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(2)) })
			f.becomes("ill")
			for _, uid := range machines {
				if !slices.Contains(f.uids("ill", every), uid) {
					t.Errorf("Machine %s was replaced", uid)
				}
			}
		})
	}
}

func (f fleet) machine(name string) *clusterv1.Machine {
	m := &clusterv1.Machine{}
	m.Namespace, m.Name = f.Namespace, name
	return m
}

// nodesAre returns what is wrong with the Nodes of a workload cluster.
func (f fleet) nodesAre(name, version string, count int) error {
	nodes, err := f.nodes(name)
	if err != nil {
		return err
	}
	var wrong []error
	if len(nodes) != count {
		wrong = append(wrong, fmt.Errorf("%d Nodes, want %d", len(nodes), count))
	}
	for i := range nodes {
		n := &nodes[i]
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !ready || n.Status.NodeInfo.KubeletVersion != version || !strings.HasPrefix(n.Spec.ProviderID, "simulated://"+f.Namespace+"/"+name+"/") {
			wrong = append(wrong, fmt.Errorf("Node %s: ready %t, version %s, provider ID %s", n.Name, ready, n.Status.NodeInfo.KubeletVersion, n.Spec.ProviderID))
		}
	}
	return errors.Join(wrong...)
}

// says returns an error if a condition of an object differs from a status and a
// part of the message. The object is read again.
func (f fleet) says(obj client.Object, conditionType, status, message string, name ...string) error {
	if len(name) > 0 {
		obj.SetNamespace(f.Namespace)
		obj.SetName(name[0])
	}
	if err := f.Client.Get(f.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	return says(obj, conditionType, status, message)
}
