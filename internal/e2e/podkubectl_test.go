// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// boxLab is a plane with an image of the toolbox, and the real kubectl.
type boxLab struct {
	*testing.T
	env        *testenv.Env
	typed      *kubernetes.Clientset
	kubeconfig string
}

const boxImage = "example.com/toolbox:v1"

// newBoxLab skips a test where kubectl is missing or sandboxes cannot run.
func newBoxLab(t *testing.T) *boxLab {
	t.Helper()
	needSandboxes(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skipf("there is no kubectl here: %v", err)
	}
	dir := t.TempDir()
	if _, err := testenv.Up(t, "--data-dir="+dir, "--listen=127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	b := &boxLab{T: t, kubeconfig: filepath.Join(dir, "kubeconfig")}
	var err error
	if b.env, err = testenv.Connect(b.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if b.typed, err = kubernetes.NewForConfig(b.env.Config); err != nil {
		t.Fatal(err)
	}
	importImage(t, dir, toolbox(t))
	return b
}

// toolbox writes an archive of the image, which is ended by SIGUSR1.
func toolbox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := testenv.Program(t, "test/toolbox")
	if err := os.Symlink(program, filepath.Join(dir, "tar")); err != nil {
		t.Fatal(err)
	}
	i, err := programs.Image(runtime.GOARCH, []string{program, filepath.Join(dir, "tar")}, programs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Config.StopSignal = "SIGUSR1"
	if i, err = mutate.ConfigFile(i, c); err != nil {
		t.Fatal(err)
	}
	if err := programs.Write(filepath.Join(dir, "image"), boxImage, v1.Image(i)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "image", runtime.GOARCH+".tar")
}

// create creates objects.
func (b *boxLab) create(text string) {
	b.Helper()
	objects, err := template.Objects([]byte(strings.ReplaceAll(text, "IMAGE", boxImage)))
	if err != nil {
		b.Fatal(err)
	}
	for _, obj := range objects {
		if err := b.env.Client.Create(b.Context(), obj); err != nil {
			b.Fatal(err)
		}
	}
}

// pod is one of the namespace default.
func (b *boxLab) pod(name string) (*corev1.Pod, error) {
	return b.typed.CoreV1().Pods("default").Get(b.Context(), name, metav1.GetOptions{})
}

// runs waits until all containers of a Pod but those named run.
func (b *boxLab) runs(name string, but ...string) {
	b.Helper()
	testenv.Eventually(b, func() error {
		p, err := b.pod(name)
		if err != nil {
			return err
		}
		if len(p.Status.ContainerStatuses) != len(p.Spec.Containers) {
			return fmt.Errorf("Pod %s has %+v", name, p.Status)
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running == nil && !strings.Contains(strings.Join(but, " "), c.Name) {
				return fmt.Errorf("container %s: %+v", c.Name, c.State)
			}
		}
		return nil
	})
}

// commandTimeout is how long an idle machine may take for one command of kubectl.
const commandTimeout = 2 * time.Minute

// timeout returns the flag with which kubectl waits as long as the tests do.
func timeout() string {
	return "--timeout=" + testenv.Limit(commandTimeout).Round(time.Second).String()
}

// kubectl returns a command of kubectl, which the caller starts.
func (b *boxLab) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig, "HOME="+b.TempDir())
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// klogs are lines in which kubectl reports about its own streams, such as of one
// that has ended before it was read.
var klogs = regexp.MustCompile(`(?m)^[EWI]\d{4} .*\n`)

// does runs kubectl, and returns all its output and its exit code.
func (b *boxLab) does(args ...string) (string, int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*testenv.Limit(commandTimeout))
	defer cancel()
	cmd := b.kubectl(ctx, args...)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		b.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return klogs.ReplaceAllString(string(out), ""), cmd.ProcessState.ExitCode()
}

// lateStreams is the error of a kubectl that is so slow to open its streams that the
// command, which succeeded, has ended before.
const lateStreams = "error: closed all streams"

// box runs the toolbox in the first container of a Pod, which must succeed. It can run a
// command twice.
func (b *boxLab) box(pod string, args ...string) string {
	b.Helper()
	command := append([]string{"exec", pod, "-q", "--", "toolbox"}, args...)
	out, code := b.does(command...)
	for code != 0 && strings.Contains(out, lateStreams) {
		out, code = b.does(command...)
	}
	if code != 0 {
		b.Fatalf("in %s, %q returned %d: %s", pod, args, code, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// said is output that grows.
type said struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// until waits for a text.
func (s *said) until(t testing.TB, want string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if got := s.String(); !strings.Contains(got, want) {
			return fmt.Errorf("it said %q, want %q", got, want)
		}
		return nil
	})
}

const boxes = `
apiVersion: v1
kind: Pod
metadata: {name: box, namespace: default, labels: {app: box}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: first, image: IMAGE, args: [echo, ready]}
  containers:
  - {name: server, image: IMAGE, ports: [{name: http, containerPort: 8080}], volumeMounts: [{name: state, mountPath: /state}]}
  - {name: counter, image: IMAGE, args: [count, "3"], volumeMounts: [{name: state, mountPath: /state}]}
  - {name: again, image: IMAGE, args: [last, /dev/termination-log]}
  - {name: listener, image: IMAGE, args: [listen], stdin: true}
  volumes: [{name: state, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: default}
spec:
  selector: {app: box}
  publishNotReadyAddresses: true
  ports: [{name: http, port: 80, targetPort: http}, {name: echo, port: 70, targetPort: 7000}, {name: none, port: 81, targetPort: 6666}]
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: default}
spec: {clusterIP: None, selector: {app: box}, publishNotReadyAddresses: true, ports: [{name: http, port: 80, targetPort: http}]}
`

// TestKubectlWorksOnPodsOfAPlane: what kubectl does with a Pod on a kubelet, it does
// with one that a plane runs.
func TestKubectlWorksOnPodsOfAPlane(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	b := newBoxLab(t)
	b.create(boxes)
	b.runs("box", "again")
	t.Run("exec", b.execs)
	t.Run("logs", b.logs)
	t.Run("attach", b.attaches)
	t.Run("port-forward", b.forwards)
	t.Run("cp", b.copies)
	t.Run("debug", b.debugs)
	t.Run("names", b.names)
	t.Run("the last message", b.lastMessage)
	t.Run("capstan logs", b.provides)
}

func (b *boxLab) execs(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want string // an expression for all of its output
	}{
		"a command":                {[]string{"exec", "box", "-c", "server", "--", "toolbox", "echo", "a b", "c"}, 0, `^a b c\n$`},
		"its exit code":            {[]string{"exec", "box", "-c", "server", "--", "toolbox", "exit", "3"}, 3, `^I return 3\ncommand terminated with exit code 3\n$`},
		"one that is not there":    {[]string{"exec", "box", "-c", "server", "--", "nothing"}, 1, `"nothing" is not a program of the image: it is in none of /, or may not be executed: correct the command, or PATH\n$`},
		"a container of the Pod":   {[]string{"exec", "box", "--", "toolbox", "echo", "x"}, 0, `^Defaulted container "server" out of: server, counter, again, listener, first \(init\)\nx\n$`},
		"a container of no Pod":    {[]string{"exec", "box", "-c", "none", "--", "toolbox"}, 1, `container none is not valid for pod box\n$`},
		"one that does not run":    {[]string{"exec", "box", "-c", "first", "--", "toolbox"}, 1, `container "first" of Pod default/box does not run`},
		"a terminal that is asked": {[]string{"exec", "box", "-c", "server", "--", "toolbox", "terminal"}, 0, `^a terminal: false\n$`},
	} {
		if out, code := b.does(tc.args...); code != tc.code || !regexp.MustCompile(tc.want).MatchString(out) {
			t.Errorf("%s: got %d, %q, want %d, %q", name, code, out, tc.code, tc.want)
		}
	}
	in := strings.Repeat("0123456789abcdef", 1<<16) // a megabyte each way
	cat := b.kubectl(t.Context(), "exec", "-i", "box", "-c", "server", "--", "toolbox", "cat")
	cat.Stdin = strings.NewReader(in)
	if out, err := cat.Output(); err != nil || string(out) != in {
		t.Errorf("through its input and output came %d bytes, %v, want %d", len(out), err, len(in))
	}
	b.terminals(t)
	b.interrupted(t)
}

// terminals requests a terminal from within one.
func (b *boxLab) terminals(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		t.Logf("no terminal is tried: %v", err)
		return
	}
	for command, want := range map[string]struct {
		code int
		says string
	}{"terminal": {0, "a terminal: true"}, "exit 4": {4, "I return 4"}} {
		cmd := exec.CommandContext(t.Context(), "script", "-qec", "kubectl exec -it box -c server -- toolbox "+command, os.DevNull)
		cmd.Env = b.kubectl(t.Context()).Env
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(string(out), want.says) {
			t.Errorf("%s: got %d, %q, %v", command, code, out, err)
		}
	}
}

// interrupted ends kubectl, with which its command ends.
func (b *boxLab) interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out said
	cmd := b.kubectl(ctx, "exec", "box", "-c", "server", "--", "toolbox", "count", "1000000000")
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.until(t, "line 1\n")
	cancel()
	_ = cmd.Wait() // it was killed
	testenv.Eventually(t, func() error {
		if left := b.box("box", "processes"); strings.Contains(left, "1000000000") {
			return fmt.Errorf("there run %q", left)
		}
		return nil
	})
}

func (b *boxLab) logs(t *testing.T) {
	const counted = `^(counted\n)?line 1\n(counted\n)?line 2\n(counted\n)?line 3\n(counted\n)?$`
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"all":                    {[]string{"counter"}, 0, counted},
		"the last":               {[]string{"counter", "--tail=1"}, 0, `^(line 3|counted)\n$`},
		"none of it":             {[]string{"counter", "--tail=0"}, 0, `^$`},
		"of an hour":             {[]string{"counter", "--since=1h"}, 0, counted},
		"from the future on":     {[]string{"counter", "--since-time=2999-01-01T00:00:00Z"}, 0, `^$`},
		"with times":             {[]string{"counter", "--timestamps"}, 0, `(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z line 1$`},
		"some bytes":             {[]string{"counter", "--limit-bytes=3"}, 0, `^(lin|cou)$`},
		"before no restart":      {[]string{"counter", "--previous"}, 1, `^Error from server \(BadRequest\): previous terminated container "counter" in pod "box" not found\n$`},
		"before a restart":       {[]string{"again", "--previous"}, 0, `^the line\n$`},
		"of no container":        {[]string{"none"}, 1, `container none is not valid for pod box\n$`},
		"of all, with their own": {[]string{"counter", "--all-containers", "--prefix"}, 0, `(?m)^\[pod/box/counter\] line 1$`},
	} {
		args := append([]string{"logs", "box", "-c"}, tc.args...)
		if name == "of all, with their own" {
			args = append([]string{"logs", "box"}, tc.args[1:]...)
		}
		testenv.Eventually(t, func() error { // the one that restarts does so soon
			if out, code := b.does(args...); code != tc.code || !regexp.MustCompile(tc.want).MatchString(out) {
				return fmt.Errorf("%s: got %d, %q, want %d, %q", name, code, out, tc.code, tc.want)
			}
			return nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out said
	follow := b.kubectl(ctx, "logs", "-f", "box", "-c", "counter", "--tail=1")
	follow.Stdout = &out
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	out.until(t, "\n")
	b.box("box", "write", "/state/4")
	out.until(t, "line 4\n")
	cancel()
	_ = follow.Wait() // it was killed
}

// provides compares what is shown of a provider with what kubectl shows of its Pod.
func (b *boxLab) provides(t *testing.T) {
	b.create(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: box, namespace: default, labels: {cluster.x-k8s.io/provider: infrastructure-box}}
spec:
  selector: {matchLabels: {app: provider}}
  template:
    metadata: {labels: {app: provider}}
    spec: {containers: [{name: counter, image: IMAGE, args: [count, "3"]}]}
`)
	if out, code := b.does("wait", "deployment/box", "--for=condition=Available", timeout()); code != 0 {
		t.Fatal(out)
	}
	for _, args := range [][]string{nil, {"--since", "1h"}, {"--tail", "1"}, {"--tail", "0"}, {"--previous"}} {
		testenv.Eventually(t, func() error { // it may have written half
			want, failed := b.does(append([]string{"logs", "-l", "app=provider", "--tail=-1"}, args...)...)
			cmd := exec.CommandContext(t.Context(), testenv.Binary(t), append([]string{"logs", "provider", "box"}, args...)...)
			cmd.Env = b.kubectl(t.Context()).Env
			got, _ := cmd.CombinedOutput() // its code is compared
			said, is := strings.CutPrefix(string(got), "capstan: read the log of Pod default/")
			if _, words, found := strings.Cut(said, ": "); is && found {
				got = []byte("Error from server (BadRequest): " + words)
			}
			if code := cmd.ProcessState.ExitCode(); code != failed || string(got) != want {
				return fmt.Errorf("%q: got %d, %q; kubectl %d, %q", args, code, got, failed, want)
			}
			return nil
		})
	}
}

func (b *boxLab) attaches(t *testing.T) {
	one := b.kubectl(t.Context(), "attach", "-i", "-q", "box", "-c", "listener")
	in, err := one.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out said
	one.Stdout, one.Stderr = &out, &out
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error { // a late client has missed earlier output
		if _, err := io.WriteString(in, "hello\n"); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, "heard hello\n") || !strings.Contains(got, "noted hello\n") {
			return fmt.Errorf("it said %q", got)
		}
		return nil
	})
	// Its container continues to listen after this client has sent everything.
	if err := errors.Join(in.Close(), one.Wait()); err != nil || strings.Contains(out.String(), "all heard") {
		t.Errorf("its end: %v, %q", err, out.String())
	}
	if log, _ := b.does("logs", "box", "-c", "listener"); !strings.Contains(log, "heard hello\n") || strings.Contains(log, "all heard") {
		t.Errorf("its log is %q", log)
	}
	// A container without stdin receives nothing, and is heard.
	ctx, cancel := context.WithCancel(t.Context())
	var heard said
	deaf := b.kubectl(ctx, "attach", "box", "-c", "counter")
	deaf.Stdout = &heard
	if err := deaf.Start(); err != nil {
		t.Fatal(err)
	}
	next := 5
	testenv.Eventually(t, func() error {
		b.box("box", "write", fmt.Sprint("/state/", next))
		next++
		if !strings.Contains(heard.String(), "line ") {
			return fmt.Errorf("it heard %q", heard.String())
		}
		return nil
	})
	cancel()
	_ = deaf.Wait() // it was killed
	if out, code := b.does("attach", "box", "-c", "first"); code != 1 || !strings.Contains(out, `"first"`) {
		t.Errorf("a container that does not run: got %d, %q", code, out)
	}
	// stdinOnce and a terminal, which kubectl run sets.
	run := b.kubectl(t.Context(), "run", "once", "-i", "-q", "--rm", "--restart=Never", "--image="+boxImage, "--", "listen")
	run.Stdin = strings.NewReader("one\ntwo\n")
	got, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(got), "all heard\n") {
		t.Errorf("kubectl run -i: %q, %v", got, err)
	}
	for _, want := range []string{"heard one\n", "heard two\n"} {
		if n := strings.Count(string(got), want); n == 0 {
			t.Errorf("kubectl run -i said %q, which lacks %q", got, want)
		}
	}
}

// forwarded starts a port-forward, and returns the local addresses of the ports,
// and its output.
func (b *boxLab) forwarded(t *testing.T, to string, ports ...string) ([]string, *said) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out said
	var args []string
	for _, p := range ports {
		args = append(args, ":"+p)
	}
	cmd := b.kubectl(ctx, append([]string{"port-forward", "--address=127.0.0.1", to}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed, or has lost the Pod
	})
	at := regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) ->`)
	var where []string
	testenv.Eventually(t, func() error {
		where = nil
		for _, m := range at.FindAllStringSubmatch(out.String(), -1) {
			where = append(where, m[1])
		}
		if len(where) != len(ports) {
			return fmt.Errorf("it said %q", out.String())
		}
		return nil
	})
	return where, &out
}

// echoes sends bytes, and reports whether they come back.
func echoes(address string, size int) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all data came back
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		failed <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if err = errors.Join(err, <-failed); err != nil || !bytes.Equal(got, sent) {
		return fmt.Errorf("%d bytes of %d came back: %w", len(got), len(sent), err)
	}
	return nil
}

func (b *boxLab) forwards(t *testing.T) {
	for to, ports := range map[string]struct{ echo, none string }{"pod/box": {"7000", "6666"}, "service/front": {"70", "81"}} {
		at, out := b.forwarded(t, to, ports.echo, ports.none)
		var all sync.WaitGroup
		for range 8 { // in parallel
			all.Go(func() {
				if err := echoes(at[0], 1<<18); err != nil {
					t.Errorf("%s: %v", to, err)
				}
			})
		}
		all.Wait()
		c, err := net.Dial("tcp", at[1])
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadAll(c); len(n) > 0 {
			t.Errorf("%s: no server listens, and %q came, %v", to, n, err)
		}
		_ = c.Close() // it was closed
		out.until(t, "forward port 6666 of Pod default/box: ")
		out.until(t, "connection refused")
	}
	if out, code := b.does("port-forward", "pod/none", ":80"); code != 1 || !strings.Contains(out, `pods "none" not found`) {
		t.Errorf("to no Pod: got %d, %q", code, out)
	}
}

func (b *boxLab) copies(t *testing.T) {
	dir := t.TempDir()
	content := strings.Repeat("copied\n", 1<<15)
	if err := os.WriteFile(filepath.Join(dir, "to"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{filepath.Join(dir, "to"), "box:/state/copy"}, {"box:/state/copy", filepath.Join(dir, "from")}} {
		if out, code := b.does(append([]string{"cp", "-c", "server"}, args...)...); code != 0 {
			t.Fatalf("%q: got %d, %q", args, code, out)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "from")); err != nil || string(got) != content {
		t.Errorf("%d bytes came back, %v, want %d", len(got), err, len(content))
	}
}

func (b *boxLab) debugs(t *testing.T) {
	const want = "spec.ephemeralContainers: a plane has no ephemeral containers: use kubectl exec"
	if out, code := b.does("debug", "box", "--profile=general", "--image="+boxImage, "--", "toolbox", "echo"); code != 1 || !strings.Contains(out, want) {
		t.Errorf("in the Pod: got %d, %q", code, out)
	}
	if out, code := b.does("debug", "box", "--profile=baseline", "--image="+boxImage, "--copy-to=copy", "--share-processes=false", "-c", "debugger", "--attach=false", "--", "toolbox", "count", "1"); code != 0 {
		t.Errorf("in a copy: got %d, %q", code, out)
	}
	testenv.Eventually(t, func() error {
		out, _ := b.does("logs", "copy", "-c", "debugger")
		if !strings.Contains(out, "line 1\n") {
			return fmt.Errorf("the debugger of the copy said %q", out)
		}
		return nil
	})
	if out, code := b.does("delete", "pod", "copy"); code != 0 {
		t.Errorf("got %d, %q", code, out)
	}
}

func (b *boxLab) lastMessage(t *testing.T) {
	testenv.Eventually(t, func() error {
		p, err := b.pod("box")
		if err != nil {
			return err
		}
		for _, c := range p.Status.ContainerStatuses {
			if last := c.LastTerminationState.Terminated; c.Name == "again" && last != nil && last.Message == "the message" {
				return nil
			}
		}
		return fmt.Errorf("its containers are %+v", p.Status.ContainerStatuses)
	})
}

func (b *boxLab) names(t *testing.T) {
	p, err := b.pod("box")
	if err != nil {
		t.Fatal(err)
	}
	address := func(service string) string {
		s, err := b.typed.CoreV1().Services("default").Get(t.Context(), service, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Spec.ClusterIP
	}
	own := p.Status.PodIP
	dashed := strings.ReplaceAll(own, ".", "-") + ".headless.default.svc.cluster.local"
	for question, want := range map[string]string{
		"A kubernetes.default.svc":               "10.96.0.1",
		"A kubernetes.default.svc.cluster.local": "10.96.0.1",
		"A front":                                address("front"),
		"A front.default":                        address("front"),
		"A/tcp front.default.svc.cluster.local":  address("front"),
		"AAAA front":                             "none",
		"A headless":                             own,
		"AAAA headless":                          "none",
		"A " + dashed:                            own,
		"SRV _http._tcp.front.default.svc.cluster.local":                        "front.default.svc.cluster.local.:80",
		"SRV _http._tcp.headless.default.svc.cluster.local":                     dashed + ".:8080",
		"SRV/tcp _none._tcp.front.default.svc.cluster.local":                    "front.default.svc.cluster.local.:81",
		"SRV _other._tcp.front.default.svc.cluster.local":                       "none",
		"A missing.default.svc.cluster.local":                                   "none",
		"A missing":                                                             "none",
		"A front.nowhere.svc.cluster.local":                                     "none",
		"A box":                                                                 own,
		"A " + strings.ReplaceAll(own, ".", "-") + ".default.pod.cluster.local": own,
	} {
		kind, name, _ := strings.Cut(question, " ")
		if got := b.box("box", "lookup", kind, name); got != want {
			t.Errorf("%s: got %q, want %q", question, got, want)
		}
	}
}
