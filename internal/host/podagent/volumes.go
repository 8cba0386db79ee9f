// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// A token is renewed when a fifth of its time is left.
	renewAfter = 0.8
	// retryVolumes is the delay before volumes are updated again after a failure.
	retryVolumes = 10 * time.Second
	// idle is the longest interval between updates if nothing changes.
	idle = 24 * time.Hour
)

// volumes writes the current content of the Pod's volumes. A change after this
// point closes looked, also while the content is being written.
func (l *life) volumes(ctx context.Context) error {
	l.mu.Lock()
	l.looked = l.notified
	l.mu.Unlock()
	pod := l.current()
	all := podspec.VolumesOf(pod)
	if len(all) == 0 {
		return nil
	}
	facts, err := l.known(ctx, false)
	if err != nil {
		return err
	}
	tokens, err := l.tokens(ctx, pod)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Empty {
			if err := l.node.Volumes.Empty(l.name, v.Name); err != nil {
				return err
			}
			continue
		}
		files, err := podspec.Files(pod, v.Name, facts)
		if err != nil {
			return err
		}
		files = append(files, tokens[v.Name]...)
		slices.SortFunc(files, func(a, b podspec.File) int { return strings.Compare(a.Path, b.Path) })
		if err := l.node.Volumes.Write(l.name, v.Name, files); err != nil {
			return err
		}
	}
	return nil
}

// tokens returns the tokens of the Pod's volumes, with new ones where a renewal is
// due.
func (l *life) tokens(ctx context.Context, pod *corev1.Pod) (map[string][]podspec.File, error) {
	files, now := map[string][]podspec.File{}, l.node.Clock.Now()
	for _, t := range podspec.TokensOf(pod) {
		key := t.Volume + "/" + t.Path
		l.mu.Lock()
		have := l.renew[key]
		l.mu.Unlock()
		if !now.Before(have.renew) {
			text, ends, err := l.node.Tokens.Token(ctx, pod, t)
			if err != nil {
				return nil, fmt.Errorf("get a token of ServiceAccount %s: %w", pod.Spec.ServiceAccountName, err)
			}
			have = tokenOf{text, now.Add(time.Duration(renewAfter * float64(ends.Sub(now))))}
			l.mu.Lock()
			l.renew[key] = have
			l.mu.Unlock()
		}
		files[t.Volume] = append(files[t.Volume], podspec.File{Path: t.Path, Data: []byte(have.text), Mode: t.Mode})
	}
	return files, nil
}

// keepVolumes updates the volumes when the objects that they are created from
// change, and renews tokens in time.
func (l *life) keepVolumes(ctx context.Context) {
	failed := false
	for {
		l.mu.Lock()
		changes := l.looked
		l.mu.Unlock()
		wait := l.untilRenewal()
		if failed {
			wait = min(wait, retryVolumes)
		}
		if !l.pause(ctx, wait, changes) {
			return
		}
		err := l.volumes(ctx)
		if failed = err != nil && ctx.Err() == nil; failed {
			l.event(corev1.EventTypeWarning, "FailedMount", "Mounting", "bring volumes up to date: %v", err)
		}
	}
}

// untilRenewal is the time until the first token must be renewed.
func (l *life) untilRenewal() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait, now := idle, l.node.Clock.Now()
	for _, t := range l.renew {
		wait = min(wait, t.renew.Sub(now))
	}
	return max(wait, time.Second)
}
