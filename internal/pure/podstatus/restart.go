// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// firstDelay and lastDelay are those of kubelets, which operators know.
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
	// settled is how long a run lasts after which nothing is held against it.
	settled = 10 * time.Minute
)

// Backoff is how long what goes wrong again and again is put off: not at all the
// first time, then ten seconds, doubling to five minutes. The zero value is of
// what has not gone wrong yet.
type Backoff struct {
	failures int
}

// Failed returns the backoff after a run that has lasted so long, and how long to
// wait now.
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

// Restarts decides whether a container that has ended is started again.
func Restarts(pod *corev1.Pod, c podspec.Container, code int) bool {
	if c.Sidecar {
		return true
	}
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil && !c.Init {
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

// CrashMessage says of a container that waits to be started again how long, and
// what it wrote last.
func CrashMessage(pod *corev1.Pod, container string, delay time.Duration, last string) string {
	text := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, container, pod.Name, pod.Namespace, pod.UID)
	if last != "" {
		text += "; it wrote last: " + last
	}
	return text
}
