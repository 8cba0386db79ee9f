// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/host/kubelet"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/host/podagent"
	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/host/pods"
	"github.com/capstan-dev/capstan/internal/host/podvolumes"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
	"github.com/capstan-dev/capstan/internal/testenv"
)

const imageName = "example.com/server:v1"

// server imports an image of the test's program into a store.
func server(t *testing.T) *ociimages.Store {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile(testenv.Program(t, "test/server"))
	if err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = errors.Join(w.WriteHeader(&tar.Header{Name: "server", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}), write(w, program), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: architecture(), RootFS: rootFS(t, image),
		Config: v1.Config{Entrypoint: []string{"/server"}, User: "65532:65532"},
	}); err != nil {
		t.Fatal(err)
	}
	path, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err == nil {
		err = path.AppendImage(image)
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := ociimages.Open(filepath.Join(dir, "images"), ociimages.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Import(t.Context(), filepath.Join(dir, "layout"), imageName); err != nil {
		t.Fatal(err)
	}
	return store
}

func write(w io.Writer, b []byte) error { _, err := w.Write(b); return err }

func rootFS(t *testing.T, image v1.Image) v1.RootFS {
	t.Helper()
	c, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return c.RootFS
}

type noTokens struct{}

func (noTokens) Token(context.Context, *corev1.Pod, podspec.Token) (string, time.Time, error) {
	return "", time.Time{}, errors.New("there are no tokens here")
}

type noObjects struct{}

func (noObjects) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}
func (noObjects) Follow(client.ObjectKey, ...client.ObjectKey) {}

type quiet struct{ t *testing.T }

func (q quiet) Eventf(_ runtime.Object, _ runtime.Object, _, reason, _, note string, args ...any) {}

// refusing refuses all connections of Pods to the outside.
type refusing struct{}

func (refusing) Connect(_ context.Context, _ netip.Addr, _ netip.AddrPort, c *pods.Conn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (refusing) Resolve(context.Context, netip.Addr, []byte) ([]byte, error) {
	return nil, errors.New("no names here")
}

// world is a node with real sandboxes and images, and with API objects in memory.
type world struct {
	t    *testing.T
	mgmt client.Client
	node *podagent.Node
	r    *podagent.Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if report := pods.Check(t.Context(), t.TempDir()); report.Mode == pods.None {
		t.Skipf("this host runs no sandboxes: %+v", report.Missing)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgmt := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&corev1.Pod{}, &corev1.Node{}).
		WithObjects(builder.Parse[corev1.ConfigMap](t, "metadata: {namespace: ns, name: words}\ndata: {word: hello}")).Build()
	dir := t.TempDir()
	host, err := pods.Open(filepath.Join(dir, "sandboxes"), pods.Options{Network: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	logs, err := podlogs.Open(filepath.Join(dir, "logs"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := podvolumes.Open(filepath.Join(dir, "volumes"))
	if err != nil {
		t.Fatal(err)
	}
	node, err := podagent.NewNode(podagent.Options{
		Object:  builder.Parse[corev1.Node](t, "metadata: {name: plane}\nstatus: {conditions: [{type: Ready, status: 'True'}]}"),
		Address: "127.0.0.1", DNS: netip.MustParseAddr("10.96.0.10"), Sandboxes: Sandboxes{host}, Images: Images{Store: server(t)}, Tokens: noTokens{},
		Logs: logs, Volumes: volumes, Space: func() (diskspace.Space, error) { return diskspace.Of(dir) }, Live: mgmt, Recorder: quiet{t}, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := errors.Join(node.Start(ended), host.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{t, mgmt, node, &podagent.Reconciler{Mgmt: mgmt, Node: node, Secrets: noObjects{}, ConfigMaps: noObjects{}}}
}

// until reconciles the Pod until it is in the desired state.
func (w *world) until(what string, is func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for {
		pod := &corev1.Pod{}
		if err := w.mgmt.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pod); apierrors.IsNotFound(err) {
			pod = nil
		} else if _, err := w.r.Reconcile(w.t.Context(), pod); err != nil && !apierrors.IsConflict(err) {
			w.t.Fatal(err)
		}
		if is(pod) {
			return pod
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			w.t.Fatalf("waiting for %s: %+v", what, pod.Status)
		}
	}
}

func (w *world) add(spec string) {
	w.t.Helper()
	pod := builder.Parse[corev1.Pod](w.t, "metadata: {namespace: ns, name: p, uid: u1}\nspec: {nodeName: plane, "+spec+"}")
	if err := w.mgmt.Create(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) log(previous bool) string {
	w.t.Helper()
	l, err := w.node.Log("ns", "p", "a", previous)
	if err != nil {
		return err.Error()
	}
	var b bytes.Buffer
	if err := l.Read(w.t.Context(), podlogs.Options{}, &b); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

func TestAPodOfARealImageServesIsReadAndEnds(t *testing.T) {
	w := newWorld(t)
	w.add("restartPolicy: Always, terminationGracePeriodSeconds: 5, containers: [{name: a, image: '" + imageName + "', env: [{name: GREETING, value: hi}], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}, volumeMounts: [{name: v, mountPath: /etc/config}]}], volumes: [{name: v, configMap: {name: words}}]")
	pod := w.until("it to be ready", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	if got := w.log(false); got != "serving as 65532, GREETING=hi\n" && os.Geteuid() == 0 {
		t.Errorf("its log: %q", got)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr(pod.Status.PodIP), 8080)
	asker := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.node.Dial(ctx, to) }}}
	ask := func(query string) string {
		answer, err := asker.Get("http://pod/" + query)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = answer.Body.Close() }()
		b, _ := io.ReadAll(answer.Body)
		return string(b)
	}
	if got := ask(""); got != "hello" {
		t.Errorf("it answers %q", got)
	}
	if got := ask("?dial=192.0.2.1:80"); !strings.Contains(got, "reset") && !strings.Contains(got, "refused") {
		t.Errorf("what it dials: %q", got)
	}
	var out, errs bytes.Buffer
	k := Kubelet{w.node}
	code, err := k.Exec(t.Context(), "ns", "p", "a", kubelet.Command{Args: []string{"/server", "cat", "/etc/config/word"}, Streams: podlogs.Streams{Stdout: &out, Stderr: &errs}})
	if err != nil || code != 0 || out.String() != "hello" {
		t.Errorf("a command: %d, %v, %q, %q", code, err, out.String(), errs.String())
	}
	if code, err := k.Exec(t.Context(), "ns", "p", "a", kubelet.Command{Args: []string{"/server", "cat", "/none"}, Streams: podlogs.Streams{Stdout: &out, Stderr: &errs}}); err != nil || code != 1 {
		t.Errorf("a command that fails: %d, %v", code, err)
	}
	if err := w.mgmt.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.r.Forget(client.ObjectKey{Namespace: "ns", Name: "p"})
}

func TestARealCrashLoopShowsItsLastLines(t *testing.T) {
	w := newWorld(t)
	w.add("restartPolicy: Always, containers: [{name: a, image: '" + imageName + "', args: [crash]}]")
	pod := w.until("the back-off", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	s := pod.Status.ContainerStatuses[0]
	if !strings.HasSuffix(s.State.Waiting.Message, "; it wrote last: panic: I was asked to") || s.LastTerminationState.Terminated.ExitCode != 7 || s.RestartCount != 1 {
		t.Errorf("%+v", s)
	}
	if got := w.log(true); got != "panic: I was asked to\n" {
		t.Errorf("the log of the run before: %q", got)
	}
}

func TestMissingCommandIsNamed(t *testing.T) {
	w := newWorld(t)
	w.add("restartPolicy: Always, containers: [{name: a, image: '" + imageName + "', command: [/none]}]")
	w.until("the reason", func(p *corev1.Pod) bool {
		if len(p.Status.ContainerStatuses) != 1 {
			return false
		}
		s := p.Status.ContainerStatuses[0]
		return s.State.Waiting != nil && strings.Contains(s.State.Waiting.Message, "/none") ||
			s.LastTerminationState.Terminated != nil && strings.Contains(s.LastTerminationState.Terminated.Message, "/none")
	})
}

func architecture() string { return goruntime.GOARCH }
