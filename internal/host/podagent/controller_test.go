// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/host/podlogs"
)

func TestAPodIsBoundAndRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: manager, args: [--x], env: [{name: E, value: '1'}]}]}")
	pod := w.until("it to be ready", ready)
	if pod.Spec.NodeName != "plane" || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP != "10.244.0.2" || pod.Status.HostIP != "10.0.0.1" {
		t.Errorf("%s %+v", pod.Spec.NodeName, pod.Status)
	}
	c := w.sandboxes.latest("a").container
	if diff := cmp.Diff([]string{"/manager", "--x"}, c.Args); diff != "" || c.User.UID != 65532 {
		t.Errorf("user %d (-want +got):\n%s", c.User.UID, diff)
	}
	node := &corev1.Node{}
	if err := w.mgmt.Get(t.Context(), client.ObjectKey{Name: "plane"}, node); err != nil || len(node.Status.Conditions) != 1 {
		t.Errorf("%v, conditions %v", err, node.Status.Conditions)
	}
	before := w.writes
	w.reconcile()
	if w.writes != before {
		t.Errorf("in steady state %d writes", w.writes-before)
	}
	w.delete()
	if pod := w.reconcile(); pod != nil || w.sandboxes.stopped != 1 {
		t.Errorf("it is still there, and %d sandboxes have ended", w.sandboxes.stopped)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "logs", "ns_p_u1")); !os.IsNotExist(err) {
		t.Errorf("its logs: %v", err)
	}
}

// TestNodeIsReportedAgain checks that the status reports the program that runs now,
// and that labels of the Node's owner stay.
func TestNodeIsReportedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.NodeStatus){
		"by a later version": func(s *corev1.NodeStatus) { s.NodeInfo.KubeletVersion = "v2" },
		"where it can no longer run Pods": func(s *corev1.NodeStatus) {
			s.Conditions[0].Status, s.Conditions[0].Message = "False", "cannot run Pods"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add("spec: {containers: [{name: a, image: manager}]}")
			w.until("it to be ready", ready)
			node := &corev1.Node{}
			key := client.ObjectKey{Name: "plane"}
			if err := w.mgmt.Get(t.Context(), key, node); err != nil {
				t.Fatal(err)
			}
			node.Labels = map[string]string{"disk": "ssd"}
			if err := w.mgmt.Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			want := &w.r.Node.Object.Status
			change(want)
			w.delete()
			w.reconcile()
			w.add("spec: {containers: [{name: a, image: manager}]}")
			w.until("it to be ready", ready)
			if err := w.mgmt.Get(t.Context(), key, node); err != nil {
				t.Fatal(err)
			}
			if labels := map[string]string{"disk": "ssd", "kubernetes.io/os": "linux"}; !cmp.Equal(node.Labels, labels) {
				t.Errorf("its labels are %v", node.Labels)
			}
			untimed := node.Status.Conditions[0]
			untimed.LastTransitionTime, untimed.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
			if untimed != want.Conditions[0] || node.Status.NodeInfo != want.NodeInfo {
				t.Errorf("it has %+v and %+v", untimed, node.Status.NodeInfo)
			}
		})
	}
}

// lateImages has one image, after it was imported.
type lateImages struct {
	images
	here *atomic.Bool
}

func (i lateImages) Find(ref string) (Image, error) {
	if !i.here.Load() {
		return Image{}, ErrNoImage
	}
	return i.images.Find(ref)
}

// TestAnImageThatIsImportedIsRunSoon checks that the container does not wait for
// the next pull, which may be minutes later.
func TestAnImageThatIsImportedIsRunSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := lateImages{images{t.TempDir()}, &atomic.Bool{}}
	w.r.Node.Images = late
	w.add("spec: {containers: [{name: a, image: imported}]}")
	w.until("the back-off", func(p *corev1.Pod) bool {
		w.clock.Step(imageLook)
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	late.here.Store(true)
	w.step(imageLook)
	w.until("it to be ready", ready)
}

func TestUnrunnablePodGetsReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ pod, want string }{
		"the host's network":  {"spec: {hostNetwork: true, containers: [{name: a}]}", "spec.hostNetwork: a Pod of a plane has namespaces of its own: set it to false"},
		"bound by its author": {"spec: {nodeName: plane, containers: [{name: a}], volumes: [{name: v, hostPath: {path: /}}]}", "spec.volumes[0].hostPath: a Pod of a plane does not see the host's files: use emptyDir, a Secret or a ConfigMap"},
		"another node":        {"spec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{name: a}]}", "spec.nodeSelector: node plane has no label kubernetes.io/os=windows: set the label, or leave the selector out"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add(tc.pod)
			pod := w.reconcile()
			if len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Message != tc.want || pod.Status.Phase != corev1.PodPending {
				t.Errorf("%s %+v, want %q", pod.Status.Phase, pod.Status.Conditions, tc.want)
			}
			if len(w.sandboxes.started) > 0 {
				t.Error("it was started")
			}
		})
	}
}

func TestACrashLoopShowsItsLastLinesAndWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {restartPolicy: Always, containers: [{name: a, image: x}]}")
	for run := range 2 {
		w.until("a run", func(*corev1.Pod) bool { return w.sandboxes.runs("a") == run+1 })
		p := w.sandboxes.latest("a")
		_, _ = p.out.Write([]byte("panic: boom\n"))
		p.end(Exit{Code: 2})
	}
	pod := w.until("the back-off", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	s := pod.Status.ContainerStatuses[0]
	if s.State.Waiting.Reason != "CrashLoopBackOff" || s.State.Waiting.Message != "back-off 10s restarting failed container=a pod=p_ns(u1); it wrote last: panic: boom" {
		t.Errorf("%+v", s.State.Waiting)
	}
	if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 2 || last.Message != "panic: boom" {
		t.Errorf("last: %+v", last)
	}
	w.step(10 * time.Second)
	w.until("the next run", func(p *corev1.Pod) bool {
		return w.sandboxes.runs("a") == 3 && p.Status.ContainerStatuses[0].RestartCount == 2
	})
	var b bytes.Buffer
	if err := w.r.Node.Logs.Find("ns_p_u1", "a", 1).Read(t.Context(), podlogs.Options{}, &b); err != nil || b.String() != "panic: boom\n" {
		t.Errorf("the log of the run before: %q, %v", b.String(), err)
	}
}

func TestInitContainersRunFirstInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {restartPolicy: Always, initContainers: [{name: i, image: x}, {name: s, image: x, restartPolicy: Always}, {name: j, image: x}], containers: [{name: a, image: x}]}")
	for _, step := range []struct{ ends, begins string }{{"", "i"}, {"i", "s"}, {"", "j"}, {"j", "a"}} {
		if step.ends != "" {
			w.sandboxes.latest(step.ends).end(Exit{})
		}
		w.until(step.begins, func(*corev1.Pod) bool { return w.sandboxes.runs(step.begins) == 1 })
		if step.begins == "i" && w.sandboxes.runs("s")+w.sandboxes.runs("j")+w.sandboxes.runs("a") > 0 {
			t.Error("others run before the first has ended")
		}
	}
	w.until("it to be ready", ready)
}

func TestProbesDecideWhatIsReadyAndWhatIsRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sandboxes.returns("alive", 0)
	w.sandboxes.returns("ready", 1)
	w.add("spec: {restartPolicy: Always, terminationGracePeriodSeconds: 1, containers: [{name: a, image: x, readinessProbe: {exec: {command: [ready]}, periodSeconds: 3600}, livenessProbe: {exec: {command: [alive]}, periodSeconds: 1, failureThreshold: 2}}]}")
	pod := w.until("it to run", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if ready(pod) {
		t.Error("it is ready before its probe succeeds")
	}
	w.sandboxes.returns("ready", 0)
	w.until("it to be ready", func(p *corev1.Pod) bool { w.clock.Step(time.Second); return ready(p) })
	w.sandboxes.returns("alive", 1)
	w.until("a restart", func(p *corev1.Pod) bool {
		w.clock.Step(time.Second)
		return w.sandboxes.runs("a") == 2 && p.Status.ContainerStatuses[0].RestartCount == 1
	})
}

func TestWhatIsMissingIsAwaitedByName(t *testing.T) {
	t.Parallel()
	const secret = `Secret "s" does not exist: create it, or mark the field optional`
	tests := map[string]struct{ pod, reason, message string }{
		"a Secret for a variable": {"spec: {containers: [{name: a, image: x, envFrom: [{secretRef: {name: s}}]}]}", "CreateContainerConfigError", "spec.containers[0].envFrom[0].secretRef: " + secret},
		"a Secret for a volume":   {"spec: {containers: [{name: a, image: x}], volumes: [{name: v, secret: {secretName: s}}]}", "ContainerCreating", "spec.volumes[0].secret: " + secret},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add(tc.pod)
			w.until("the reason", func(p *corev1.Pod) bool {
				all := p.Status.ContainerStatuses
				return len(all) == 1 && all[0].State.Waiting != nil && all[0].State.Waiting.Reason == tc.reason && all[0].State.Waiting.Message == tc.message
			})
			if err := w.mgmt.Create(t.Context(), builder.Parse[corev1.Secret](t, "metadata: {namespace: ns, name: s}\ndata: {K: eA==}")); err != nil {
				t.Fatal(err)
			}
			w.r.Node.named(client.ObjectKey{Namespace: "ns", Name: "p"}).volumesChanged()
			w.until("it to be ready", ready)
		})
	}
}

func TestAnImageIsHadAsItsPolicySays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ container, reason, id, says string }{
		"kept":                {"image: x", "", "sha256:x", ""},
		"fetched":             {"image: new", "", "sha256:pulled", ""},
		"fetched again":       {"image: x, imagePullPolicy: Always", "", "sha256:pulled", ""},
		"never":               {"image: new, imagePullPolicy: Never", "ErrImageNeverPull", "", "import it, or set the policy to IfNotPresent"},
		"one that is nowhere": {"image: gone", "ErrImagePull", "", "pull image gone: manifest unknown"},
		"imported":            {"image: imported, imagePullPolicy: Always", "", "sha256:imported", ""},
		"one that is only here": {
			"image: brought, imagePullPolicy: Always", "ErrImagePull", "", "an image of this name is here, which spec.containers[0].imagePullPolicy IfNotPresent runs",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add("spec: {containers: [{name: a, " + tc.container + "}]}")
			w.until("the reason or a run", func(p *corev1.Pod) bool {
				all := p.Status.ContainerStatuses
				if len(all) == 0 {
					return false
				}
				if tc.reason != "" {
					return all[0].State.Waiting != nil && all[0].State.Waiting.Reason == tc.reason && strings.HasSuffix(all[0].State.Waiting.Message, tc.says)
				}
				return ready(p) && all[0].ImageID == tc.id
			})
			if want := strings.Count(name, "imported"); w.told.of("PullFailed") != want {
				t.Errorf("got %d events of it, want %d", w.told.of("PullFailed"), want)
			}
		})
	}
}

func TestUnenforcedLimitsAreReported(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string]int{"{}": 0, "{ephemeral-storage: 1Gi}": 0, "{memory: 64Mi}": 1, "{cpu: 1}": 1} {
		w := newWorld(t)
		w.add("spec: {containers: [{name: a, image: x, resources: {limits: " + limits + "}}]}")
		w.until("it to be ready", ready)
		if got := w.told.of("LimitsNotHeld"); got != want {
			t.Errorf("limits %s: got %d events, want %d", limits, got, want)
		}
	}
}

func TestRefusedConnectionsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: x}]}")
	w.until("it to be ready", ready)
	w.sandboxes.mu.Lock()
	refused := w.sandboxes.started[0].Refused
	w.sandboxes.mu.Unlock()
	refused("100% of the descriptors")
	if want := "ConnectionsRefused: 100% of the descriptors"; !slices.Contains(w.told.all, want) {
		t.Errorf("events %q, want %q", w.told.all, want)
	}
}

func TestTokensAreRenewedBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: x, volumeMounts: [{name: v, mountPath: /var/run/secrets}]}], volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: token}}]}}]}")
	w.until("it to be ready", ready)
	file := filepath.Join(w.dir, "volumes", "ns_p_u1", "v", "token")
	holds := func(want string) func(*corev1.Pod) bool {
		return func(*corev1.Pod) bool { b, err := os.ReadFile(file); return err == nil && string(b) == want }
	}
	w.until("a token", holds("token-1"))
	w.step(47 * time.Minute)
	w.reconcile()
	if !holds("token-1")(nil) {
		t.Error("it is renewed too early")
	}
	w.step(time.Minute)
	w.until("the next token", holds("token-2"))
}

func TestAPlaneThatStartsAgainStartsItsPodsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {nodeName: plane, restartPolicy: Always, containers: [{name: a, image: x}]}\nstatus: {phase: Running, containerStatuses: [{name: a, image: x, imageID: i, containerID: capstan://old, restartCount: 2, state: {running: {startedAt: '2025-12-31T00:00:00Z'}}}]}")
	pod := w.until("it to be ready", ready)
	s := pod.Status.ContainerStatuses[0]
	if s.RestartCount != 3 || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 255 {
		t.Errorf("%+v", s)
	}
}

func TestAPodThatIsDoneStaysUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {restartPolicy: Never, containers: [{name: a, image: x}]}")
	w.until("it to be ready", ready)
	w.sandboxes.latest("a").end(Exit{})
	w.until("its end", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	w.until("its sandbox to go", func(*corev1.Pod) bool {
		w.sandboxes.mu.Lock()
		defer w.sandboxes.mu.Unlock()
		return w.sandboxes.stopped == 1
	})
	w.delete()
}

func TestHooksComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: x, lifecycle: {postStart: {exec: {command: [hello]}}, preStop: {exec: {command: [farewell]}}}}]}")
	w.until("it to be ready", ready)
	w.until("the first hook", func(*corev1.Pod) bool {
		w.sandboxes.mu.Lock()
		defer w.sandboxes.mu.Unlock()
		return len(w.sandboxes.execs) == 1
	})
	w.delete()
	if diff := cmp.Diff([]string{"hello", "farewell"}, w.sandboxes.execs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHookBeforeTheEndReachesThePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	near, far := net.Pipe()
	w.sandboxes.dialled <- near
	asked := make(chan string, 1)
	go func() {
		if req, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
			asked <- req.URL.Path
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}()
	w.add("spec: {containers: [{name: a, image: x, lifecycle: {preStop: {httpGet: {path: /farewell, port: 80}}}}]}")
	w.until("it to be ready", ready)
	w.delete()
	if n := w.told.of("FailedPreStopHook"); n > 0 || len(asked) != 1 || <-asked != "/farewell" {
		t.Errorf("it was not reached: %q", w.told.all)
	}
}
