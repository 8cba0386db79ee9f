// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// measureEvery is how often volumes that have a limit are measured, as
	// elsewhere: a walk through their files is not free.
	measureEvery = 10 * time.Second
	// evictionGrace is how long a Pod that takes more than it may has to end.
	evictionGrace = time.Second
	// maxMessages is how much the files of last messages may hold together, of which 4
	// KiB each are read: every container can write to one.
	maxMessages = 1 << 20
)

// fail has the Pod end for good, whatever its restart policy says.
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

// guard runs f. A panic evicts the Pod, so that it is not run again: other Pods go on.
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

// expire ends a Pod whose time is over, and returns how long it has until then;
// 0 if that does not matter.
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

// keepLimits ends the Pod when one of its volumes holds more than it may.
func (l *life) keepLimits(ctx context.Context) {
	limited := []podspec.Volume{{Name: messages, Limit: maxMessages}}
	for _, v := range podspec.VolumesOf(l.current()) {
		if v.Empty && v.Limit > 0 {
			limited = append(limited, v)
		}
	}
	for l.pause(ctx, measureEvery, nil) {
		for _, v := range limited {
			size, err := l.node.Volumes.Size(l.name, v.Name)
			if err != nil {
				l.event(corev1.EventTypeWarning, "FailedMount", "Measuring", "%v", err)
				continue
			}
			if size > v.Limit && v.Name == messages {
				l.evict(evictionGrace, fmt.Sprintf("The files at terminationMessagePath of its containers hold more than %d bytes: write %d there at most", maxMessages, maxMessage))
				return
			}
			if size > v.Limit {
				l.evict(evictionGrace, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit of %d bytes: raise its sizeLimit, or have it hold less", v.Name, v.Limit))
				return
			}
		}
	}
}
