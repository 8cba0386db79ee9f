// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// firstDelay and lastDelay are those of the kubelet, which operators expect.
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
	// settled is the duration of a run that resets the backoff.
	settled = 10 * time.Minute
)

// Backoff is the delay of repeated failures: none after the first, then ten seconds,
// doubling to five minutes. The zero value is before the first failure.
type Backoff struct {
	failures int
}

// Failed returns the backoff after a run of that duration, and how long to wait now.
func (b Backoff) Failed(lasted time.Duration) (Backoff, time.Duration) {
	if lasted >= settled {
		b = Backoff{}
	}
	b.failures++
	return b, b.delay()
}

func (b Backoff) delay() time.Duration {
	if b.failures < 2 {
		return 0
	}
	d := firstDelay
	for i := 2; i < b.failures && d < lastDelay; i++ {
		d *= 2
	}
	return min(d, lastDelay)
}

// Restarts decides whether a container that has exited is started again.
func Restarts(pod *corev1.Pod, c podspec.Container, code int) bool {
	if c.Sidecar {
		return true
	}
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch {
	case c.Init && code == 0:
		return false
	case policy == corev1.RestartPolicyNever:
		return false
	case policy == corev1.RestartPolicyOnFailure || c.Init:
		return code != 0
	}
	return true
}

// lost is the message of a container that ran in an earlier process of the plane.
const lost = "it ended with the plane that ran it"

// Interrupted returns the containers of a Pod, in the order of podspec.Containers, after
// the process that ran them has ended, and whether the Pod is over. As after a reboot of
// a kubelet's node, a Pod with the restart policy Never is over if it has started a
// container. Of others, init containers run again, and containers that have exited do so
// only as their policy allows.
func Interrupted(pod *corev1.Pod, now time.Time) (all []Container, over bool) {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	over = pod.Spec.RestartPolicy == corev1.RestartPolicyNever && slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.ContainerID != "" })
	for _, c := range podspec.Containers(pod) {
		known := Container{Name: c.Name, Over: over}
		if over {
			known.Message = lost // until its exit is known
		}
		for _, s := range statuses {
			if s.Name != c.Name {
				continue
			}
			known.ImageID, known.Restarts, known.Ended = s.ImageID, s.RestartCount, exitOf(s.LastTerminationState.Terminated)
			if t := s.State.Terminated; t != nil {
				known.Before, known.Ended = known.Ended, exitOf(t)
			}
			if r := s.State.Running; r != nil {
				known.Before, known.Ended = known.Ended, &Exit{Code: 255, Message: lost, Started: r.StartedAt.Time, Finished: now}
			}
			known.Over = over || !c.Init && known.Ended != nil && !Restarts(pod, c, known.Ended.Code)
			if !known.Over && s.ContainerID != "" { // else this run has not started
				known.Restarts++
			}
		}
		all = append(all, known)
	}
	return all, over
}

// exitOf is the inverse of terminated.
func exitOf(t *corev1.ContainerStateTerminated) *Exit {
	if t == nil {
		return nil
	}
	return &Exit{
		Code: int(t.ExitCode), Signal: int(t.Signal), OOMKilled: t.Reason == oomKilled, Message: t.Message,
		Started: t.StartedAt.Time, Finished: t.FinishedAt.Time, ID: strings.TrimPrefix(t.ContainerID, idPrefix),
	}
}

// CrashMessage is the message of a container that waits for its restart: the delay, and
// its last output.
func CrashMessage(pod *corev1.Pod, container string, delay time.Duration, last string) string {
	text := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, container, pod.Name, pod.Namespace, pod.UID)
	if last != "" {
		text += "; it wrote last: " + last
	}
	return text
}
