// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/host/podlogs"
)

func TestLogsAreThoseOfTheRunThatIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	says := func(previous bool) string {
		l, err := w.r.Node.Log("ns", "p", "a", previous)
		if err != nil {
			return err.Error()
		}
		var b bytes.Buffer
		if err := l.Read(t.Context(), podlogs.Options{}, &b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	ends := func(run string) {
		t.Helper()
		p := w.sandboxes.latest("a")
		if _, err := p.out.Write([]byte("run " + run + "\n")); err != nil {
			t.Fatal(err)
		}
		p.end(Exit{Code: 1})
	}
	const none = `previous terminated container "a" in pod "p" not found`
	w.add("spec: {restartPolicy: Always, containers: [{name: a, image: x}]}")
	w.until("it to run", ready)
	if got := says(true); got != none {
		t.Errorf("before its first restart: %q", got)
	}
	ends("0")
	w.until("the second run", func(*corev1.Pod) bool { return w.sandboxes.runs("a") == 2 })
	if now, before := says(false), says(true); now != "" || before != "run 0\n" {
		t.Errorf("in the second run: %q, before %q", now, before)
	}
	ends("1")
	w.until("the back-off", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	// The status reports the latest ended run as the last state.
	if now, before := says(false), says(true); now != "run 1\n" || before != "run 1\n" {
		t.Errorf("while it waits: %q, before %q", now, before)
	}
}

func TestUnstartedContainerHasNoLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: gone}]}")
	w.until("it to wait", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Reason, "ImagePull")
	})
	for container, want := range map[string]string{
		"a": `container "a" in pod "p" is waiting to start: ErrImagePull`,
		"b": `Pod ns/p has no container "b"`,
	} {
		if _, err := w.r.Node.Log("ns", "p", container, false); err == nil || err.Error() != want {
			t.Errorf("container %s: %v, want %q", container, err, want)
		}
	}
}

func TestClientsAreAttachedToWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {restartPolicy: Never, containers: [{name: a, image: x}]}")
	w.until("it to run", ready)
	var out bytes.Buffer
	if err := w.r.Node.Attach(t.Context(), "ns", "p", "a", podlogs.Streams{Stdout: &out}); err != nil || out.String() != "attached to a" {
		t.Errorf("%q, %v", out.String(), err)
	}
	w.sandboxes.latest("a").end(Exit{})
	w.until("its end", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	for container, want := range map[string]string{"a": `container "a" of Pod ns/p does not run`, "b": `container "b" of Pod ns/p does not run`} {
		if err := w.r.Node.Attach(t.Context(), "ns", "p", container, podlogs.Streams{}); err == nil || err.Error() != want {
			t.Errorf("container %s: %v, want %q", container, err, want)
		}
	}
}

func TestTheLastMessageIsThatOfItsFile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path, at, file, want string
		code                 int
	}{
		"in its file":               {"/dev/termination-log", "/dev/termination-log", "farewell", "farewell", 1},
		"in its file of a good end": {"/dev/termination-log", "/dev/termination-log", "farewell", "farewell", 0},
		"elsewhere":                 {"/tmp/last", "/tmp/last", "farewell", "farewell", 1},
		"none, after a bad end":     {"/dev/termination-log", "/dev/termination-log", "", "the last line", 1},
		"none, after a good end":    {"/dev/termination-log", "/dev/termination-log", "", "", 0},
		"among the kernel's files":  {"/proc/last", "", "", "the last line", 1},
		"not absolute":              {"last", "/last", "farewell", "farewell", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add("spec: {restartPolicy: Never, containers: [{name: a, image: x, terminationMessagePath: " + tc.path + "}]}")
			w.until("it to run", ready)
			p := w.sandboxes.latest("a")
			if p.container.MessagePath != tc.at {
				t.Errorf("its file is at %q, want %q", p.container.MessagePath, tc.at)
			}
			if _, err := p.out.Write([]byte("the last line\n")); err != nil {
				t.Fatal(err)
			}
			p.end(Exit{Code: tc.code, LastMessage: tc.file})
			pod := w.until("its end", func(p *corev1.Pod) bool {
				return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			})
			if got := pod.Status.ContainerStatuses[0].State.Terminated.Message; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPodReplacedUnderItsNameEnds: a watch combines the deletion of a Pod and the creation
// of the next one, such as those of "kubectl replace --force".
func TestPodReplacedUnderItsNameEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: x}]}")
	first := w.until("it to be ready", ready)
	if err := w.mgmt.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	next := builder.Parse[corev1.Pod](t, "metadata: {namespace: ns, name: p, uid: u2}\nspec: {containers: [{name: a, image: x}]}")
	if err := w.mgmt.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	w.until("the next one to be ready", ready)
	w.until("the end of the first", func(*corev1.Pod) bool { return w.r.Node.life("u1") == nil })
	if l := w.r.Node.named(client.ObjectKeyFromObject(next)); l == nil || l.uid != "u2" || w.sandboxes.stopped != 1 {
		t.Errorf("the Pod of the name is %+v, and %d sandboxes have ended", l, w.sandboxes.stopped)
	}
}
