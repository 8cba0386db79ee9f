// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

// errUnchanged ends a modification that would change nothing.
var errUnchanged = errors.New("nothing to change")

// modify applies change to the latest version of an object, and returns nil if it
// is deleted.
func modify[T objects.Object](c *Controllers, obj T, change func(T) error) error {
	err := objects.Modify(c.store, obj, change)
	if errors.Is(err, errUnchanged) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pod is the scheduler, the kubelet, and the garbage collector of the Pods of
// deleted Nodes.
func (c *Controllers) pod(key store.Key) (again time.Time, err error) {
	p, ok := c.view.pods[key]
	if !ok || p.Mirror || p.Ended() && !p.Leaving {
		return time.Time{}, nil
	}
	if p.Node == "" {
		return time.Time{}, c.schedule(key)
	}
	node, known := c.view.nodes[p.Node]
	switch {
	case !known:
		return time.Time{}, c.deletePod(p, new(int64))
	case p.Leaving && node.Lives():
		if err := c.deletePod(p, new(int64)); err != nil {
			return time.Time{}, err
		}
		// What finalizers keep has ended.
		return time.Time{}, modify(c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, func(there *corev1.Pod) error {
			if there.UID != p.UID || !podplan.Stop(there, c.clock.Now()) {
				return errUnchanged
			}
			return nil
		})
	case p.Leaving, p.Steady && node.Ready == corev1.ConditionTrue && !node.Evicts():
		return time.Time{}, nil // no kubelet can report that a Pod on such a Node has stopped
	}
	var until time.Time
	if whole := read[corev1.Pod](c, key); whole != nil && node.Evicts() {
		var stays bool
		if stays, until = podplan.NeedsOf(whole).Stays(node, c.clock.Now()); !stays {
			return time.Time{}, c.deletePod(p, nil)
		}
	}
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err = modify(c, obj, func(p *corev1.Pod) error {
		again = podplan.Sync(p, node, c.clock.Now(), func() string { return c.address(p, node) })
		return nil
	})
	return podplan.Sooner(again, until), err
}

var podKind = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("Pod"))

// schedule finds a Node for a Pod, and has its kubelet start it there.
func (c *Controllers) schedule(key store.Key) error {
	p := read[corev1.Pod](c, key)
	if p == nil || p.DeletionTimestamp != nil || p.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return nil
	}
	reason, message := corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates"
	chosen := ""
	if len(p.Spec.SchedulingGates) == 0 {
		reason = corev1.PodReasonUnschedulable
		chosen, message = podplan.Choose(podplan.NeedsOf(p), c.places(c.view.pods[key].Owner))
	}
	return modify(c, p, func(p *corev1.Pod) error {
		if chosen == "" {
			podplan.Unscheduled(&p.Status, reason, message, c.clock.Now())
			return nil
		}
		if p.Spec.NodeName != "" {
			return errUnchanged
		}
		p.Spec.NodeName = chosen
		node := c.view.nodes[chosen]
		podplan.Sync(p, node, c.clock.Now(), func() string { return c.address(p, node) })
		return nil
	})
}

func (c *Controllers) places(owner types.UID) []podplan.Place {
	own := map[string]int{}
	if owner != "" {
		for key := range c.view.owned[owner] {
			own[c.view.pods[key].Node]++
		}
	}
	var out []podplan.Place
	for _, n := range c.nodesByName() {
		out = append(out, podplan.Place{Node: n, Used: c.view.used[n.Name], Own: own[n.Name]})
	}
	return out
}

// address is the first that no other Pod of the Node has, out of the Node's
// range; without one it follows from the Pod's UID.
func (c *Controllers) address(p *corev1.Pod, n podplan.Node) string {
	taken := map[string]bool{}
	for key := range c.view.on[n.Name] {
		for _, ip := range c.view.pods[key].IPs {
			taken[ip.IP] = true
		}
	}
	if r, err := netip.ParsePrefix(n.PodCIDR); err == nil {
		for ip := r.Masked().Addr().Next().Next(); r.Contains(ip); ip = ip.Next() { // the first is the node's
			if !taken[ip.String()] {
				return ip.String()
			}
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.UID)) // never fails
	sum := h.Sum32()
	return fmt.Sprintf("10.244.%d.%d", sum>>8&0xff, sum&0xff)
}

// node gives a Node its range of addresses for Pods, from the subnet in the
// configuration of kubeadm, and the taints of the node controller.
func (c *Controllers) node(key store.Key) (time.Time, error) {
	n, ok := c.view.nodes[key.Name]
	if !ok {
		return time.Time{}, nil
	}
	cidr := n.PodCIDR
	if cidr == "" {
		cidr = podplan.PodCIDR(c.podSubnet(), c.nodesByName())
	}
	if _, changed := n.Mark(c.clock.Now()); !changed && cidr == n.PodCIDR {
		return time.Time{}, nil
	}
	return time.Time{}, modify(c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}, func(n *corev1.Node) error {
		if n.Spec.PodCIDR == "" && cidr != "" {
			n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
		}
		n.Spec.Taints, _ = podplan.NodeOf(n).Mark(c.clock.Now())
		return nil
	})
}

// podSubnet is the Pod subnet in the configuration of kubeadm; empty if it has
// none.
func (c *Controllers) podSubnet() string {
	m := read[corev1.ConfigMap](c, store.Key{Resource: configMaps, Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"})
	if m == nil || !strings.Contains(m.Data["ClusterConfiguration"], "podSubnet") {
		return ""
	}
	docs, err := kubeadm.Parse([]byte(m.Data["ClusterConfiguration"]))
	if err != nil {
		return ""
	}
	return docs.Data.PodSubnet
}
