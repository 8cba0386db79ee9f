// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// comeUp creates the Cluster of the stories, and waits for it.
func comeUp(t *testing.T, w *story) {
	t.Helper()
	w.Record("# a Cluster of it")
	w.create(fleetCluster)
	w.RunFor(time.Minute)
	topologyOf(t, w)
}

// TestAVariableReachesTheMachinesThatItIsFor: the template of the workers is
// rotated, the reference moves, the workers are replaced, and the old template is
// deleted.
func TestAVariableReachesTheMachinesThatItIsFor(t *testing.T) {
	t.Parallel()
	w := newTopology(t, func(*Options) {})
	comeUp(t, w)
	set := func(value string) {
		change(t, w, "demo", &clusterv1.Cluster{}, "set the variable startup to "+value, func(c *clusterv1.Cluster) {
			c.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: "startup", Value: apiextensionsv1.JSON{Raw: []byte(value)}}}
		})
		w.RunFor(time.Minute)
		topologyOf(t, w)
	}
	set("1000")
	set("2000")
	end(t, w)
	w.Golden("a-variable-reaches-the-machines-that-it-is-for.txt")
}

func TestATemplateOfTheClassIsRotated(t *testing.T) {
	t.Parallel()
	w := newTopology(t, func(*Options) {})
	comeUp(t, w)
	w.Record("# another template in the class, for control plane and workers")
	w.create(`
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachineTemplate
metadata: {name: host-2}
spec: {template: {spec: {simulated: {vm: {startupMilliseconds: 500}}}}}
`)
	edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) {
		c.Spec.ControlPlane.MachineInfrastructure.TemplateRef.Name = "host-2"
		c.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef.Name = "host-2"
	})
	w.RunFor(time.Minute)
	topologyOf(t, w)
	w.Record("# labels for the Machines, which are no reason to replace any")
	edit(t, w, "fleet", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) {
		c.Spec.ControlPlane.Metadata.Labels = map[string]string{"tier": "one"}
		c.Spec.Workers.MachineDeployments[0].Metadata.Labels = map[string]string{"tier": "two"}
	})
	w.RunFor(time.Minute)
	topologyOf(t, w)
	for _, obj := range w.objects("Machine") {
		w.Record("Machine %s is labelled tier=%s", obj.GetName(), obj.GetLabels()["tier"])
	}
	end(t, w)
	w.Golden("a-template-of-the-class-is-rotated.txt")
}

func TestAClusterChangesItsClass(t *testing.T) {
	t.Parallel()
	w := newTopology(t, func(*Options) {})
	comeUp(t, w)
	w.Record("# another class, with another default and a health check")
	w.create(strings.NewReplacer("name: fleet", "name: navy", "default: 2000", "default: 3000", "{class: worker, ", "{class: worker, healthCheck: {checks: {nodeStartupTimeoutSeconds: 900}}, ").Replace(fleetClass))
	w.Run()
	change(t, w, "demo", &clusterv1.Cluster{}, "use it", func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "navy" })
	w.RunFor(time.Minute)
	topologyOf(t, w)
	end(t, w)
	w.Golden("a-cluster-changes-its-class.txt")
}

// TestAClassOfAnotherNamespace serves a Cluster until its deletion: its objects are
// created in the namespace of the Cluster, from templates in the namespace of the
// class, also if there are others of the same names next to the Cluster.
func TestAClassOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	w := newWith(t, func(*Options) {})
	class := func(namespace string) {
		w.createIn(namespace, templates+fleetClass)
		w.RunFor(time.Minute)
	}
	copies := func() {
		topologyOf(t, w)
		for _, kind := range []string{"LocalClusterTemplate", "LocalMachineTemplate", "KubeadmControlPlaneTemplate", "KubeadmConfigTemplate", "LocalCluster", "KubeadmControlPlane", "MachineDeployment"} {
			for _, obj := range w.objects(kind) {
				var owners []string
				for _, o := range obj.GetOwnerReferences() {
					owners = append(owners, o.Kind+" "+o.Name)
				}
				w.Record("%s %s/%s belongs to %s", kind, obj.GetNamespace(), obj.GetName(), cmp.Or(strings.Join(owners, ", "), "undefined"))
			}
		}
	}
	w.Record("# a Cluster of a class in a namespace that does not exist")
	w.create(strings.Replace(fleetCluster, "{name: fleet}", "{name: fleet, namespace: shared}", 1))
	w.Run()
	topologyOf(t, w)
	w.Record("# namespace and class are created, and another class of its name next to the Cluster")
	class("shared")
	class("default")
	copies()
	w.Record("# a template next to the Cluster changes, and then one of the class")
	for _, namespace := range []string{"default", "shared"} {
		host := &infrav1.LocalMachineTemplate{}
		w.must(w.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "host"}, host))
		host.Spec.Template.ObjectMeta.Labels = map[string]string{"from": namespace}
		w.must(w.Mgmt.Update(t.Context(), host))
		w.RunFor(time.Minute)
		topologyOf(t, w)
	}
	change(t, w, "demo", &clusterv1.Cluster{}, "use the class next to the Cluster", func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Namespace = "" })
	w.RunFor(time.Minute)
	topologyOf(t, w)
	change(t, w, "demo", &clusterv1.Cluster{}, "use the other one again, and upgrade", func(c *clusterv1.Cluster) {
		c.Spec.Topology.ClassRef.Namespace, c.Spec.Topology.Version = "shared", "v1.34.2"
	})
	w.RunFor(5 * time.Minute)
	copies()
	end(t, w)
	w.Record("# delete the Cluster")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.RunFor(time.Minute)
	left(w)
	w.Golden("a-class-of-another-namespace.txt")
}

// TestWorkersThatComeDuringAnUpgradeWaitForIt, as all changes of those that exist.
func TestWorkersThatComeDuringAnUpgradeWaitForIt(t *testing.T) {
	t.Parallel()
	w, x := withObserver(t)
	comeUp(t, w)
	held := true
	x.hold = func(call string) int32 {
		if held && strings.HasPrefix(call, "AfterControlPlaneUpgrade") {
			return 60
		}
		return 0
	}
	change(t, w, "demo", &clusterv1.Cluster{}, "upgrade to v1.34.2, where the workers are held up", func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.34.2" })
	change(t, w, "demo", &clusterv1.Cluster{}, "more workers, with a label and a timeout, and a second group", func(c *clusterv1.Cluster) {
		groups := &c.Spec.Topology.Workers.MachineDeployments
		(*groups)[0].Replicas = new(int32(2))
		(*groups)[0].Metadata.Labels = map[string]string{"tier": "one"}
		(*groups)[0].Deletion.NodeDrainTimeoutSeconds = new(int32(30))
		*groups = append(*groups, clusterv1.MachineDeploymentTopology{Class: "worker", Name: "green", Replicas: new(int32(1))})
	})
	w.RunFor(30 * time.Second)
	topologyOf(t, w)
	for _, obj := range w.objects("MachineDeployment") {
		d := obj.(*clusterv1.MachineDeployment)
		w.Record("MachineDeployment %s: tier=%s, drains take %d seconds at most", d.Name, d.Labels["tier"], ptr.Deref(d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds, 0))
	}
	w.Record("# the workers are released")
	held = false
	w.RunFor(5 * time.Minute)
	topologyOf(t, w)
	change(t, w, "demo", &clusterv1.Cluster{}, "no second group any more", func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments = c.Spec.Topology.Workers.MachineDeployments[:1]
	})
	w.RunFor(time.Minute)
	topologyOf(t, w)
	end(t, w)
	w.Golden("workers-that-come-during-an-upgrade-wait-for-it.txt")
}

// TestAVersionThatNeverStartedCanBeTakenBack.
func TestAVersionThatNeverStartedCanBeTakenBack(t *testing.T) {
	t.Parallel()
	w, x := withObserver(t)
	comeUp(t, w)
	x.hold = func(call string) int32 {
		if strings.HasPrefix(call, "BeforeClusterUpgrade") {
			return 60
		}
		return 0
	}
	change(t, w, "demo", &clusterv1.Cluster{}, "upgrade to v1.34.2, which a hook holds up", func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.34.2" })
	topologyOf(t, w)
	change(t, w, "demo", &clusterv1.Cluster{}, "back to v1.33.1", func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.33.1" })
	w.RunFor(2 * time.Minute)
	topologyOf(t, w)
	end(t, w)
	w.Golden("a-version-that-never-started-can-be-taken-back.txt")
}

// TestRequestsOfATopology holds what a Cluster of a class costs, by controller: a
// creation, ten minutes of rest with noise in the status of its parts, an edit of
// the class, and another process.
func TestRequestsOfATopology(t *testing.T) {
	t.Parallel()
	w := newTopology(t, func(o *Options) { o.StatusDebounce = time.Second / 2 })
	w.RunFor(time.Minute)
	tell := requestsBy(w)
	w.Record("# a Cluster of it, with one control plane and one worker machine")
	w.create(strings.Replace(fleetCluster, "version:", "variables: [{name: startup, value: 0}]\n    version:", 1))
	w.RunFor(2 * time.Minute)
	tell()
	w.Record("# ten minutes, with another label and another status of its infrastructure each")
	for range 10 {
		for _, obj := range w.objects("LocalCluster") {
			edit(t, w, obj.GetName(), &infrav1.LocalCluster{}, func(c *infrav1.LocalCluster) {
				c.Annotations["seen"] = w.Clock.Now().String()
			})
		}
		w.Run()
		w.must(w.World.RunFor(t.Context(), time.Minute))
	}
	tell()
	change(t, w, "fleet", &clusterv1.ClusterClass{}, "an edit of the class that reaches the control plane", func(c *clusterv1.ClusterClass) {
		c.Spec.ControlPlane.Deletion.NodeDrainTimeoutSeconds = new(int32(77))
	})
	w.RunFor(time.Minute)
	tell()
	w.Record("# another process")
	objects, err := w.Objects(t.Context())
	w.must(err)
	other := begin(t, Options{Clock: w.Clock, Backends: w.machines, Objects: objects, StatusDebounce: time.Second / 2})
	other.RunFor(time.Minute)
	if n := other.store.writes; n != 0 {
		t.Errorf("%d writes of another process: %v", n, other.Requests())
	}
	w.Golden("requests-of-a-topology.txt")
}

// requestsBy returns a function that writes the requests since its last call, by
// controller.
func requestsBy(w *story) func() {
	before := maps.Clone(w.store.by)
	return func() {
		total := map[string]int{}
		for _, what := range slices.Sorted(maps.Keys(w.store.by)) {
			n := w.store.by[what] - before[what]
			if n == 0 {
				continue
			}
			controller, _, _ := strings.Cut(what, ": ")
			total[controller] += n
			w.Record("%s %d", what, n)
		}
		sum := 0
		for _, controller := range slices.Sorted(maps.Keys(total)) {
			w.Record("%d by %s", total[controller], controller)
			sum += total[controller]
		}
		w.Record("%d in all", sum)
		before = maps.Clone(w.store.by)
	}
}
