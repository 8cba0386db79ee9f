// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// maxAnswer is how many bytes of a response are read, and reported if the probe
// fails.
const maxAnswer = 1 << 10

// readiness is the probe that runs at a shorter interval until it has passed.
const readiness = "Readiness"

// afterHook is the remaining grace period after a hook that took all of it, as in a
// kubelet.
const afterHook = 2 * time.Second

// probe runs a container's probes until ctx ends with the container.
func (l *life) probe(ctx context.Context, c podspec.Container, p *prepared, up func()) {
	if c.StartupProbe != nil {
		passed := false
		l.ask(ctx, c, "Startup", c.StartupProbe, func(v podstatus.ProbeResult) bool {
			passed = v == podstatus.Passed
			return v == podstatus.Undecided
		})
		if ctx.Err() != nil {
			return
		}
		if !passed {
			l.unhealthy(ctx, c, p, "startup", c.StartupProbe)
			return
		}
		l.change(c.Name, func(r *run) { r.Up = true })
	}
	up()
	var probes sync.WaitGroup
	if c.ReadinessProbe != nil {
		probes.Go(l.part(func() {
			l.ask(ctx, c, readiness, c.ReadinessProbe, func(v podstatus.ProbeResult) bool {
				l.mu.Lock()
				same := l.containers[c.Name].Ready == (v == podstatus.Passed)
				l.mu.Unlock()
				if v != podstatus.Undecided && !same {
					l.change(c.Name, func(r *run) { r.Ready = v == podstatus.Passed })
				}
				return true
			})
		}))
	}
	if c.LivenessProbe != nil {
		probes.Go(l.part(func() {
			l.ask(ctx, c, "Liveness", c.LivenessProbe, func(v podstatus.ProbeResult) bool { return v != podstatus.Failed })
			if ctx.Err() == nil {
				l.unhealthy(ctx, c, p, "liveness", c.LivenessProbe)
			}
		}))
	}
	probes.Wait()
}

func (l *life) unhealthy(ctx context.Context, c podspec.Container, p *prepared, name string, probe *corev1.Probe) {
	l.event(corev1.EventTypeNormal, "Killing", "Killing", "Container %s failed %s probe, will be restarted", c.Name, name)
	l.kill(ctx, c, p, podstatus.GraceOf(l.current(), probe))
}

// ask runs one probe repeatedly, until told reports that no further run is needed.
func (l *life) ask(ctx context.Context, c podspec.Container, name string, p *corev1.Probe, told func(podstatus.ProbeResult) bool) {
	timing, answers := podstatus.TimingOf(p), podstatus.NewProbe(p)
	wait, soon := timing.Delay, name == readiness
	for asked := 1; ; asked++ {
		if wait > 0 && !l.pause(ctx, wait, nil) {
			return
		}
		err := l.answer(ctx, c, p.ProbeHandler, timing.Timeout)
		if ctx.Err() != nil || l.stopping() {
			return
		}
		wait = timing.Period
		if soon = soon && err != nil; soon {
			wait = timing.Soon(asked)
		}
		if err != nil && wait == timing.Period {
			l.event(corev1.EventTypeWarning, "Unhealthy", "Probing", "%s probe of container %s failed: %v", name, c.Name, err)
		}
		if !told(answers.Answer(err == nil)) {
			return
		}
	}
}

// answer runs a probe once.
func (l *life) answer(ctx context.Context, c podspec.Container, h corev1.ProbeHandler, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case h.HTTPGet != nil:
		return l.get(ctx, c, h.HTTPGet)
	case h.TCPSocket != nil:
		port, err := podspec.Port(c.Container, h.TCPSocket.Port)
		if err != nil {
			return err
		}
		conn, err := l.dial(ctx, port)
		if err != nil {
			return err
		}
		return conn.Close()
	case h.Exec != nil:
		return l.exec(ctx, c.Name, h.Exec.Command)
	case h.GRPC != nil:
		return l.health(ctx, h.GRPC)
	}
	return nil // the API server requires one of them
}

// exec runs a command in a container, which must exit with 0.
func (l *life) exec(ctx context.Context, container string, command []string) error {
	l.mu.Lock()
	sandbox := l.sandbox
	l.mu.Unlock()
	var said bounded
	code, err := sandbox.Exec(ctx, container, command, podlogs.Streams{Stdout: &said, Stderr: &said})
	if err != nil {
		return fmt.Errorf("run %q: %w", command, err)
	}
	if code != 0 {
		return fmt.Errorf("%q returned %d: %s", command, code, strings.TrimSpace(said.String()))
	}
	return nil
}

// bounded stores the first bytes that are written to it.
type bounded struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Write(p[:min(len(p), maxAnswer-b.b.Len())])
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// get sends an HTTP request and does not verify the certificate: the dialed address
// identifies the Pod.
func (l *life) get(ctx context.Context, c podspec.Container, h *corev1.HTTPGetAction) error {
	port, err := podspec.Port(c.Container, h.Port)
	if err != nil {
		return err
	}
	at, err := url.Parse(h.Path)
	if err != nil {
		return fmt.Errorf("path %q: %w", h.Path, err)
	}
	at.Scheme, at.Host = "http", net.JoinHostPort(l.address.String(), strconv.Itoa(port))
	if h.Scheme == corev1.URISchemeHTTPS {
		at.Scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "kube-probe/capstan")
	for _, header := range h.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			req.Host = header.Value
			continue
		}
		req.Header.Add(header.Name, header.Value)
	}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx, port) },
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	asker := http.Client{Transport: transport, CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		if to.URL.Hostname() != l.address.String() {
			return http.ErrUseLastResponse // a probe does not follow a redirect to another host
		}
		return nil
	}}
	answer, err := asker.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // all that is needed was read
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d: %s", answer.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}

// health runs a probe by the gRPC health protocol.
func (l *life) health(ctx context.Context, h *corev1.GRPCAction) error {
	conn, err := grpc.NewClient("passthrough:///pod", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.dial(ctx, int(h.Port)) }))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it is not used any longer
	ask := &grpc_health_v1.HealthCheckRequest{}
	if h.Service != nil {
		ask.Service = *h.Service
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, ask)
	if err != nil {
		return err
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("service %q is %s", ask.Service, answer.Status)
	}
	return nil
}

// hook runs a lifecycle hook of a container, after its start or before its end.
func (l *life) hook(ctx context.Context, c podspec.Container, h *corev1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		return l.exec(ctx, c.Name, h.Exec.Command)
	case h.HTTPGet != nil:
		action := *h.HTTPGet
		if action.Port == (intstr.IntOrString{}) {
			action.Port = intstr.FromInt32(80)
		}
		return l.get(ctx, c, &action)
	case h.Sleep != nil:
		timer := l.node.Clock.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
	}
	return nil
}

// preStop runs the hooks of containers that must end, within the grace period.
// Their run time is subtracted from the grace period that remains.
func (l *life) preStop(ctx context.Context) {
	began := l.node.Clock.Now()
	l.mu.Lock()
	var hooks []podspec.Container
	for _, r := range l.containers {
		if r.process != nil && r.spec.Lifecycle != nil && r.spec.Lifecycle.PreStop != nil {
			hooks = append(hooks, r.spec)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.graceful)
	l.mu.Unlock()
	defer cancel()
	defer context.AfterFunc(l.grant, l.part(cancel))()
	var running sync.WaitGroup
	for _, c := range hooks {
		running.Go(l.part(func() {
			if err := l.hook(ctx, c, c.Lifecycle.PreStop); err != nil {
				l.event(corev1.EventTypeWarning, "FailedPreStopHook", "Killing", "container %s: %v", c.Name, err)
			}
		}))
	}
	running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.graceful = max(l.graceful-l.node.Clock.Since(began), min(l.graceful, afterHook))
}
