// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestClustersMoveBetweenThePlanesOfAHost moves clusters as upstream's clusterctl
// does, step by step, and back by our own tool, with a source that is killed in the
// middle. CAPSTAN_MOVES is the number of clusters that move together.
func TestClustersMoveBetweenThePlanesOfAHost(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 2)
	count := 2
	if n, err := strconv.Atoi(os.Getenv("CAPSTAN_MOVES")); err == nil {
		count = n
	}
	machines := "--simulated-dir=" + t.TempDir()
	a := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	b := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	atA, atB := a.start(machines), b.start(machines)
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("c%d", i))
		atA.create(names[i], shape{workers: 1})
	}
	for _, name := range names {
		atA.becomes(name)
	}
	before := atA.inside(names)
	same := func(at fleet) {
		t.Helper()
		at.eventually(func() error { return at.answer(names) })
		if diff := cmp.Diff(before, at.inside(names)); diff != "" {
			t.Fatalf("in the clusters (-before +after):\n%s", diff)
		}
	}

	objects := atA.movable()
	atA.pause(names, true)
	same(atA) // a cluster without a controller is served anyway
	atB.receive(objects)
	atA.abandon(objects)
	same(atB) // by the plane that has it next, before any controller reconciles it there
	atB.pause(names, nil)
	for _, name := range names {
		atB.becomes(name)
	}
	same(atB)

	f := client.ObjectKey{Namespace: atB.Namespace, Name: names[0]}
	lc := &infrav1.LocalCluster{}
	atB.must(atB.Client.Get(t.Context(), f, lc))
	dies := &dying{Plane: atB.plane("b"), crash: b.crash}
	if err := atB.moveTo(atA, dies); err == nil || !dies.dead {
		t.Fatalf("moved, with a source that crashed: %v", err)
	}
	same(atA)
	atB = b.start(machines)
	atB.must(atB.moveTo(atA, atB.plane("b")))
	for _, name := range names {
		atA.becomes(name)
	}
	same(atA)
	here := &infrav1.LocalCluster{}
	atA.must(atA.Client.Get(t.Context(), f, here))
	if here.Spec.Identity != lc.Spec.Identity || here.Spec.Identity == string(here.UID) {
		t.Errorf("identity %s of LocalCluster %s, want that which it had, %s", here.Spec.Identity, here.UID, lc.Spec.Identity)
	}
	for _, name := range names {
		atA.must(atA.Client.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: atA.Namespace, Name: name}}))
	}
	atA.eventually(func() error {
		var left infrav1.LocalClusterList
		if err := atA.Client.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d LocalClusters are left", len(left.Items)))
		}
		return nil
	})
	entries, err := os.ReadDir(strings.TrimPrefix(machines, "--simulated-dir="))
	if err != nil || len(entries) != 1 { // the folder of addresses
		t.Errorf("left on the host: %v, %v", entries, err)
	}
}

// dying is a management cluster that ends when it has deleted some objects.
type dying struct {
	move.Plane
	crash   func() error
	mu      sync.Mutex // guards what follows
	deleted int
	dead    bool
}

// Delete implements move.Plane.
func (d *dying) Delete(ctx context.Context, obj *unstructured.Unstructured) error {
	d.mu.Lock()
	if d.deleted++; d.deleted > 10 && !d.dead {
		d.dead = true
		if err := d.crash(); err != nil {
			d.mu.Unlock()
			return err
		}
	}
	d.mu.Unlock()
	return d.Plane.Delete(ctx, obj)
}

func (f fleet) plane(name string) move.Plane {
	f.Helper()
	p, err := move.Connect(f.Config, name)
	f.must(err)
	return p
}

// moveTo moves all clusters by our own tool.
func (f fleet) moveTo(to fleet, from move.Plane) error {
	return move.Run(f.Context(), move.Options{Source: from, Target: to.plane("a"), Namespace: f.Namespace, By: "test", Progress: func(text string) { f.Log(text) }})
}

// inside is the objects in some workload clusters, by UID, and where they answer.
func (f fleet) inside(names []string) map[string]types.UID {
	f.Helper()
	out := map[string]types.UID{}
	for _, name := range names {
		c := f.workload(name)
		nodes, err := c.CoreV1().Nodes().List(f.Context(), metav1.ListOptions{})
		f.must(err)
		for _, n := range nodes.Items {
			out[name+" Node "+n.Name+" "+n.Spec.ProviderID+" "+n.Status.NodeInfo.BootID] = n.UID
		}
		pods, err := c.CoreV1().Pods("").List(f.Context(), metav1.ListOptions{})
		f.must(err)
		for _, p := range pods.Items {
			out[name+" Pod "+p.Namespace+"/"+p.Name] = p.UID
		}
		cluster := &clusterv1.Cluster{}
		f.must(f.Client.Get(f.Context(), f.key(name), cluster))
		out[name+" at "+cluster.Spec.ControlPlaneEndpoint.String()] = ""
	}
	return out
}

func (f fleet) workload(name string) kubernetes.Interface {
	f.Helper()
	cfg := f.workloadConfig(name)
	cfg.QPS = -1
	c, err := kubernetes.NewForConfig(cfg)
	f.must(err)
	return c
}

// answer returns which clusters do not answer.
func (f fleet) answer(names []string) error {
	for _, name := range names {
		if _, err := f.nodes(name); err != nil {
			return fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return nil
}

func (f fleet) pause(names []string, paused any) {
	f.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec": {"paused": %v}}`, map[any]string{true: "true", nil: "null"}[paused])))
	for _, name := range names {
		f.must(f.Client.Patch(f.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}, patch))
	}
}

// movable are the objects that go with the clusters of a namespace, owners first.
func (f fleet) movable() []*unstructured.Unstructured {
	f.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(f.Config)
	f.must(err)
	lists, err := d.ServerPreferredNamespacedResources()
	f.must(err)
	byUID := map[types.UID]*unstructured.Unstructured{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		f.must(err)
		for _, r := range l.APIResources {
			provider := strings.HasSuffix(gv.Group, "cluster.x-k8s.io") || gv.Group == infrav1.GroupVersion().Group
			if strings.Contains(r.Name, "/") || !provider && (gv.Group != "" || r.Kind != "Secret") {
				continue
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gv.WithKind(r.Kind + "List"))
			f.must(f.Client.List(f.Context(), list, client.InNamespace(f.Namespace)))
			for i := range list.Items {
				byUID[list.Items[i].GetUID()] = &list.Items[i]
			}
		}
	}
	var out []*unstructured.Unstructured
	done := map[types.UID]bool{}
	for len(byUID) > 0 {
		before := len(out)
		for _, uid := range slices.Sorted(maps.Keys(byUID)) {
			if slices.ContainsFunc(byUID[uid].GetOwnerReferences(), func(o metav1.OwnerReference) bool { return byUID[o.UID] != nil }) {
				continue
			}
			out, done[uid] = append(out, byUID[uid]), true
			delete(byUID, uid)
		}
		if len(out) == before {
			f.Fatalf("owners of %d objects go round in a circle", len(byUID))
		}
	}
	return out
}

// receive creates objects of another plane, without their status, and with owners
// as they are here.
func (f fleet) receive(objects []*unstructured.Unstructured) {
	f.Helper()
	uids := map[types.UID]types.UID{}
	for _, from := range objects {
		obj := from.DeepCopy()
		owners := obj.GetOwnerReferences()
		for i := range owners {
			owners[i].UID = uids[owners[i].UID]
		}
		obj.SetOwnerReferences(owners)
		obj.SetResourceVersion("")
		obj.SetUID("")
		delete(obj.Object, "status")
		if obj.GetKind() == clusterv1.ClusterKind {
			f.must(unstructured.SetNestedField(obj.Object, true, "spec", "paused"))
		}
		f.must(f.Client.Create(f.Context(), obj))
		uids[from.GetUID()] = obj.GetUID()
	}
}

// abandon deletes objects that were moved, what is owned first.
func (f fleet) abandon(objects []*unstructured.Unstructured) {
	f.Helper()
	patch := func(obj client.Object, text string) error {
		return f.Client.Patch(f.Context(), obj, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	for _, from := range slices.Backward(objects) {
		obj := from.DeepCopy()
		err := patch(obj, `{"metadata": {"annotations": {"`+clusterctlv1.DeleteForMoveAnnotation+`": ""}}}`)
		if err == nil {
			err = f.Client.Delete(f.Context(), obj)
		}
		if err == nil {
			err = patch(obj, `{"metadata": {"finalizers": null}}`)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			f.Fatal(err)
		}
	}
}
