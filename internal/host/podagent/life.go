// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// life runs one Pod on the node, from when the Pod is taken until its sandbox is
// removed.
type life struct {
	node     *Node
	uid      types.UID
	key      client.ObjectKey
	name     string // unique, also of a file
	address  netip.Addr
	accepted time.Time

	ended chan struct{}   // closed when nothing of the Pod runs any longer
	ends  chan struct{}   // closed when the Pod must end
	grant context.Context // ends with a grace period that was shortened
	expel context.CancelFunc
	parts sync.WaitGroup // what it runs

	mu         sync.Mutex // guards what follows
	pod        *corev1.Pod
	graceful   time.Duration // the grace period of its end
	until      time.Time     // when that is over
	sandbox    Running
	containers map[string]*run
	notified   chan struct{} // closed when objects that it names have changed
	looked     chan struct{} // the value of notified when volumes were last updated
	renew      map[string]tokenOf
	failed     string // why it must not run again, "" if it may
	failure    string // details of failed
}

// run is the state of a container.
type run struct {
	podstatus.Container
	process  Process
	spec     podspec.Container
	endedRun int32 // the number of the run that has Ended
}

// tokenOf identifies a token in a volume.
type tokenOf struct {
	text  string
	renew time.Time
}

func newLife(n *Node, pod *corev1.Pod, address netip.Addr) *life {
	l := &life{
		node: n, uid: pod.UID, key: client.ObjectKeyFromObject(pod), address: address, accepted: n.Clock.Now(),
		name:  fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID),
		ended: make(chan struct{}), ends: make(chan struct{}), notified: make(chan struct{}),
		pod: pod.DeepCopy(), containers: map[string]*run{}, renew: map[string]tokenOf{},
	}
	l.grant, l.expel = context.WithCancel(context.Background())
	if pod.Status.StartTime != nil {
		l.accepted = pod.Status.StartTime.Time
	}
	before, _ := podstatus.Interrupted(pod, n.Clock.Now())
	for i, c := range podspec.Containers(pod) {
		l.containers[c.Name] = &run{Container: before[i], spec: c}
	}
	return l
}

// update stores the current Pod object.
func (l *life) update(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pod = pod.DeepCopy()
}

func (l *life) current() *corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pod
}

// facts returns the current facts about the Pod.
func (l *life) facts(pod *corev1.Pod) podstatus.Facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := podstatus.Facts{
		Pod: pod, Now: l.node.Clock.Now(), HostIP: l.node.Address, PodIP: l.address.String(),
		Accepted: l.accepted, Sandbox: l.sandbox != nil,
	}
	for _, name := range slices.Sorted(maps.Keys(l.containers)) {
		f.Containers = append(f.Containers, l.containers[name].Container)
	}
	runs := func(c podstatus.Container) bool { return !c.Started.IsZero() }
	if l.over() || !slices.ContainsFunc(f.Containers, runs) { // until then it shows how it ends
		f.Failed, f.FailedMessage = l.failed, l.failure
	}
	return f
}

// over reports whether nothing of the Pod runs any longer.
func (l *life) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// change changes the state of a container, and triggers a status write.
func (l *life) change(name string, by func(*run)) {
	defer l.node.trigger(l.key)
	l.mu.Lock()
	defer l.mu.Unlock()
	by(l.containers[name])
}

func (l *life) event(kind, reason, action, note string, args ...any) {
	l.node.Recorder.Eventf(l.current(), nil, kind, reason, action, note, args...)
}

// grace returns the grace period of the Pod.
func (l *life) grace() time.Duration {
	pod := l.current()
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return podstatus.GraceOf(pod, nil)
}

// stop ends the Pod within a grace period, which further calls can only shorten; ended
// is closed when it has ended.
func (l *life) stop(grace time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.node.Clock.Now().Add(grace)
	switch {
	case !l.stopping():
		l.graceful, l.until = grace, until
		close(l.ends)
	case until.Before(l.until):
		l.until = until
		l.node.Clock.AfterFunc(grace, l.part(l.expel))
	}
}

func (l *life) stopping() bool {
	select {
	case <-l.ends:
		return true
	default:
		return false
	}
}

// volumesChanged reports a change of objects that the Pod names.
func (l *life) volumesChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.notified)
	l.notified = make(chan struct{})
}

// changes returns a channel that the next call of volumesChanged closes.
func (l *life) changes() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notified
}

// pause waits for a time, or for changes if that is not nil, and reports whether
// the Pod must continue.
func (l *life) pause(ctx context.Context, d time.Duration, changes chan struct{}) bool {
	timer := l.node.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-changes:
	case <-l.ends:
		return false
	case <-ctx.Done():
		return false
	}
	return !l.stopping()
}

// run runs the Pod until it has ended or must end.
func (l *life) run(ctx context.Context) {
	defer l.node.trigger(l.key)
	defer close(l.ended)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	l.guard(func() {
		if l.prepare(running) {
			l.runContainers(running)
		}
	})
	l.guard(l.stopSandbox)
	cancel()
	l.parts.Wait()
	l.guard(func() {
		// The Pod object may stay for long, so that its owner can read how it
		// ended.
		if err := l.node.Volumes.Remove(l.name); err != nil {
			l.event(corev1.EventTypeWarning, "FailedUnmount", "Killing", "%v", err)
		}
	})
}

// runContainers runs the containers until they have ended or must end.
func (l *life) runContainers(ctx context.Context) {
	done := make(chan struct{})
	l.parts.Go(l.part(func() { l.keepVolumes(ctx) }))
	l.parts.Go(l.part(func() { l.keepLimits(ctx) }))
	l.parts.Go(l.part(func() { l.keepRoom(ctx) }))
	var containers sync.WaitGroup
	l.parts.Go(l.part(func() {
		defer close(done)
		l.start(ctx, &containers)
		containers.Wait()
	}))
	select {
	case <-done:
	case <-l.ends:
		l.preStop(ctx)
	case <-ctx.Done():
	}
}

// stopSandbox ends the remaining parts of the Pod.
func (l *life) stopSandbox() {
	l.mu.Lock()
	sandbox, grace := l.sandbox, l.graceful
	l.mu.Unlock()
	if sandbox == nil {
		return
	}
	if !l.stopping() {
		grace = l.grace() // of its sidecars
	}
	l.stop(grace)
	if err := sandbox.Stop(l.grant, grace); err != nil {
		l.event(corev1.EventTypeWarning, "FailedKillPod", "Killing", "stop the sandbox: %v", err)
	}
}

// start starts the containers in order, each when the earlier ones have reached the
// required state.
func (l *life) start(ctx context.Context, running *sync.WaitGroup) {
	for _, c := range podspec.Containers(l.current()) {
		switch {
		case c.Sidecar:
			up := make(chan struct{})
			l.parts.Go(l.part(func() { l.keep(ctx, c, sync.OnceFunc(func() { close(up) })) }))
			select {
			case <-up:
			case <-l.ends:
				return
			case <-ctx.Done():
				return
			}
		case c.Init:
			if !l.keep(ctx, c, func() {}) {
				return
			}
		case !l.containers[c.Name].Over: // in an earlier process of the plane
			running.Go(l.part(func() { l.keep(ctx, c, func() {}) }))
		}
	}
}

// prepare creates the volumes and the sandbox, and retries until it succeeds.
func (l *life) prepare(ctx context.Context) bool {
	var backoff podstatus.Backoff
	for {
		changes := l.changes()
		err := l.volumes(ctx)
		reason := "FailedMount"
		if err == nil {
			if err = l.begin(ctx); err == nil {
				l.node.trigger(l.key)
				return !l.stopping()
			}
			reason = "FailedCreatePodSandBox"
		}
		if ctx.Err() != nil {
			return false
		}
		l.event(corev1.EventTypeWarning, reason, "Preparing", "%v", err)
		for name := range maps.Clone(l.containers) { // nothing is added to it
			l.change(name, func(r *run) { r.Message = err.Error() })
		}
		var delay time.Duration
		backoff, delay = backoff.Failed(0)
		if !l.pause(ctx, max(delay, time.Second), changes) {
			return false
		}
	}
}

// begin starts the sandbox.
func (l *life) begin(ctx context.Context) error {
	pod := l.current()
	s, err := l.node.Sandboxes.Start(ctx, Sandbox{
		Name: l.name, Hostname: podspec.Hostname(pod), Address: l.address, Limits: podspec.PodLimits(pod),
		Resolv: podspec.Resolv(pod, l.node.DNS.String()), Hosts: podspec.Hosts(pod, l.address.String()),
		Refused: func(why string) {
			klog.InfoS("Refusing connections of a Pod", "pod", klog.KRef(l.key.Namespace, l.key.Name), "reason", why)
			l.event(corev1.EventTypeWarning, "ConnectionsRefused", "Connecting", "%s", why)
		},
	})
	if err != nil {
		return fmt.Errorf("start the sandbox: %w", err)
	}
	limited := func(c podspec.Container) bool { return podspec.LimitsOf(c.Container) != podspec.Limits{} }
	if l.node.Unlimited && slices.ContainsFunc(podspec.Containers(pod), limited) {
		l.event(corev1.EventTypeWarning, "LimitsNotHeld", "Starting", "resources.limits of cpu and memory are not held: run the plane as root for that")
	}
	l.mu.Lock()
	l.sandbox = s
	for _, r := range l.containers {
		r.Message = ""
	}
	l.mu.Unlock()
	return nil
}

func (l *life) dial(ctx context.Context, port int) (net.Conn, error) {
	s, err := l.runs()
	if err != nil {
		return nil, err
	}
	return s.Dial(ctx, port)
}

// runs returns the sandbox, if it exists. A Pod that ends can be reached until it has
// ended, by its hooks and by clients that have its address.
func (l *life) runs() (Running, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sandbox == nil {
		return nil, fmt.Errorf("Pod %s has no sandbox that runs", l.key)
	}
	return l.sandbox, nil
}
