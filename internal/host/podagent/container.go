// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// imageLook is the interval between checks whether an image for which a container
// waits was imported. A check reads one small file; there is no notification,
// because another process imports images.
const imageLook = 2 * time.Second

// waitingError is why a container waits; its reason is one of podstatus.
type waitingError struct {
	reason string
	err    error
}

// Error implements error.
func (w *waitingError) Error() string { return w.err.Error() }

// Unwrap returns the cause.
func (w *waitingError) Unwrap() error { return w.err }

// keep runs a container, and restarts it according to the Pod's policy. It returns
// whether the container has completed and will not run again. up is called when the
// container has started according to its startup probe.
func (l *life) keep(ctx context.Context, c podspec.Container, up func()) bool {
	var crashes, waits podstatus.Backoff
	for !l.stopping() && ctx.Err() == nil {
		changes := l.changes()
		prepared, err := l.ready(ctx, c)
		if err == nil {
			err = l.launch(ctx, c, prepared)
		}
		if err != nil {
			var delay time.Duration
			waits, delay = waits.Failed(0)
			l.waits(c, err, delay)
			if !l.pauseForImage(ctx, c, max(delay, time.Second), changes) {
				break
			}
			continue
		}
		waits = podstatus.Backoff{}
		exit := l.watch(ctx, c, prepared, up)
		if l.stopping() || ctx.Err() != nil || !podstatus.Restarts(l.current(), c, exit.Code) {
			l.change(c.Name, func(r *run) { r.Over = true })
			return exit.Code == 0
		}
		var delay time.Duration
		crashes, delay = crashes.Failed(exit.Finished.Sub(exit.Started))
		if delay > 0 {
			l.change(c.Name, func(r *run) {
				r.Waiting, r.Message = podstatus.CrashLoopBackOff, podstatus.CrashMessage(l.pod, c.Name, delay, prepared.log.Last())
			})
			l.event(corev1.EventTypeWarning, "BackOff", "Restarting", "Back-off restarting failed container %s in pod %s", c.Name, l.key.Name)
			if !l.pause(ctx, delay, nil) {
				break
			}
		}
		l.change(c.Name, func(r *run) { r.Restarts++ })
	}
	l.change(c.Name, func(r *run) { r.Over = r.Ended != nil })
	return false
}

// pauseForImage is pause, but returns soon after a missing image was imported.
func (l *life) pauseForImage(ctx context.Context, c podspec.Container, d time.Duration, changes chan struct{}) bool {
	if _, err := l.node.Images.Find(c.Image); !errors.Is(err, ErrNoImage) {
		return l.pause(ctx, d, changes)
	}
	for until := l.node.Clock.Now().Add(d); ; {
		if !l.pause(ctx, min(until.Sub(l.node.Clock.Now()), imageLook), changes) {
			return false
		}
		select {
		case <-changes:
			return true
		default:
		}
		if _, err := l.node.Images.Find(c.Image); err == nil || !l.node.Clock.Now().Before(until) {
			return true
		}
	}
}

// waits reports why a container does not start.
func (l *life) waits(c podspec.Container, err error, delay time.Duration) {
	reason := podstatus.Create
	var w *waitingError
	var missing *podspec.MissingError
	switch {
	case errors.As(err, &missing):
		reason = podstatus.Config
	case errors.As(err, &w):
		reason = w.reason
	}
	if reason == podstatus.ImagePull && delay > 0 {
		reason = podstatus.ImagePullBackOff
	}
	l.event(corev1.EventTypeWarning, "Failed", "Starting", "container %s: %v", c.Name, err)
	l.change(c.Name, func(r *run) { r.Waiting, r.Message = reason, err.Error() })
}

// prepared has what is needed to start a container.
type prepared struct {
	container Container
	image     Image
	release   func()
	log       *podlogs.Log
	id        string
	process   Process
	started   time.Time
}

// ready prepares everything that a container needs.
func (l *life) ready(ctx context.Context, c podspec.Container) (_ *prepared, err error) {
	image, err := l.image(ctx, c)
	if err != nil {
		return nil, err
	}
	root, release, err := l.node.Images.Root(image.Digest)
	if err != nil {
		return nil, fmt.Errorf("open image %s: %w", c.Image, err)
	}
	p := &prepared{image: image, release: release}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if p.container, err = l.describe(ctx, c, image, root); err != nil {
		return nil, err
	}
	l.mu.Lock()
	restarts := l.containers[c.Name].Restarts
	l.mu.Unlock()
	p.id = fmt.Sprintf("%s-%s-%d", l.uid, c.Name, restarts)
	if p.log, err = l.node.Logs.Begin(l.name, c.Name, int(restarts)); err != nil {
		return nil, err
	}
	return p, nil
}

// launch starts a prepared container.
func (l *life) launch(ctx context.Context, c podspec.Container, p *prepared) error {
	l.mu.Lock()
	sandbox := l.sandbox
	l.mu.Unlock()
	process, err := sandbox.Run(ctx, p.container)
	if err != nil {
		p.release()
		return &waitingError{podstatus.Run, errors.Join(err, p.log.End())}
	}
	p.process, p.started = process, l.node.Clock.Now()
	l.change(c.Name, func(r *run) {
		r.process, r.ID, r.ImageID, r.Started = process, p.id, p.image.Digest, p.started
		r.Waiting, r.Message = "", ""
		r.Up, r.Ready = c.StartupProbe == nil, c.ReadinessProbe == nil
	})
	l.event(corev1.EventTypeNormal, "Started", "Starting", "Container started: %s", c.Name)
	return nil
}

// watch copies the output of a running container and runs its probes, until it
// exits.
func (l *life) watch(ctx context.Context, c podspec.Container, p *prepared, up func()) *podstatus.Exit {
	defer p.release()
	during, cancel := context.WithCancel(ctx)
	var besides, output sync.WaitGroup
	output.Go(l.part(func() { p.log.Copy("stdout", p.process.Stdout()) }))
	output.Go(l.part(func() { p.log.Copy("stderr", p.process.Stderr()) }))
	besides.Go(l.part(func() { l.attend(during, c, p, up) }))
	end := p.process.Wait()
	cancel()
	output.Wait()
	besides.Wait()
	exit := &podstatus.Exit{
		Code: end.Code, Signal: end.Signal, OOMKilled: end.OOMKilled, Started: p.started, Finished: l.node.Clock.Now(), ID: p.id,
		Message: lastMessage(p, end),
	}
	_ = p.log.End() // its output is in the file
	l.change(c.Name, func(r *run) {
		r.process, r.Started, r.ID = nil, time.Time{}, ""
		r.Up, r.Ready = false, false
		r.Before, r.Ended, r.endedRun = r.Ended, exit, r.Restarts
	})
	return exit
}

// attend runs the post-start hook and the probes.
func (l *life) attend(ctx context.Context, c podspec.Container, p *prepared, up func()) {
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		if err := l.hook(ctx, c, c.Lifecycle.PostStart); err != nil && ctx.Err() == nil {
			l.event(corev1.EventTypeWarning, "FailedPostStartHook", "Killing", "container %s: %v", c.Name, err)
			l.kill(ctx, c, p, podstatus.GraceOf(l.current(), nil))
			return
		}
	}
	l.probe(ctx, c, p, up)
}

// kill stops a container within a grace period; it is restarted according to the
// Pod's policy.
func (l *life) kill(ctx context.Context, c podspec.Container, p *prepared, grace time.Duration) {
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		began := l.node.Clock.Now()
		bounded, cancel := context.WithTimeout(ctx, grace)
		_ = l.hook(bounded, c, c.Lifecycle.PreStop) // the container is stopped in any case
		cancel()
		grace = max(grace-l.node.Clock.Since(began), min(grace, afterHook))
	}
	_ = p.process.Signal(syscall.Signal(p.container.StopSignal)) // it may have exited
	timer := l.node.Clock.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C():
		_ = p.process.Signal(syscall.SIGKILL) // it may have exited
	case <-ctx.Done(): // it has exited
	}
}
