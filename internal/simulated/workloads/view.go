// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

// view caches parts of objects, so that the worker need not read all of them for
// each change: as few as possible, since it is kept in steady state.
type view struct {
	pods    map[store.Key]podplan.Pod
	owned   map[types.UID]map[store.Key]bool // Pods by their controller; those without one under ""
	on      map[string]map[store.Key]bool    // Pods by their Node; those of none under ""
	used    map[string]podplan.Resources     // by Node
	nodes   map[string]podplan.Node
	keys    map[types.UID]store.Key // of controllers
	uids    map[store.Key]types.UID
	parents map[types.UID]types.UID // controllers of controllers
	picks   map[store.Key]picks     // of Services and budgets
}

func newView() view {
	return view{
		pods: map[store.Key]podplan.Pod{}, owned: map[types.UID]map[store.Key]bool{}, on: map[string]map[store.Key]bool{},
		used: map[string]podplan.Resources{}, nodes: map[string]podplan.Node{},
		keys: map[types.UID]store.Key{}, uids: map[store.Key]types.UID{}, parents: map[types.UID]types.UID{}, picks: map[store.Key]picks{},
	}
}

func podKey(namespace, name string) store.Key {
	return store.Key{Resource: pods, Namespace: namespace, Name: name}
}

// read decodes the latest version of an object; nil if it is deleted or cannot be
// decoded.
func read[T any](c *Controllers, key store.Key) *T {
	e := c.store.Entries().Get(key)
	if e == nil {
		return nil
	}
	obj := new(T)
	if err := json.Unmarshal(e.Raw, obj); err != nil {
		c.log.Error(err, "Reading an object of a simulated cluster", "resource", key.Resource.String(), "namespace", key.Namespace, "name", key.Name)
		return nil
	}
	return obj
}

// list decodes all objects of a resource in a namespace that keep picks.
func list[T any](c *Controllers, resource schema.GroupResource, namespace string, keep func(*store.Entry) bool) []*T {
	var out []*T
	entries, _ := c.store.Entries().List(resource, namespace)
	for _, e := range entries {
		if keep == nil || keep(e) {
			if obj := read[T](c, e.Key); obj != nil {
				out = append(out, obj)
			}
		}
	}
	return out
}

// take records a change, and the objects that it concerns.
func (c *Controllers) take(key store.Key) {
	switch key.Resource {
	case pods:
		c.takePod(key)
	case nodes:
		c.takeNode(key)
	case deployments, replicaSets, daemonSets:
		c.takeOwner(key)
	default:
		c.todo[key] = true
	}
}

func (c *Controllers) takePod(key store.Key) {
	v := &c.view
	was, had := v.pods[key]
	if had {
		v.forget(key, was)
	}
	p := read[corev1.Pod](c, key)
	var is podplan.Pod
	if p != nil {
		is = podplan.PodOf(p)
		v.remember(key, is)
		c.todo[key] = true
	}
	if reflect.DeepEqual(was, is) {
		return
	}
	for _, one := range []podplan.Pod{was, is} {
		if owner, ok := v.keys[one.Owner]; ok {
			c.todo[owner] = true
		}
		for by, p := range v.picks {
			if p.namespace == key.Namespace && p.labels.Matches(labels.Set(one.Labels)) {
				c.todo[by] = true
			}
		}
	}
	if is.Owner == "" && p != nil {
		c.queueAdopters(key.Namespace)
	}
	if had && (p == nil || is.Ended() || is.Node != was.Node) {
		c.queueUnscheduled() // there may be room now
	}
}

// queueAdopters queues the objects that adopt Pods without a controller.
func (c *Controllers) queueAdopters(namespace string) {
	for key := range c.view.uids {
		if key.Namespace == namespace && key.Resource != deployments {
			c.todo[key] = true
		}
	}
}

func (c *Controllers) queueUnscheduled() {
	for key := range c.view.on[""] {
		c.todo[key] = true
	}
}

func (v *view) remember(key store.Key, p podplan.Pod) {
	v.pods[key] = p
	put(v.owned, p.Owner, key)
	put(v.on, p.Node, key)
	if !p.Ended() {
		v.used[p.Node] = v.used[p.Node].Plus(p.Resources, 1)
	}
}

func (v *view) forget(key store.Key, p podplan.Pod) {
	delete(v.pods, key)
	drop(v.owned, p.Owner, key)
	drop(v.on, p.Node, key)
	if !p.Ended() {
		v.used[p.Node] = v.used[p.Node].Plus(p.Resources, -1)
	}
	if len(v.on[p.Node]) == 0 {
		delete(v.used, p.Node)
	}
}

func put[K comparable](index map[K]map[store.Key]bool, at K, key store.Key) {
	if index[at] == nil {
		index[at] = map[store.Key]bool{}
	}
	index[at][key] = true
}

func drop[K comparable](index map[K]map[store.Key]bool, at K, key store.Key) {
	delete(index[at], key)
	if len(index[at]) == 0 {
		delete(index, at)
	}
}

func (c *Controllers) takeNode(key store.Key) {
	v := &c.view
	was, had := v.nodes[key.Name]
	n := read[corev1.Node](c, key)
	if n == nil {
		delete(v.nodes, key.Name)
	} else {
		is := podplan.NodeOf(n)
		if had && reflect.DeepEqual(was, is) {
			return
		}
		v.nodes[key.Name] = is
		c.todo[key] = true
		c.queueUnscheduled()
	}
	for pod := range v.on[key.Name] {
		c.todo[pod] = true
	}
	for owner := range v.uids {
		if owner.Resource == daemonSets {
			c.todo[owner] = true
		}
	}
}

func (c *Controllers) takeOwner(key store.Key) {
	v := &c.view
	for by := range v.picks {
		if by.Resource == budgets && by.Namespace == key.Namespace {
			c.todo[by] = true // it counts the desired Pods
		}
	}
	if parent, ok := v.keys[v.parents[v.uids[key]]]; ok {
		c.todo[parent] = true
	}
	uid := v.uids[key]
	e := c.store.Entries().Get(key)
	if e == nil || uid != "" && e.UID != uid {
		delete(v.keys, uid)
		delete(v.uids, key)
		delete(v.parents, uid)
	}
	if e == nil {
		return
	}
	v.keys[e.UID], v.uids[key] = key, e.UID
	c.todo[key] = true
	if len(e.Owners) > 0 {
		v.parents[e.UID] = e.Owners[0]
		if parent, ok := v.keys[e.Owners[0]]; ok {
			c.todo[parent] = true
		}
	}
}

// podsOf are the Pods of a controller, in the order of their names.
func (c *Controllers) podsOf(uid types.UID) []podplan.Pod {
	return c.pods(maps.Keys(c.view.owned[uid]), func(podplan.Pod) bool { return true })
}

// orphans are the Pods of a namespace that have no controller.
func (c *Controllers) orphans(namespace string) []podplan.Pod {
	return c.pods(maps.Keys(c.view.owned[""]), func(p podplan.Pod) bool { return p.Namespace == namespace && !p.Mirror })
}

// pods are those that keep picks, in the order of their names.
func (c *Controllers) pods(keys iter.Seq[store.Key], keep func(podplan.Pod) bool) []podplan.Pod {
	var out []podplan.Pod
	for key := range keys {
		if p := c.view.pods[key]; keep(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b podplan.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// setsOf are the ReplicaSets that a Deployment controls.
func (c *Controllers) setsOf(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	all := list[appsv1.ReplicaSet](c, replicaSets, d.Namespace, func(e *store.Entry) bool { return slices.Contains(e.Owners, d.UID) })
	return slices.DeleteFunc(all, func(s *appsv1.ReplicaSet) bool { return s.DeletionTimestamp != nil || !metav1.IsControlledBy(s, d) })
}

// nodesByName are all Nodes, in the order of their names.
func (c *Controllers) nodesByName() []podplan.Node {
	var out []podplan.Node
	for _, name := range slices.Sorted(maps.Keys(c.view.nodes)) {
		out = append(out, c.view.nodes[name])
	}
	return out
}
