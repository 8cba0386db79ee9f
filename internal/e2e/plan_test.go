// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

// unchangedFor is how long no object of a Cluster changes before the test assumes that
// a change has ended.
const unchangedFor = 2 * time.Second

// planned is a cluster whose changes are planned and then made.
type planned struct {
	fleet
	name       string
	mgmt       client.WithWatch
	extensions extensions.Poster // nil if there are none
	rand       *rand.Rand
	count      int           // for values that no change had before
	quiet      time.Duration // see unchangedFor, which is the default
}

// TestPlansComeTrue makes random changes to live clusters. Before each, a plan says
// what happens to each Machine, and afterwards all of it has happened: which Machines
// are kept, changed, replaced and deleted, in which order, and how many each owner
// creates. CAPSTAN_PLAN_CLUSTERS, CAPSTAN_PLAN_CHANGES and CAPSTAN_PLAN_SEED choose how
// many.
func TestPlansComeTrue(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	clusters, changes, seed := number("CAPSTAN_PLAN_CLUSTERS", 2), number("CAPSTAN_PLAN_CHANGES", 4), number("CAPSTAN_PLAN_SEED", 1)
	for i := range clusters {
		t.Run(fmt.Sprintf("cluster %d", i), func(t *testing.T) {
			t.Parallel()
			p := &planned{fleet: newFleet(t), name: "c", rand: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
			p.start(i%2 == 0)
			for n := range changes {
				what, change := p.next(i%2 == 0)
				if !p.comesTrue(fmt.Sprintf("seed %d, cluster %d, change %d: %s", seed, i, n, what), change) {
					return
				}
			}
			p.addOns()
		})
	}
}

func (p *planned) start(topology bool) {
	p.Helper()
	p.connect()
	if topology {
		p.apply(simulatedClass)
		cluster := strings.NewReplacer("controlPlane: {replicas: 1}", "controlPlane: {replicas: 3}", "name: a, replicas: 1", "name: a, replicas: 3").Replace(ofTheClass)
		p.apply(cluster)
	} else {
		p.create(p.name, shape{controlPlane: 3, workers: 3, version: "v1.35.2"})
	}
	p.steady(true)
}

func (p *planned) connect() {
	p.Helper()
	scheme, err := controllers.Scheme()
	if err != nil {
		p.Fatal(err)
	}
	if p.mgmt, err = client.NewWithWatch(p.Config, client.Options{Scheme: scheme}); err != nil {
		p.Fatal(err)
	}
}

// steady waits until nothing of the cluster changes, and until it is as its objects
// require unless something blocks it.
func (p *planned) steady(settled bool) {
	p.Helper()
	var before map[types.UID]string
	since := time.Now()
	p.eventually(func() error {
		now := p.versions()
		var err error
		if settled {
			err = p.settled(p.name)
		}
		if err != nil || !maps.Equal(before, now) {
			before, since = now, time.Now()
			return fmt.Errorf("the cluster changes: %v", err)
		}
		if quiet := time.Since(since); quiet < cmp.Or(p.quiet, unchangedFor) {
			return fmt.Errorf("nothing has changed for %s", quiet)
		}
		return nil
	})
}

// versions are the resourceVersions of all objects of the cluster.
func (p *planned) versions() map[types.UID]string {
	p.Helper()
	shard, err := shards.Reader{Mgmt: p.mgmt}.Read(p.Context(), p.key(p.name), nil)
	if err != nil {
		p.Fatal(err)
	}
	all := map[types.UID]string{}
	for _, obj := range shard.Objects {
		all[obj.GetUID()] = obj.GetResourceVersion()
	}
	return all
}

// object returns an object of a kind to be patched.
func (p *planned) object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	fields["metadata"] = map[string]any{"namespace": p.Namespace, "name": name}
	return &unstructured.Unstructured{Object: fields}
}

const (
	coreVersion    = "cluster.x-k8s.io/v1beta2"
	kubeadmVersion = "controlplane.cluster.x-k8s.io/v1beta2"
	localVersion   = "infrastructure.capstan.dev/v1beta2"
)

// version returns the next version; upgrades of a topology go by minor versions too.
func (p *planned) version() string {
	p.count++
	return fmt.Sprintf("v1.35.%d", 2+p.count)
}

// next returns a random change.
func (p *planned) next(topology bool) (string, []changeplan.Write) {
	merge := func(obj *unstructured.Unstructured) []changeplan.Write {
		return []changeplan.Write{{Object: obj, Patch: types.MergePatchType}}
	}
	nest := func(value any, fields ...string) map[string]any {
		of := map[string]any{}
		if err := unstructured.SetNestedField(of, value, fields...); err != nil {
			p.Fatal(err)
		}
		return of
	}
	if topology {
		cluster := func(value any, fields ...string) []changeplan.Write {
			return merge(p.object(coreVersion, "Cluster", p.name, nest(value, append([]string{"spec", "topology"}, fields...)...)))
		}
		deployment := func(name string, n int, delay int, label string) map[string]any {
			md := map[string]any{"class": "plain", "name": name, "replicas": int64(n), "metadata": map[string]any{"labels": map[string]any{"say": label}}}
			md["variables"] = map[string]any{"overrides": []any{map[string]any{"name": "delay", "value": int64(delay)}}}
			return md
		}
		all := func(mds ...any) []changeplan.Write { return cluster(mds, "workers", "machineDeployments") }
		workers := func(n int, delay int, label string) []changeplan.Write { return all(deployment("a", n, delay, label)) }
		with := func(field string, value any) []changeplan.Write {
			md := deployment("a", 3, 0, "same")
			md[field] = value
			return all(md)
		}
		p.count++
		switch p.rand.IntN(13) {
		case 0:
			return "version of the topology", cluster(p.version(), "version")
		case 1:
			n := []int{1, 3, 5}[p.rand.IntN(3)]
			return fmt.Sprintf("%d control plane machines", n), cluster(int64(n), "controlPlane", "replicas")
		case 2:
			n := 1 + p.rand.IntN(5)
			return fmt.Sprintf("%d workers", n), workers(n, 0, "same")
		case 3:
			return "another variable", workers(3, p.count, "same")
		case 4:
			class := p.object(coreVersion, "ClusterClass", "simulated", nest([]any{map[string]any{"name": "delay", "definitions": []any{map[string]any{
				"selector":    map[string]any{"apiVersion": localVersion, "kind": "LocalMachineTemplate", "matchResources": map[string]any{"machineDeploymentClass": map[string]any{"names": []any{"plain"}}}},
				"jsonPatches": []any{map[string]any{"op": "add", "path": "/spec/template/metadata", "valueFrom": map[string]any{"template": fmt.Sprintf("labels: {delay: '{{ .delay }}', say: l%d}", p.count)}}},
			}}}}, "spec", "patches"))
			return "another patch of the class", merge(class)
		case 5:
			return "a drain timeout of the workers", with("deletion", map[string]any{"nodeDrainTimeoutSeconds": int64(600 + p.count), "order": "Oldest"})
		case 6:
			return "taints of the workers", with("taints", []any{map[string]any{"key": "example.com/taint", "value": fmt.Sprint("t", p.count), "effect": "PreferNoSchedule", "propagation": "Always"}})
		case 7:
			return "a health check of the workers", with("healthCheck", map[string]any{"checks": map[string]any{
				"nodeStartupTimeoutSeconds": int64(600 + p.count), "unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(300)}},
			}})
		case 8:
			return "two MachineDeployments", all(deployment("a", 2, 0, "same"), deployment("b", 1+p.rand.IntN(2), 0, "same"))
		case 9:
			surge := int64(p.rand.IntN(3))
			return fmt.Sprintf("a surge of %d", surge), with("rollout", map[string]any{"strategy": map[string]any{
				"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": surge, "maxUnavailable": int64(1)},
			}})
		case 10:
			return "a drain timeout of the control plane", cluster(int64(600+p.count), "controlPlane", "deletion", "nodeDrainTimeoutSeconds")
		case 11:
			change := cluster(p.version(), "version")
			_ = unstructured.SetNestedSlice(change[0].Object.Object, []any{deployment("a", 1+p.rand.IntN(4), p.count, "same")}, "spec", "topology", "workers", "machineDeployments")
			return "version of the topology, and another variable", change
		default:
			return "labels of workers", workers(3, 0, fmt.Sprint("l", p.count))
		}
	}
	md := func(value any, fields ...string) []changeplan.Write {
		return merge(p.object(coreVersion, "MachineDeployment", p.name+"-workers", nest(value, append([]string{"spec"}, fields...)...)))
	}
	kcp := func(value any, fields ...string) []changeplan.Write {
		return merge(p.object(kubeadmVersion, "KubeadmControlPlane", p.name+"-control-plane", nest(value, append([]string{"spec"}, fields...)...)))
	}
	p.count++
	switch p.rand.IntN(13) {
	case 0:
		return "version of the control plane", kcp(p.version(), "version")
	case 1:
		return "version of the workers", md(p.version(), "template", "spec", "version")
	case 2:
		n := []int{1, 3, 5}[p.rand.IntN(3)]
		return fmt.Sprintf("%d control plane machines", n), kcp(int64(n), "replicas")
	case 3:
		n := p.rand.IntN(6)
		return fmt.Sprintf("%d workers", n), md(int64(n), "replicas")
	case 4:
		return "labels of the workers", md(fmt.Sprint("l", p.count), "template", "metadata", "labels", "say")
	case 5:
		return "timeouts of the workers", md(int64(600+p.count), "template", "spec", "deletion", "nodeDrainTimeoutSeconds")
	case 6:
		return "annotations of control plane machines", kcp(fmt.Sprint("a", p.count), "machineTemplate", "metadata", "annotations", "say")
	case 7:
		return "an argument of the API server", kcp([]any{map[string]any{"name": "v", "value": fmt.Sprint(p.count)}}, "kubeadmConfigSpec", "clusterConfiguration", "apiServer", "extraArgs")
	case 8:
		check := p.object(coreVersion, "MachineHealthCheck", "check", map[string]any{"spec": map[string]any{
			"clusterName": p.name, "selector": map[string]any{"matchLabels": map[string]any{clusterv1.ClusterNameLabel: p.name}},
			"checks": map[string]any{"nodeStartupTimeoutSeconds": int64(600 + p.count), "unhealthyNodeConditions": []any{map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(300)}}},
		}})
		return "a health check", []changeplan.Write{{Object: check, Patch: types.ApplyPatchType}}
	case 9:
		taint := map[string]any{"key": "example.com/taint", "value": fmt.Sprint("t", p.count), "effect": "PreferNoSchedule", "propagation": "Always"}
		return "taints of the workers", md([]any{taint}, "template", "spec", "taints")
	case 10:
		n := 1 + p.rand.IntN(4)
		change := p.object(coreVersion, "MachineDeployment", p.name+"-workers", nest(p.version(), "spec", "template", "spec", "version"))
		_ = unstructured.SetNestedField(change.Object, int64(n), "spec", "replicas")
		return fmt.Sprintf("version of the workers, and %d of them", n), merge(change)
	case 11:
		name := fmt.Sprint("t", p.count)
		template := p.object(localVersion, "LocalMachineTemplate", name, nest(map[string]any{"simulated": map[string]any{}}, "spec", "template", "spec"))
		return "another template of the workers", append([]changeplan.Write{{Object: template, Patch: types.ApplyPatchType}}, md(name, "template", "spec", "infrastructureRef", "name")...)
	default:
		surge := int64(p.rand.IntN(3))
		change := p.object(coreVersion, "MachineDeployment", p.name+"-workers", nest(p.version(), "spec", "template", "spec", "version"))
		_ = unstructured.SetNestedMap(change.Object, map[string]any{"maxSurge": surge, "maxUnavailable": max(1-surge, int64(p.rand.IntN(3)))}, "spec", "rollout", "strategy", "rollingUpdate")
		_ = unstructured.SetNestedField(change.Object, "RollingUpdate", "spec", "rollout", "strategy", "type")
		return fmt.Sprintf("version of the workers with a surge of %d", surge), merge(change)
	}
}

// addOns has ClusterResourceSets apply objects to the cluster.
func (p *planned) addOns() {
	p.Helper()
	config := func(value string) step {
		return step{apiVersion: "v1", kind: "ConfigMap", object: "network", apply: true,
			patch: `{"data":{"it":"{apiVersion: v1, kind: ConfigMap, metadata: {name: network, namespace: default}, data: {a: ` + value + `}}"}}`}
	}
	sets := step{apiVersion: "addons.cluster.x-k8s.io/v1beta2", kind: "ClusterResourceSet", object: "network", apply: true,
		patch: `{"spec":{"strategy":"Reconcile","clusterSelector":{"matchLabels":{"net":"a"}},"resources":[{"kind":"ConfigMap","name":"network"}]}}`}
	label := p.change(step{apiVersion: coreVersion, kind: "Cluster", object: p.name, patch: "{}"})
	label[0].Object.SetLabels(map[string]string{"net": "a"})
	p.comesTrue("label of the cluster", label)
	p.comesTrue("ClusterResourceSet", append(p.change(config("b")), p.change(sets)...))
	p.comesTrue("content of a ClusterResourceSet", p.change(config("c")))
}

// binding is what is applied to the cluster; nil if it has no ClusterResourceSetBinding.
func (p *planned) binding() *addonsv1.ClusterResourceSetBinding {
	p.Helper()
	b := &addonsv1.ClusterResourceSetBinding{}
	if err := p.mgmt.Get(p.Context(), p.key(p.name), b); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		p.Fatal(err)
	}
	return b
}

// became is what happened to a ClusterResourceSetBinding.
func became(was, is *addonsv1.ClusterResourceSetBinding) planv1.Action {
	switch {
	case was == nil && is != nil:
		return planv1.Created
	case was != nil && is == nil:
		return planv1.Deleted
	case was != nil && len(outcome.Fields(was, is)) > 0:
		return planv1.Changed
	}
	return ""
}

// ofBinding is the same in a plan.
func ofBinding(objects []planv1.Object) (action planv1.Action) {
	for _, o := range objects {
		if o.Kind == "ClusterResourceSetBinding" {
			action = o.Action
		}
	}
	return action
}

// comesTrue plans a change, makes it, and compares.
func (p *planned) comesTrue(what string, change []changeplan.Write) bool {
	p.Helper()
	before, err := p.machines(p.name)
	if err != nil {
		p.Fatal(err)
	}
	var plan *planv1.Plan
	var text []byte
	p.eventually(func() error { // on a busy machine, controllers can pause for longer than steady waits
		if plan, err = changeplan.Make(p.Context(), changeplan.Options{Mgmt: p.mgmt, Workload: changeplan.ReadWorkload, Extensions: p.extensions}, change); err != nil {
			p.Fatalf("%s: %v", what, err)
		}
		text, _ = json.MarshalIndent(plan, "", " ")
		if len(plan.Clusters) != 1 || plan.Clusters[0].NotPredicted != nil {
			return fmt.Errorf("%s: no plan of a cluster in steady state:\n%s", what, text)
		}
		return nil
	})
	bound, followed := p.binding(), p.follow(before)
	for _, w := range change {
		data, err := w.Object.MarshalJSON()
		if err != nil {
			p.Fatal(err)
		}
		if err := p.mgmt.Patch(p.Context(), w.Object.DeepCopy(), client.RawPatch(w.Patch, data), client.FieldOwner(changeplan.DefaultManager)); err != nil {
			p.Errorf("%s: %v", what, err)
			return false
		}
	}
	p.steady(len(plan.Clusters[0].Blocked) == 0)
	if want, got := ofBinding(plan.Clusters[0].Objects), became(bound, p.binding()); got != want {
		p.Errorf("%s: the ClusterResourceSetBinding was %q, and is %q in the plan:\n%s", what, got, want, text)
	}
	after, err := p.machines(p.name)
	if err != nil {
		p.Fatal(err)
	}
	deleted, fewest := followed()
	want, got := outcome.ResultOf(plan.Clusters[0]), happened(before, after, deleted, fewest)
	got.Pools = want.Pools                        // only Machines are observed
	differences := outcome.Differences(want, got) // those of the order, without that within a wave
	got.Order = want.Order
	if diff := gocmp.Diff(want, got); diff != "" || len(differences) > 0 {
		p.Errorf("%s: %q (-predicted +happened):\n%s\nthe plan:\n%s", what, differences, diff, text)
		return false
	}
	p.Logf("%s: %+v", what, plan.Summary)
	return true
}

func happened(before, after []clusterv1.Machine, deleted []string, fewest map[string]int) outcome.Result {
	r := outcome.Result{Fates: map[string]string{}, Created: map[string]int{}, Fewest: fewest}
	is, was := map[types.UID]*clusterv1.Machine{}, map[types.UID]bool{}
	for i := range after {
		is[after[i].UID] = &after[i]
	}
	existed := map[string]bool{}
	for i := range before {
		m := &before[i]
		was[m.UID], existed[m.Name] = true, true
		switch now := is[m.UID]; {
		case now == nil:
			r.Fates[m.Name] = "gone"
		case len(outcome.Fields(m, now)) > 0:
			r.Fates[m.Name] = "changed"
		default:
			r.Fates[m.Name] = "kept"
		}
	}
	for uid, m := range is {
		if !was[uid] {
			r.Created[outcome.Owner(m)]++
		}
	}
	for _, name := range deleted {
		if existed[name] {
			r.Order = append(r.Order, []string{name})
		}
	}
	return r
}

// follow records the order in which the deletion of Machines begins, and the fewest
// available ones of each owner. The function that it returns ends that.
func (p *planned) follow(before []clusterv1.Machine) func() ([]string, map[string]int) {
	p.Helper()
	events, err := p.mgmt.Watch(p.Context(), &clusterv1.MachineList{}, client.InNamespace(p.Namespace))
	if err != nil {
		p.Fatal(err)
	}
	var deleted []string
	fewest, owners, available := map[string]int{}, map[string]string{}, map[string]bool{}
	count := func() {
		now := map[string]int{}
		for name, owner := range owners {
			if strings.HasPrefix(owner, "KubeadmControlPlane ") {
				continue
			}
			if now[owner] += 0; available[name] {
				now[owner]++
			}
		}
		for owner, n := range now {
			if least, known := fewest[owner]; !known || n < least {
				fewest[owner] = n
			}
		}
	}
	see := func(m *clusterv1.Machine, gone bool) {
		deleting := gone || !m.DeletionTimestamp.IsZero()
		owners[m.Name] = outcome.Owner(m)
		available[m.Name] = !deleting && conditions.IsTrue(m, clusterv1.MachineAvailableCondition)
		if deleting && !slices.Contains(deleted, m.Name) {
			deleted = append(deleted, m.Name)
		}
	}
	for i := range before {
		see(&before[i], false)
	}
	count()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if m, is := e.Object.(*clusterv1.Machine); is {
				see(m, e.Type == watch.Deleted)
				count()
			}
		}
	}()
	return func() ([]string, map[string]int) {
		events.Stop()
		<-done
		return deleted, fewest
	}
}
