// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// probed is a Pod whose probes read the states of the toolbox, and its Service.
// %[1]s is its name, and the others the handler of each probe.
const probed = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: 30
  containers:
  - name: c
    image: IMAGE
    volumeMounts: [{name: state, mountPath: /state}]
    startupProbe: {%[2]s, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 600}
    readinessProbe: {%[3]s, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 1}
    livenessProbe: {%[4]s, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 2}
  volumes: [{name: state, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {selector: {app: %[1]s}, ports: [{port: 7000}]}
`

// TestProbesDecideWhatAPodOfAPlaneIs: each kind of probe decides when a container
// has started, when its Pod is behind its Service, and when it is killed, by the
// signal of its image, and started again.
func TestProbesDecideWhatAPodOfAPlaneIs(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newBoxLab(t)
	path := func(scheme string, port int) func(string, int) string {
		return func(state string, _ int) string {
			return fmt.Sprintf("httpGet: {scheme: %s, port: %d, path: /%s}", scheme, port, state)
		}
	}
	kinds := map[string]func(state string, port int) string{
		"http":  path("HTTP", 8080),
		"https": path("HTTPS", 8443), // whose certificate is not trusted
		"tcp":   func(_ string, port int) string { return fmt.Sprintf("tcpSocket: {port: %d}", port) },
		"grpc":  func(state string, _ int) string { return fmt.Sprintf("grpc: {port: 9000, service: %s}", state) },
		"command": func(state string, _ int) string {
			return fmt.Sprintf("exec: {command: [toolbox, exists, /state/%s]}", state)
		},
	}
	for name, ask := range kinds {
		b.create(fmt.Sprintf(probed, name, ask("startup", 9001), ask("ready", 9002), ask("live", 9003)))
	}
	t.Run("kinds", func(t *testing.T) {
		for name := range kinds {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				one := *b
				one.T = t
				one.lives(name)
			})
		}
	})
	b.create("apiVersion: v1\nkind: Pod\nmetadata: {name: never, namespace: default}\nspec: {containers: [{name: c, image: IMAGE, startupProbe: {tcpSocket: {port: 9001}, periodSeconds: 1, failureThreshold: 1}}]}\n")
	b.happens("never", "Killing", "Container c failed startup probe, will be restarted")
	b.is("never", "killed and started again", func(p *corev1.Pod, c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
}

// lives takes a Pod through all results of its probes.
func (b *boxLab) lives(pod string) {
	b.Helper()
	b.runs(pod)
	b.happens(pod, "Unhealthy", "Startup probe of container c failed: ")
	b.is(pod, "not started", func(_ *corev1.Pod, c corev1.ContainerStatus) bool { return !*c.Started && !c.Ready })
	b.box(pod, "write", "/state/live")
	b.box(pod, "write", "/state/startup")
	b.is(pod, "started", func(_ *corev1.Pod, c corev1.ContainerStatus) bool { return *c.Started && !c.Ready })
	b.behind(pod, false)
	for range 2 { // it becomes ready, not ready, and ready again
		b.box(pod, "write", "/state/ready")
		b.behind(pod, true)
		b.box(pod, "remove", "/state/ready")
		b.behind(pod, false)
	}
	b.happens(pod, "Unhealthy", "Readiness probe of container c failed: ")
	b.box(pod, "write", "/state/ready")
	b.behind(pod, true)
	b.is(pod, "never restarted", func(_ *corev1.Pod, c corev1.ContainerStatus) bool { return c.RestartCount == 0 })
	b.box(pod, "remove", "/state/live")
	b.happens(pod, "Killing", "Container c failed liveness probe, will be restarted")
	b.is(pod, "started again", func(_ *corev1.Pod, c corev1.ContainerStatus) bool { return c.RestartCount == 1 })
	b.is(pod, "ended by the signal of its image", func(_ *corev1.Pod, c corev1.ContainerStatus) bool {
		last := c.LastTerminationState.Terminated
		return last != nil && last.ExitCode == 0 && last.Message == "ended by user defined signal 1"
	})
	testenv.Eventually(b, func() error { // it may be killed again before that
		out, code := b.does("exec", pod, "--", "toolbox", "write", "/state/live")
		if code != 0 {
			return fmt.Errorf("got %d, %q", code, out)
		}
		return nil
	})
	b.behind(pod, true)
}

// is waits until the one container of a Pod is so.
func (b *boxLab) is(pod, what string, so func(*corev1.Pod, corev1.ContainerStatus) bool) {
	b.Helper()
	testenv.Eventually(b, func() error {
		p, err := b.pod(pod)
		if err != nil {
			return err
		}
		if len(p.Status.ContainerStatuses) != 1 || !so(p, p.Status.ContainerStatuses[0]) {
			return fmt.Errorf("Pod %s is not %s: %+v", pod, what, p.Status)
		}
		return nil
	})
}

// happens waits until a Pod has an event.
func (b *boxLab) happens(pod, reason, note string) {
	b.Helper()
	testenv.Eventually(b, func() error {
		all, err := b.typed.CoreV1().Events("default").List(b.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range all.Items {
			if e.Reason == reason && strings.Contains(e.Message, note) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("Pod %s has no event %s: %s, but\n%s", pod, reason, note, strings.Join(said, "\n"))
	})
}

// behind waits until a Pod is behind the Service of its name and ready there, or is
// not, and its own condition is the same.
func (b *boxLab) behind(pod string, want bool) {
	b.Helper()
	testenv.Eventually(b, func() error {
		p, err := b.pod(pod)
		if err != nil {
			return err
		}
		all, err := b.typed.DiscoveryV1().EndpointSlices("default").List(b.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + pod})
		if err != nil {
			return err
		}
		ready, endpoints := false, 0
		for _, c := range p.Status.Conditions {
			ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		for _, s := range all.Items {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					endpoints++
				}
			}
		}
		if ready != want || (endpoints == 1) != want {
			return fmt.Errorf("Pod %s is ready: %t, and its Service has %d ready endpoints; want %t", pod, ready, endpoints, want)
		}
		return nil
	})
}

// TestVolumesOfAPodFollowTheirObjects: what is in a Secret and a ConfigMap now is in the
// files of a Pod soon, which is not started again for it.
func TestVolumesOfAPodFollowTheirObjects(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newBoxLab(t)
	b.create(`
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: default}
stringData: {key: one}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m, namespace: default}
data: {key: one}
---
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: default}
spec:
  containers: [{name: c, image: IMAGE, volumeMounts: [{name: s, mountPath: /s}, {name: m, mountPath: /m}]}]
  volumes: [{name: s, secret: {secretName: s}}, {name: m, configMap: {name: m}}]
`)
	b.runs("reader")
	for _, text := range []string{"one", "two", "three"} {
		if text != "one" {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"data": {"key": "`+text+`"}}`))
			secret := client.RawPatch("application/merge-patch+json", []byte(`{"stringData": {"key": "`+text+`"}}`))
			name := metav1.ObjectMeta{Namespace: "default"}
			m, s := &corev1.ConfigMap{ObjectMeta: name}, &corev1.Secret{ObjectMeta: name}
			m.Name, s.Name = "m", "s"
			if err := b.env.Client.Patch(t.Context(), m, patch); err != nil {
				t.Fatal(err)
			}
			if err := b.env.Client.Patch(t.Context(), s, secret); err != nil {
				t.Fatal(err)
			}
		}
		testenv.Eventually(t, func() error {
			if got := b.box("reader", "cat", "/s/key", "/m/key"); got != text+text {
				return fmt.Errorf("the files hold %q, want %q", got, text+text)
			}
			return nil
		})
	}
	b.is("reader", "never restarted", func(_ *corev1.Pod, c corev1.ContainerStatus) bool { return c.RestartCount == 0 })
}
