// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/host/podvolumes"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// process is a process that a test ends.
type process struct {
	container   Container
	out         *io.PipeWriter
	stdout      io.Reader
	ended       chan Exit
	once        sync.Once
	ignoresTerm bool
}

func (p *process) Stdout() io.Reader { return p.stdout }
func (p *process) Stderr() io.Reader { return strings.NewReader("") }
func (p *process) Wait() Exit        { return <-p.ended }
func (p *process) Attach(_ context.Context, s podlogs.Streams) error {
	_, err := io.WriteString(s.Stdout, "attached to "+p.container.Name)
	return err
}
func (p *process) Signal(s os.Signal) error {
	if s == syscall.SIGTERM && p.ignoresTerm {
		return nil
	}
	p.end(Exit{Code: 128 + int(s.(syscall.Signal)), Signal: int(s.(syscall.Signal))})
	return nil
}

func (p *process) end(e Exit) {
	p.once.Do(func() {
		_ = p.out.Close()
		p.ended <- e
	})
}

// sandboxes simulates the start of sandboxes.
type sandboxes struct {
	mu        sync.Mutex
	processes map[string][]*process // by container
	execs     []string
	started   []Sandbox
	stopped   int
	runErr    error
	codes     map[string]int // of commands
	dialled   chan net.Conn
	panics    string // the call that panics
}

// call panics if the test requests it.
func (s *sandboxes) call(name string) {
	if s.panics == name {
		panic("planted in " + name)
	}
}

func (s *sandboxes) Rootless() bool { return false }

func (s *sandboxes) Start(_ context.Context, spec Sandbox) (Running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("Start")
	s.started = append(s.started, spec)
	return &sandbox{sandboxes: s}, nil
}

// sandbox is the sandbox of one Pod.
type sandbox struct {
	*sandboxes
	own   []*process
	ended bool
}

func (s *sandbox) Run(_ context.Context, c Container) (Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("Run")
	if s.runErr != nil {
		return nil, s.runErr
	}
	if s.ended {
		return nil, errors.New("the sandbox has ended")
	}
	r, w := io.Pipe()
	p := &process{container: c, out: w, stdout: r, ended: make(chan Exit, 1)}
	s.own = append(s.own, p)
	s.processes[c.Name] = append(s.processes[c.Name], p)
	return p, nil
}

func (s *sandbox) Stop(context.Context, time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped++
	s.ended = true
	for _, p := range s.own {
		p.end(Exit{Code: 143, Signal: 15})
	}
	s.call("Stop")
	return nil
}

func (s *sandboxes) Exec(_ context.Context, _ string, args []string, _ podlogs.Streams) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("Exec")
	s.execs = append(s.execs, strings.Join(args, " "))
	return s.codes[args[0]], nil
}

func (s *sandboxes) DialLoopback(ctx context.Context, port int) (net.Conn, error) {
	return s.Dial(ctx, port)
}

func (s *sandboxes) Dial(context.Context, int) (net.Conn, error) {
	select {
	case c := <-s.dialled:
		return c, nil
	default:
		return nil, errors.New("refused")
	}
}

func (s *sandboxes) returns(command string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[command] = code
}

// latest returns the last started run of a container, nil if there is none.
func (s *sandboxes) latest(container string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.processes[container]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

func (s *sandboxes) runs(container string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.processes[container])
}

// images has an image of each name except "gone".
type images struct{ root string }

func (i images) Find(ref string) (Image, error) {
	if ref == "gone" || ref == "new" {
		return Image{}, ErrNoImage
	}
	return Image{Digest: "sha256:" + ref, Imported: ref == "imported", Image: podspec.Image{Entrypoint: []string{"/" + ref}, User: "65532"}}, nil
}

func (i images) Pull(_ context.Context, ref string, _ [][]byte) (Image, error) {
	if ref == "gone" || ref == "brought" || ref == "imported" {
		return Image{}, fmt.Errorf("pull image %s: manifest unknown", ref)
	}
	return Image{Digest: "sha256:pulled", Image: podspec.Image{Entrypoint: []string{"/" + ref}}}, nil
}

func (i images) Root(string) (string, func(), error) { return i.root, func() {}, nil }

// tokens returns numbered tokens that are valid for an hour.
type tokens struct {
	mu    sync.Mutex
	clock *testclock.FakeClock
	given int
}

func (k *tokens) Token(context.Context, *corev1.Pod, podspec.Token) (string, time.Time, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.given++
	return "token-" + string(rune('0'+k.given)), k.clock.Now().Add(time.Hour), nil
}

// noObjects watches nothing; tests send the notifications.
type noObjects struct{}

func (noObjects) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}
func (noObjects) Follow(client.ObjectKey, ...client.ObjectKey) {}

// world is a node with fakes of all its dependencies.
type world struct {
	t         *testing.T
	mgmt      client.Client
	r         *Reconciler
	sandboxes *sandboxes
	clock     *testclock.FakeClock
	tokens    *tokens
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
	dir       string
	writes    int
	told      told
	free      atomic.Int64 // of the diskBytes
	freeFiles atomic.Int64 // of the diskFiles
}

// diskBytes and diskFiles are those of the disk that volumes are on.
const diskBytes, diskFiles = 100 << 20, 1000

func (w *world) space() (diskspace.Space, error) {
	w.sandboxes.call("Space")
	return diskspace.Space{Used: diskBytes - w.free.Load(), Free: w.free.Load(), Files: diskFiles, FreeFiles: w.freeFiles.Load()}, nil
}

const podText = "metadata: {namespace: ns, name: p, uid: u1}\n"

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), dir: t.TempDir()}
	w.free.Store(diskBytes)
	w.freeFiles.Store(math.MaxInt64) // until a test sets another value
	w.sandboxes = &sandboxes{processes: map[string][]*process{}, codes: map[string]int{}, dialled: make(chan net.Conn, 10)}
	w.tokens = &tokens{clock: w.clock}
	w.mgmt = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}, &corev1.Node{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: bind,
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			if node, ok := obj.(*corev1.Node); ok { // as the API server does
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
			}
			return c.Create(ctx, obj, o...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			w.writes++
			return c.SubResource(sub).Patch(ctx, obj, p, o...)
		},
	}).Build()
	logs, err := podlogs.Open(filepath.Join(w.dir, "logs"), w.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := podvolumes.Open(filepath.Join(w.dir, "volumes"))
	if err != nil {
		t.Fatal(err)
	}
	node, err := NewNode(Options{
		Object:  builder.Parse[corev1.Node](t, "metadata: {name: plane, labels: {kubernetes.io/os: linux}}\nstatus: {conditions: [{type: Ready, status: 'True'}]}"),
		Address: "10.0.0.1", DNS: netip.MustParseAddr("10.96.0.10"), Sandboxes: w.sandboxes, Images: images{t.TempDir()}, Tokens: w.tokens,
		Logs: logs, Volumes: volumes, Space: w.space, Live: w.mgmt, Recorder: &w.told, Unlimited: true, Clock: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := (waker{node}).Start(t.Context(), w.queue); err != nil {
		t.Fatal(err)
	}
	w.r = &Reconciler{Mgmt: w.mgmt, Node: node, Secrets: noObjects{}, ConfigMaps: noObjects{}}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = node.Start(ctx)
		w.queue.ShutDown()
	})
	return w
}

// told records the events, each as its reason and its text.
type told struct {
	mu  sync.Mutex
	all []string
}

// Eventf implements events.EventRecorder.
func (t *told) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, reason+": "+fmt.Sprintf(note, args...))
}

// of returns the number of events with a reason.
func (t *told) of(reason string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.all {
		if strings.HasPrefix(e, reason+": ") {
			n++
		}
	}
	return n
}

var _ events.EventRecorder = (*told)(nil)

// bind handles a Binding as the API server does.
func bind(ctx context.Context, c client.Client, sub string, obj, by client.Object, _ ...client.SubResourceCreateOption) error {
	if sub != "binding" {
		return errors.New("not known: " + sub)
	}
	pod := obj.DeepCopyObject().(*corev1.Pod)
	pod.Spec.NodeName = by.(*corev1.Binding).Target.Name
	return c.Update(ctx, pod)
}

func (w *world) add(pod string) {
	w.t.Helper()
	if err := w.mgmt.Create(w.t.Context(), builder.Parse[corev1.Pod](w.t, podText+pod)); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles the Pod, and returns it, nil if it was deleted.
func (w *world) reconcile() *corev1.Pod {
	w.t.Helper()
	pod, key := &corev1.Pod{}, client.ObjectKey{Namespace: "ns", Name: "p"}
	if err := w.mgmt.Get(w.t.Context(), key, pod); apierrors.IsNotFound(err) {
		return nil
	}
	if _, err := w.r.Reconcile(w.t.Context(), pod); err != nil && !apierrors.IsConflict(err) {
		w.t.Fatal(err)
	}
	pod = &corev1.Pod{}
	if err := w.mgmt.Get(w.t.Context(), key, pod); apierrors.IsNotFound(err) {
		return nil
	}
	return pod
}

// until reconciles at each notification of the node, until the Pod is in the
// desired state.
func (w *world) until(what string, is func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for {
		pod := w.reconcile()
		if is(pod) {
			return pod
		}
		go func() {
			req, ended := w.queue.Get()
			if !ended {
				w.queue.Done(req)
				w.queue.Forget(req)
			}
			woken <- struct{}{}
		}()
		timer := time.NewTimer(50 * time.Millisecond) // a change by the fixture triggers no reconcile
		select {
		case <-woken:
		case <-timer.C:
			w.queue.Add(reconcile.Request{}) // ends the wait above
			<-woken
		case <-ctx.Done():
			w.t.Fatalf("waiting for %s: %+v", what, pod)
		}
		timer.Stop()
	}
}

// step advances the clock as soon as a timer waits for it.
func (w *world) step(d time.Duration) {
	w.t.Helper()
	w.until("a timer", func(*corev1.Pod) bool { return w.clock.HasWaiters() })
	w.clock.Step(d)
}

func (w *world) delete() {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.mgmt.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pod); err != nil {
		w.t.Fatal(err)
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(w.clock.Now())), new(int64(5))
	l := w.r.Node.life(pod.UID)
	for range 2 { // the first starts the end, and completes the deletion of a Pod that has ended
		if err := w.r.end(w.t.Context(), pod, w.r.Node.life(pod.UID)); err != nil {
			w.t.Fatal(err)
		}
		<-l.ended
	}
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
