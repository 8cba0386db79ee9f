// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// While a Pod can write to the disk, that is looked at again before a writer so fast,
	// in bytes a second, could have taken what may be taken; that is one call to the
	// kernel. Other Pods take part of it.
	fastest                 = 4 << 30
	lookSoonest, lookLatest = 50 * time.Millisecond, measureEvery
	// lookFull is how often it is while it is full: to measure all volumes costs more.
	lookFull = time.Second
	// Pods leave as much of a disk as a kubelet has them leave (nodefs.available), but
	// no more than the store of a plane can need.
	roomPercent, maxRoom = 10, 1 << 30
	// evictedFor is for how long after a Pod was evicted no other of its owner comes,
	// which would do the same and leave a Pod that has failed each time. For so long a
	// kubelet takes none at all after its disk was full.
	evictedFor = 5 * time.Minute
)

// room is how many bytes Pods leave free of a disk.
func room(s diskspace.Space) int64 { return min(s.Total()*roomPercent/100, maxRoom) }

// onDisk are the volumes of a Pod that its containers write to the disk.
func onDisk(pod *corev1.Pod) []podspec.Volume {
	return slices.DeleteFunc(podspec.VolumesOf(pod), func(v podspec.Volume) bool { return !v.Empty || v.Memory })
}

// keepRoom sees to it, while the Pod can write to the disk, that there is room.
func (l *life) keepRoom(ctx context.Context) {
	if len(onDisk(l.current())) == 0 {
		return
	}
	for l.pause(ctx, l.node.relieve(), nil) {
	}
}

// relieve ends the Pods whose volumes hold the most when the disk is nearly full, until
// what they hold is as much as is missing. Those that hold little stay: it is somebody
// else who fills the disk. It returns when to look again.
func (n *Node) relieve() time.Duration {
	n.relieving.Lock()
	defer n.relieving.Unlock()
	disk, err := n.Space()
	if err != nil {
		return lookLatest // who writes is told of it
	}
	kept := room(disk)
	missing := kept - disk.Free
	if missing < 0 {
		return min(lookLatest, max(lookSoonest, time.Duration(float64(-missing)/fastest*float64(time.Second))))
	}
	type holds struct {
		*life
		bytes int64
	}
	var all []holds
	for _, l := range n.lives() {
		h := holds{life: l}
		for _, v := range onDisk(l.current()) {
			size, _ := n.Volumes.Size(l.name, v.Name) // what cannot be measured may be gone
			h.bytes += size
		}
		if l.stopping() {
			missing -= h.bytes // it goes already
			continue
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b holds) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, h := range all {
		if missing <= 0 || h.bytes < kept/10 {
			break
		}
		missing -= h.bytes
		h.evict(0, fmt.Sprintf("The disk of the plane has %d MiB left, and EmptyDir volumes of the Pod hold %d MiB: give them a sizeLimit, or the plane a larger disk", disk.Free>>20, h.bytes>>20))
	}
	return lookFull
}

func (n *Node) lives() (all []*life) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.pods {
		all = append(all, l)
	}
	return all
}

// eviction is when a Pod was evicted, and why.
type eviction struct {
	at  time.Time
	why string
}

// evict ends a Pod that took more of the disk than it may.
func (l *life) evict(grace time.Duration, why string) {
	l.node.noteEvicted(l.current(), why)
	l.fail(grace, "Evicted", why)
}

// noteEvicted keeps who owns a Pod that is evicted.
func (n *Node) noteEvicted(pod *corev1.Pod, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.evicted, func(_ types.UID, e eviction) bool { return n.Clock.Since(e.at) >= evictedFor })
	if owner := metav1.GetControllerOf(pod); owner != nil {
		n.evicted[owner.UID] = eviction{n.Clock.Now(), why}
	}
}

// waits says why a Pod does not come yet, and for how long; nothing and 0 if it may.
func (n *Node) waits(pod *corev1.Pod) ([]podspec.Problem, time.Duration) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil, 0
	}
	n.mu.Lock()
	last := n.evicted[owner.UID]
	n.mu.Unlock()
	until := last.at.Add(evictedFor)
	left := until.Sub(n.Clock.Now())
	if left <= 0 {
		return nil, 0
	}
	const detail = "another Pod of %s %s was evicted, so this one waits until %s: %s"
	return []podspec.Problem{{Field: "spec", Detail: fmt.Sprintf(detail, owner.Kind, owner.Name, until.UTC().Format(time.RFC3339), last.why)}}, left
}
