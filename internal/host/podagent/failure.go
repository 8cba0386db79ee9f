// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// measureEvery is the interval between measurements of volumes with a limit, as
	// in a kubelet: a measurement reads all directories of a volume.
	measureEvery = 10 * time.Second
	// evictionGrace is the grace period of a Pod that exceeds its limits.
	evictionGrace = time.Second
)

// fail ends the Pod permanently, regardless of its restart policy.
func (l *life) fail(grace time.Duration, reason, message string) {
	l.mu.Lock()
	first := l.failed == ""
	if first {
		l.failed, l.failure = reason, message
	}
	l.mu.Unlock()
	if !first {
		return
	}
	l.event(corev1.EventTypeWarning, reason, "Killing", "%s", message)
	l.stop(grace)
}

// guard runs f. A panic evicts the Pod, so that it is not run again: other Pods
// continue.
func (l *life) guard(f func()) {
	ctx := ctrl.LoggerInto(context.Background(), ctrl.Log.WithName("pod").WithValues("Pod", klog.KRef(l.key.Namespace, l.key.Name)))
	if err := recovery.Call(ctx, func() error {
		f()
		return nil
	}); err != nil {
		l.evict(evictionGrace, fmt.Sprintf("The plane cannot run the Pod: %.512s", err))
	}
}

// part returns f for a goroutine of the Pod.
func (l *life) part(f func()) func() { return func() { l.guard(f) } }

// expire ends a Pod after its active deadline, and returns the time until then; 0
// if the Pod has no deadline.
func (l *life) expire() time.Duration {
	seconds := l.current().Spec.ActiveDeadlineSeconds
	if seconds == nil || l.stopping() {
		return 0
	}
	left := time.Duration(*seconds)*time.Second - l.node.Clock.Since(l.accepted)
	if left > 0 {
		return left
	}
	l.fail(l.grace(), "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
	return 0
}

// ofHost reports whether a measurement failed at a limit of the plane, not because
// of the measured volume.
func ofHost(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// keepLimits ends the Pod when one of its volumes exceeds its limit, or cannot be
// measured.
func (l *life) keepLimits(ctx context.Context) {
	var limited []podspec.Volume
	for _, v := range podspec.VolumesOf(l.current()) {
		if v.Empty && v.Limit > 0 {
			limited = append(limited, v)
		}
	}
	for len(limited) > 0 && l.pause(ctx, measureEvery, nil) {
		for _, v := range limited {
			u, err := l.node.Volumes.Usage(l.name, v.Name, v.Limit)
			if err != nil && ofHost(err) {
				l.event(corev1.EventTypeWarning, "FailedMount", "Measuring", "%v", err)
				continue
			}
			if err != nil {
				l.evict(evictionGrace, fmt.Sprintf("Usage of EmptyDir volume %q cannot be measured, so it counts as over its limit of %d bytes: %v: let the owner of its folders read and enter them", v.Name, v.Limit, err))
				return
			}
			if u.Bytes > v.Limit {
				l.evict(evictionGrace, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit of %d bytes: raise its sizeLimit, or have it hold less", v.Name, v.Limit))
				return
			}
		}
	}
}
