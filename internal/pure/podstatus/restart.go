// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
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

// CrashMessage is the message of a container that waits for its restart: the delay, and
// its last output.
func CrashMessage(pod *corev1.Pod, container string, delay time.Duration, last string) string {
	text := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, container, pod.Name, pod.Namespace, pod.UID)
	if last != "" {
		text += "; it wrote last: " + last
	}
	return text
}
