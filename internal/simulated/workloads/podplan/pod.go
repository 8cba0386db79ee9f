// SPDX-License-Identifier: Apache-2.0

// Package podplan decides what the controllers, the scheduler and the kubelets of a
// simulated cluster do: values in, values out. Nothing in it waits, reads a clock
// or writes.
package podplan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of Pods with which users define how a simulated container ends.
const (
	// RunSecondsAnnotation is how long the containers of a Pod run that is not
	// always restarted. They end immediately without it.
	RunSecondsAnnotation = "simulated.capstan.dev/run-seconds"
	// ExitCodeAnnotation is what they end with; 0 without it. With another
	// than 0, containers that are restarted are in a crash loop.
	ExitCodeAnnotation = "simulated.capstan.dev/exit-code"
)

// Pod is what decisions need of one.
type Pod struct {
	types.NamespacedName
	UID       types.UID
	Labels    map[string]string
	Owner     types.UID // its controller; empty if it has none
	Mirror    bool      // the picture of a static Pod
	Node      string    // empty until it is bound
	IPs       []corev1.PodIP
	HostNet   bool
	Phase     corev1.PodPhase
	Ready     bool
	Since     time.Time // when it became ready, or stopped being it
	Created   time.Time
	Leaving   bool // being deleted
	Cost      int64
	Resources Resources
	Steady    bool   // runs and is ready for as long as its Node is
	Target    string // the one Node that it may be on, of a Pod of a DaemonSet
}

// Resources are what a Pod requests, or a Node has: CPU in thousandths, memory in
// bytes, and Pods.
type Resources struct{ CPU, Memory, Pods int64 }

// Plus adds o n times.
func (r Resources) Plus(o Resources, n int64) Resources {
	return Resources{r.CPU + n*o.CPU, r.Memory + n*o.Memory, r.Pods + n*o.Pods}
}

// PodOf takes from a Pod what decisions need.
func PodOf(p *corev1.Pod) Pod {
	out := Pod{
		NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, UID: p.UID, Labels: p.Labels,
		Node: p.Spec.NodeName, IPs: p.Status.PodIPs, HostNet: p.Spec.HostNetwork, Phase: p.Status.Phase,
		Created: p.CreationTimestamp.Time, Leaving: p.DeletionTimestamp != nil, Resources: asked(&p.Spec),
	}
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		out.Owner = o.UID
	}
	_, out.Mirror = p.Annotations[corev1.MirrorPodAnnotationKey]
	out.Cost, _ = strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32) // what is no number costs nothing
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Ready, out.Since = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	_, ends := ending(p)
	out.Steady = out.Ready && !ends && len(p.Spec.ReadinessGates) == 0 && p.Status.ObservedGeneration == p.Generation
	out.Target = target(p.Spec.Affinity)
	return out
}

// target reads what pinned wrote.
func target(a *corev1.Affinity) string {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range t.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// asked is what the containers of a Pod request together.
func asked(spec *corev1.PodSpec) Resources {
	of := func(c *corev1.Container) Resources {
		return Resources{CPU: c.Resources.Requests.Cpu().MilliValue(), Memory: c.Resources.Requests.Memory().Value()}
	}
	sum, most := Resources{}, Resources{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		need := sum.Plus(of(c), 1)
		if sidecar(c) {
			sum = need
		}
		most.CPU, most.Memory = max(most.CPU, need.CPU), max(most.Memory, need.Memory)
	}
	for i := range spec.Containers {
		sum = sum.Plus(of(&spec.Containers[i]), 1)
	}
	return Resources{
		CPU:    max(sum.CPU, most.CPU) + spec.Overhead.Cpu().MilliValue(),
		Memory: max(sum.Memory, most.Memory) + spec.Overhead.Memory().Value(), Pods: 1,
	}
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Ended reports whether the Pod has run to its end.
func (p Pod) Ended() bool { return p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed }

// Active reports whether it counts as a replica.
func (p Pod) Active() bool { return !p.Leaving && !p.Ended() }

// Available reports whether the Pod has been ready for so many seconds, and
// else when it will have been; zero if it is not ready.
func (p Pod) Available(seconds int32, now time.Time) (bool, time.Time) {
	if !p.Ready {
		return false, time.Time{}
	}
	at := p.Since.Add(time.Duration(seconds) * time.Second)
	if now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// Counts are the Pods of a set.
type Counts struct {
	Total, Ready, Available int32
	Again                   time.Time // when another becomes available by time alone
}

// Count counts the Pods that are active.
func Count(pods []Pod, minReadySeconds int32, now time.Time) Counts {
	var c Counts
	for _, p := range pods {
		if !p.Active() {
			continue
		}
		c.Total++
		if !p.Ready {
			continue
		}
		c.Ready++
		available, at := p.Available(minReadySeconds, now)
		if available {
			c.Available++
		}
		c.Again = Sooner(c.Again, at)
	}
	return c
}

// Sooner returns the earlier of two times, of which zero means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Replicas returns how many Pods a set must create, or which it deletes, in order:
// the least valuable first.
func Replicas(want int32, pods []Pod) (create int, remove []Pod) {
	var active []Pod
	for _, p := range pods {
		if p.Active() {
			active = append(active, p)
		}
	}
	if n := int(want) - len(active); n >= 0 {
		return n, nil
	}
	slices.SortStableFunc(active, worth)
	return 0, beyond(active, int(want))
}

// beyond are the first items, which go first, of those that are more than a limit. A
// negative one, which an object may have that was stored before it was validated, is 0.
func beyond[T any](items []T, limit int) []T { return items[:max(0, len(items)-max(0, limit))] }

// worth orders Pods by how soon a set gives them up: those without a Node,
// those that wait, those that are not ready, those that cost less, those that
// have been ready for a shorter time, younger ones.
func worth(a, b Pod) int {
	return cmp.Or(
		no(a.Node != "", b.Node != ""), no(a.Phase == corev1.PodRunning, b.Phase == corev1.PodRunning), no(a.Ready, b.Ready),
		cmp.Compare(a.Cost, b.Cost), b.Since.Compare(a.Since), b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
}

// no puts what is false first.
func no(a, b bool) int { return cmp.Compare(strconv.FormatBool(a), strconv.FormatBool(b)) }
