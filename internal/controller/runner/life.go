// SPDX-License-Identifier: Apache-2.0

package runner

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

// life is that of one Pod on the node, from when it is taken until its sandbox is
// gone.
type life struct {
	node     *Node
	uid      types.UID
	key      client.ObjectKey
	name     string // unique, also of a file
	address  netip.Addr
	accepted time.Time

	ended chan struct{} // closed when nothing of it runs any more
	ends  chan struct{} // closed when it is to end
	once  sync.Once
	parts sync.WaitGroup // what it runs

	mu         sync.Mutex // guards what follows
	pod        *corev1.Pod
	graceful   time.Duration // with which it is to end
	sandbox    Running
	containers map[string]*run
	poked      chan struct{} // closed when objects that it names have changed
	looked     chan struct{} // poked, when volumes were looked at last
	renew      map[string]tokenOf
	failed     string // the reason for which it is never to run again, "" if it may
	failure    string // says more of it
}

// run is what is known of a container.
type run struct {
	podstatus.Container
	process  Process
	spec     podspec.Container
	endedRun int32 // the number of the run that has Ended
}

// tokenOf is a token in a volume.
type tokenOf struct {
	text  string
	renew time.Time
}

func newLife(n *Node, pod *corev1.Pod, address netip.Addr) *life {
	l := &life{
		node: n, uid: pod.UID, key: client.ObjectKeyFromObject(pod), address: address, accepted: n.Clock.Now(),
		name:  fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID),
		ended: make(chan struct{}), ends: make(chan struct{}), poked: make(chan struct{}),
		pod: pod.DeepCopy(), containers: map[string]*run{}, renew: map[string]tokenOf{},
	}
	if pod.Status.StartTime != nil {
		l.accepted = pod.Status.StartTime.Time
	}
	before := append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...)
	for _, c := range podspec.Containers(pod) {
		r := &run{Container: podstatus.Container{Name: c.Name}, spec: c}
		for _, s := range before {
			if s.Name == c.Name && s.ContainerID != "" {
				lost(r, s, n.Clock.Now())
			}
		}
		l.containers[c.Name] = r
	}
	return l
}

// lost is what became of a container of an earlier process of the plane.
func lost(r *run, s corev1.ContainerStatus, now time.Time) {
	r.Restarts = s.RestartCount + 1
	if s.State.Running != nil {
		r.Ended = &podstatus.Exit{Code: 255, Message: "it ended with the plane that ran it", Started: s.State.Running.StartedAt.Time, Finished: now}
	}
}

// update takes the Pod as it is stored now.
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

// facts are what is known of it now.
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

// over says that nothing of it runs any more.
func (l *life) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// change changes what is known of a container, and has its status written.
func (l *life) change(name string, by func(*run)) {
	defer l.node.wake(l.key)
	l.mu.Lock()
	defer l.mu.Unlock()
	by(l.containers[name])
}

func (l *life) event(kind, reason, action, note string, args ...any) {
	l.node.Recorder.Eventf(l.current(), nil, kind, reason, action, note, args...)
}

// grace is how long it may take to end.
func (l *life) grace() time.Duration {
	pod := l.current()
	for _, seconds := range []*int64{pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds} {
		if seconds != nil {
			return time.Duration(*seconds) * time.Second
		}
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// stop has it end within a time; ended tells when it has.
func (l *life) stop(grace time.Duration) {
	l.once.Do(func() {
		l.mu.Lock()
		l.graceful = grace
		l.mu.Unlock()
		close(l.ends)
	})
}

func (l *life) stopping() bool {
	select {
	case <-l.ends:
		return true
	default:
		return false
	}
}

// poke says that objects that it names have changed.
func (l *life) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.poked)
	l.poked = make(chan struct{})
}

// changes is closed by the next poke.
func (l *life) changes() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poked
}

// pause waits for a time, or for changes, if that is not nil; and says whether it
// is to go on at all.
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

// run runs the Pod until it has ended or is to end.
func (l *life) run(ctx context.Context) {
	defer l.node.wake(l.key)
	defer close(l.ended)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	l.guard(func() {
		if l.prepare(running) {
			l.runContainers(running)
		}
	})
	l.guard(func() { l.stopSandbox(ctx) })
	cancel()
	l.parts.Wait()
	l.guard(func() {
		// The Pod may stay for long, so that its owner sees how it ended.
		if err := l.node.Volumes.Remove(l.name); err != nil {
			l.event(corev1.EventTypeWarning, "FailedUnmount", "Killing", "%v", err)
		}
	})
}

// runContainers runs them until they have ended or are to end.
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

// stopSandbox ends what is left of the Pod.
func (l *life) stopSandbox(ctx context.Context) {
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
	// The sandbox ends also when the plane has no time left.
	if err := sandbox.Stop(context.WithoutCancel(ctx), grace); err != nil {
		l.event(corev1.EventTypeWarning, "FailedKillPod", "Killing", "stop the sandbox: %v", err)
	}
}

// start starts the containers, each when those before it are where they have to be.
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
		default:
			running.Go(l.part(func() { l.keep(ctx, c, func() {}) }))
		}
	}
}

// prepare makes volumes and the sandbox, and tries as long as it takes.
func (l *life) prepare(ctx context.Context) bool {
	var backoff podstatus.Backoff
	for {
		changes := l.changes()
		err := l.volumes(ctx)
		reason := "FailedMount"
		if err == nil {
			if err = l.begin(ctx); err == nil {
				l.node.wake(l.key)
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

// runs is its sandbox, if that is there and is not to end.
func (l *life) runs() (Running, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sandbox == nil || l.stopping() {
		return nil, fmt.Errorf("Pod %s has no sandbox that runs", l.key)
	}
	return l.sandbox, nil
}
