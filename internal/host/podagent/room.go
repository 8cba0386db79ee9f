// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// While a Pod can write to the disk, the free space is read again before a
	// writer at this speed, in bytes per second, could have used it up; that is one
	// system call. Other Pods share this speed.
	fastest = 4 << 30
	// fastestFiles is the same for files, in files a second: a few times what ext4 creates
	// in memory.
	fastestFiles            = 1 << 20
	lookSoonest, lookLatest = 50 * time.Millisecond, measureEvery
	// lookFull is the interval while the disk is full: to measure all volumes costs
	// more.
	lookFull = time.Second
	// Pods leave as much of a disk free as with a kubelet (nodefs.available), but
	// no more than the store of a plane can need.
	roomPercent, maxRoom = 10, 1 << 30
	// maxRoomFiles is the number of files for which ext4 has inodes in maxRoom
	// bytes.
	maxRoomFiles = maxRoom / (16 << 10)
	// evictedFor is how long after an eviction no other Pod of the same owner is
	// taken. That Pod would fill the disk as well, and each time leave a failed
	// Pod. A kubelet takes no Pod at all for as long after its disk was full.
	evictedFor = 5 * time.Minute
)

// room is the number of bytes that Pods leave free on a disk.
func room(s diskspace.Space) int64 { return min(s.Total()*roomPercent/100, maxRoom) }

// roomFiles is the number of files that Pods leave free on a disk.
func roomFiles(s diskspace.Space) int64 { return min(s.Files/100*roomPercent, maxRoomFiles) }

// inMemory reports whether a volume is in memory: such a volume belongs to one
// container, and no part of it is mounted in others.
func inMemory(pod *corev1.Pod, v podspec.Volume) bool {
	mounts := 0
	for _, c := range podspec.Containers(pod) {
		for _, m := range c.VolumeMounts {
			if m.Name != v.Name {
				continue
			}
			if mounts++; m.SubPath != "" || m.SubPathExpr != "" {
				return false
			}
		}
	}
	return v.Memory && mounts == 1
}

// onDisk returns the volumes of a Pod that its containers write to the disk.
func onDisk(pod *corev1.Pod) []podspec.Volume {
	return slices.DeleteFunc(podspec.VolumesOf(pod), func(v podspec.Volume) bool { return !v.Empty || inMemory(pod, v) })
}

// keepRoom ensures enough free disk space while the Pod can write to the disk.
func (l *life) keepRoom(ctx context.Context) {
	if len(onDisk(l.current())) == 0 {
		return
	}
	for l.pause(ctx, l.node.relieve(), nil) {
	}
}

// holds is the disk usage of the volumes of a Pod.
type holds struct {
	*life
	filetree.Usage
	err error // why there may be more
}

// measure adds up the volumes of a Pod.
func (n *Node) measure(l *life) holds {
	h := holds{life: l}
	for _, v := range onDisk(l.current()) {
		u, err := n.Volumes.Usage(l.name, v.Name, math.MaxInt64)
		h.Bytes, h.Files = h.Bytes+u.Bytes, h.Files+u.Files
		if err != nil && !ofHost(err) {
			h.err = err
		}
	}
	return h
}

// shortage is what a disk lacks.
type shortage struct {
	missing, kept int64
	of            func(holds) int64
	text          func(holds) string
}

// lacks returns what a disk lacks: bytes, or else files; nothing if missing is
// negative.
func lacks(disk diskspace.Space) shortage {
	bytes := shortage{room(disk) - disk.Free, room(disk), func(h holds) int64 { return h.Bytes }, func(h holds) string {
		return fmt.Sprintf("The disk of the plane has %d MiB left, and EmptyDir volumes of the Pod hold %d MiB: give them a sizeLimit, or the plane a larger disk", disk.Free>>20, h.Bytes>>20)
	}}
	files := shortage{roomFiles(disk) - disk.FreeFiles, roomFiles(disk), func(h holds) int64 { return h.Files }, func(h holds) string {
		return fmt.Sprintf("The disk of the plane has inodes for %d files left, and EmptyDir volumes of the Pod hold %d files: give them a sizeLimit, or the plane a disk with more inodes", disk.FreeFiles, h.Files)
	}}
	if bytes.missing < 0 && files.missing >= 0 {
		return files
	}
	return bytes
}

// untilFull is how long the fastest writer needs to fill the disk up to the
// reserve.
func untilFull(disk diskspace.Space) time.Duration {
	seconds := min(float64(disk.Free-room(disk))/fastest, float64(disk.FreeFiles-roomFiles(disk))/fastestFiles)
	return time.Duration(min(seconds, lookLatest.Seconds()) * float64(time.Second))
}

// relieve ends the Pods whose volumes use the most space when the disk is nearly
// full, until their usage covers the shortage; a Pod that cannot be measured counts
// as the largest. Pods with little usage stay: others fill the disk. It returns
// when to check again.
func (n *Node) relieve() time.Duration {
	n.relieving.Lock()
	defer n.relieving.Unlock()
	disk, err := n.Space()
	if err != nil {
		return lookLatest // writers get the same error
	}
	short := lacks(disk)
	if short.missing < 0 {
		return max(lookSoonest, untilFull(disk))
	}
	var all []holds
	for _, l := range n.lives() {
		h := n.measure(l)
		if l.stopping() {
			short.missing -= short.of(h) // it is already ending
			continue
		}
		all = append(all, h)
	}
	rank := func(h holds) int64 {
		if h.err != nil {
			return math.MaxInt64
		}
		return short.of(h)
	}
	slices.SortFunc(all, func(a, b holds) int { return cmp.Compare(rank(b), rank(a)) })
	for _, h := range all {
		if short.missing <= 0 || rank(h) < short.kept/10 {
			break
		}
		short.missing -= short.of(h)
		why := short.text(h)
		if h.err != nil {
			why = fmt.Sprintf("The disk of the plane is nearly full, and EmptyDir volumes of the Pod cannot be measured: %v: let their owner read and enter all folders", h.err)
		}
		h.evict(0, why)
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

// evict ends a Pod that uses more of the disk than allowed.
func (l *life) evict(grace time.Duration, why string) {
	l.node.noteEvicted(l.current(), why)
	l.fail(grace, "Evicted", why)
}

// noteEvicted records the owner of an evicted Pod.
func (n *Node) noteEvicted(pod *corev1.Pod, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.evicted, func(_ types.UID, e eviction) bool { return n.Clock.Since(e.at) >= evictedFor })
	if owner := metav1.GetControllerOf(pod); owner != nil {
		n.evicted[owner.UID] = eviction{n.Clock.Now(), why}
	}
}

// waits returns why a Pod is not taken yet, and for how long; nil and 0 if it can
// be.
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
