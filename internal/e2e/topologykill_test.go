// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// moment is one at which the plane is killed: when it has written this.
type moment struct {
	of      client.ObjectList
	written func(client.Object) bool
}

func anyOf(client.Object) bool { return true }

// creation has a moment after each write of a topology.
var creation = map[string]moment{
	"the references of the Cluster": {&clusterv1.ClusterList{}, func(o client.Object) bool { return o.(*clusterv1.Cluster).Spec.ControlPlaneRef.IsDefined() }},
	"LocalCluster":                  {&infrav1.LocalClusterList{}, anyOf},
	"LocalMachineTemplate":          {&infrav1.LocalMachineTemplateList{}, anyOf},
	"KubeadmControlPlane":           {&controlplanev1.KubeadmControlPlaneList{}, anyOf},
	"KubeadmConfigTemplate":         {&bootstrapv1.KubeadmConfigTemplateList{}, anyOf},
	"MachineDeployment":             {&clusterv1.MachineDeploymentList{}, anyOf},
	"MachineHealthCheck":            {&clusterv1.MachineHealthCheckList{}, anyOf},
}

const (
	upgradeStep  = "topology.internal.cluster.x-k8s.io/upgrade-step"
	pendingHooks = "runtime.cluster.x-k8s.io/pending-hooks"
)

// upgrading has one after each write of an upgrade to a version.
func upgrading(version string) map[string]moment {
	mark := func(name, value string) moment {
		return moment{&clusterv1.ClusterList{}, func(o client.Object) bool { return strings.Contains(o.GetAnnotations()[name], value) }}
	}
	return map[string]moment{
		"the step":                     mark(upgradeStep, version),
		"the hooks after the workers":  mark(pendingHooks, "AfterWorkersUpgrade"),
		"the hook after it all":        mark(pendingHooks, "AfterClusterUpgrade"),
		"the version of control plane": {&controlplanev1.KubeadmControlPlaneList{}, func(o client.Object) bool { return o.(*controlplanev1.KubeadmControlPlane).Spec.Version == version }},
		"the version of the workers": {&clusterv1.MachineDeploymentList{}, func(o client.Object) bool {
			return o.(*clusterv1.MachineDeployment).Spec.Template.Spec.Version == version
		}},
	}
}

// some is the one moment that every run tries; make kills tries them all.
func some(all map[string]moment, one string) []string {
	if os.Getenv("CAPSTAN_KILLS") == "all" {
		return slices.Sorted(maps.Keys(all))
	}
	return []string{one}
}

// when calls do, and returns as soon as a moment has come for a cluster.
func (f fleet) when(m moment, cluster string, do func()) {
	f.Helper()
	c, err := client.NewWithWatch(f.Config, client.Options{Scheme: f.Client.Scheme()})
	f.must(err)
	ctx, cancel := context.WithTimeout(f.Context(), testenv.Limit(stepTimeout))
	defer cancel()
	w, err := c.Watch(ctx, m.of, client.InNamespace(f.Namespace))
	f.must(err)
	defer w.Stop()
	do()
	for e := range w.ResultChan() {
		obj, is := e.Object.(client.Object)
		if is && strings.HasPrefix(obj.GetName()+"-", cluster+"-") && m.written(obj) {
			return
		}
	}
	f.Fatalf("the moment has not come for Cluster %s: %v", cluster, context.Cause(ctx))
}

// parts counts what a topology has created for a cluster.
func (f fleet) parts(cluster string) map[string]int {
	f.Helper()
	all := map[string]int{}
	for _, list := range []client.ObjectList{
		&infrav1.LocalClusterList{}, &infrav1.LocalMachineTemplateList{}, &controlplanev1.KubeadmControlPlaneList{},
		&bootstrapv1.KubeadmConfigTemplateList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineHealthCheckList{},
	} {
		f.must(f.Client.List(f.Context(), list, client.InNamespace(f.Namespace), client.HasLabels{clusterv1.ClusterTopologyOwnedLabel}))
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1beta2."), "List")
		f.must(meta.EachListItem(list, func(obj runtime.Object) error {
			if strings.HasPrefix(obj.(client.Object).GetName(), cluster+"-") {
				all[kind]++
			}
			return nil
		}))
	}
	return all
}

// TestATopologySurvivesKills kills the plane once something is written, in a creation
// and in an upgrade, and starts it again. The simulation kills between any two
// writes; here the moment is met as nearly as a watch allows.
func TestATopologySurvivesKills(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	f.apply(strings.TrimSpace(simulatedClass))
	want := map[string]int{"LocalCluster": 1, "LocalMachineTemplate": 2, "KubeadmControlPlane": 1, "KubeadmConfigTemplate": 1, "MachineDeployment": 1, "MachineHealthCheck": 1}
	whole := func(name, what string) {
		t.Helper()
		f.becomes(name)
		f.eventually(func() error { return f.reconciled(name) })
		f.eventually(func() error { // what is no longer used is deleted at last
			if d := cmp.Diff(want, f.parts(name)); d != "" {
				return fmt.Errorf("killed after %s (-want +made):\n%s", what, d)
			}
			return nil
		})
	}
	for i, what := range some(creation, "KubeadmControlPlane") {
		name := fmt.Sprintf("c%d", i)
		f.when(creation[what], name, func() { f.apply(strings.Replace(strings.TrimSpace(ofTheClass), "name: c}", "name: "+name+"}", 1)) })
		f.must(p.crash())
		f = p.start()
		whole(name, what)
	}
	for i, what := range some(upgrading(""), "the version of control plane") {
		version := fmt.Sprintf("v1.35.%d", 3+i)
		f.when(upgrading(version)[what], "c0", func() {
			modify(f, "c0", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = version })
		})
		f.must(p.crash())
		f = p.start()
		f.eventually(func() error { return f.nodesAre("c0", version, 2) })
		whole("c0", what)
		f.eventually(func() error { return f.unmarked("c0") })
	}
}

// unmarked returns which marks of an upgrade a Cluster still has.
func (f fleet) unmarked(name string) error {
	c := &clusterv1.Cluster{}
	if err := f.Client.Get(f.Context(), f.key(name), c); err != nil {
		return err
	}
	if step, hooks := c.Annotations[upgradeStep], c.Annotations[pendingHooks]; step+hooks != "" {
		return fmt.Errorf("step %q, hooks %q", step, hooks)
	}
	return nil
}
