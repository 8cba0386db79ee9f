// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/authn"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/host/kubelet"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/host/podagent"
	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/host/podroutes"
	"github.com/capstan-dev/capstan/internal/host/pods"
	"github.com/capstan-dev/capstan/internal/host/podvolumes"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/connlistener"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/registry"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// kubeletPort is the port of all kubelets: it has no listener, but is in URLs.
	kubeletPort = 10250
	// dialTimeout bounds the kernel's retries of a connection.
	dialTimeout = 30 * time.Second
	// maxPods is the kubelet's default.
	maxPods = "110"
	// maxLeft bounds the leftovers of Pods that a condition lists.
	maxLeft = 1 << 10
)

// Plane runs the Pods of a plane on this host, from when it is set up.
type Plane struct {
	dir, name string
	host      io.Closer // nil where this host runs no sandboxes
	sandboxes podagent.Sandboxes
	volumes   *podvolumes.Store
	left      error // files of earlier Pods that cannot be removed
	log       logr.Logger
	guard     *dialguard.Guard
	routes    atomic.Pointer[podroutes.Routes]
}

// APIServer is the API server of the plane: the handler of connections, and the
// files of the kubelet and of the clients that it accepts.
type APIServer struct {
	Serve                        func(net.Conn)
	Cert, Key, Authority, Client string
}

// Open opens the sandboxes in the data directory of a plane. On a host that cannot
// run sandboxes, the plane does everything else. The first Pod shows whether one
// can be started, and reports what is missing: a test here would cost each start of
// a plane a sandbox, and most planes run no Pod. Files that earlier Pods left and
// that cannot be removed are reported in the log and on the Node. The guard decides
// where Pods can connect to.
func Open(dir string, guard *dialguard.Guard, log logr.Logger) (*Plane, error) {
	p := &Plane{dir: dir, name: nodeName(os.Hostname()), guard: guard, log: log}
	host, err := openSandboxes(filepath.Join(dir, "pods"), network{p})
	p.host, p.sandboxes = host, host
	if err != nil {
		p.host, p.sandboxes = nil, none{err}
	}
	// Files that Pods of an earlier process left are removed before the store is
	// opened, which needs space on the same disk.
	if p.volumes, err = podvolumes.Open(p.volumesDir()); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.leave(p.volumes.Left)
	return p, nil
}

// leave reports files of earlier Pods that cannot be removed.
func (p *Plane) leave(err error) {
	if err != nil {
		p.log.Error(err, "Leaving files of earlier Pods")
		p.left = errors.Join(p.left, err)
	}
}

func (p *Plane) volumesDir() string { return filepath.Join(p.dir, "pods", "volumes") }

// nodeName is the name of the host, if a Node can have it.
func nodeName(host string, err error) string {
	host = strings.ToLower(host)
	if err != nil || len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "capstan"
	}
	return host
}

// Name is the name of the Node.
func (p *Plane) Name() string { return p.name }

// Close ends all sandboxes.
func (p *Plane) Close() error {
	if p.host == nil {
		return nil
	}
	return p.host.Close()
}

// Dial connects the plane to an address or a name in the cluster, or to any other
// address.
func (p *Plane) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if r := p.routes.Load(); r != nil {
		return r.Dial(ctx, network, address)
	}
	return outside(ctx, network, address)
}

func outside(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
}

// dialForPods connects Pods to addresses outside the cluster.
func (p *Plane) dialForPods(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout, ControlContext: p.guard.Control}).DialContext(ctx, network, address)
}

// sandboxes are those of a host.
type sandboxes interface {
	podagent.Sandboxes
	io.Closer
}

// none has no sandbox for any Pod; its error is the reason.
type none struct{ error }

// Start implements podagent.Sandboxes.
func (n none) Start(context.Context, podagent.Sandbox) (podagent.Running, error) {
	return nil, fmt.Errorf("this host can run no Pods, as capstan doctor shows: %w", n.error)
}

// Rootless implements podagent.Sandboxes.
func (none) Rootless() bool { return false }

// network routes the connections of Pods.
type network struct{ p *Plane }

// Connect implements pods.Network.
func (n network) Connect(ctx context.Context, from netip.Addr, to netip.AddrPort, c *pods.Conn) {
	if r := n.p.routes.Load(); r != nil {
		r.Connect(ctx, from, to, c)
		return
	}
	c.Refuse("") // the plane starts
}

// Resolve implements pods.Network.
func (n network) Resolve(ctx context.Context, from netip.Addr, query []byte) ([]byte, error) {
	if r := n.p.routes.Load(); r != nil {
		return r.Resolve(ctx, from, query)
	}
	return nil, errors.New("the plane starts")
}

// Setup sets up a manager that runs the Pods of its API server.
func (p *Plane) Setup(ctx context.Context, mgr ctrl.Manager, api APIServer) error {
	node, err := p.node(mgr)
	if err != nil {
		return err
	}
	answer, err := p.kubelet(node, api)
	if err != nil {
		return err
	}
	p.routes.Store(&podroutes.Routes{
		Live: mgr.GetClient(), Choose: rand.IntN, Pods: netip.MustParsePrefix(podspec.PodRange), Services: netip.MustParsePrefix(podspec.ServiceRange),
		DialPod: node.Dial, APIServer: netip.MustParseAddr(podspec.APIService), Serve: api.Serve, Node: p.name, Kubelet: answer,
		Outside: outside, ForPods: p.dialForPods, Lookup: net.DefaultResolver,
	})
	meta, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("watch what Pods name: %w", err)
	}
	secrets, maps := secretwatch.New(meta), secretwatch.Of(meta, "configmaps")
	for _, w := range []*secretwatch.Watches{secrets, maps} {
		if err := mgr.Add(ctrlmanager.RunnableFunc(w.Wait)); err != nil {
			return err
		}
	}
	r := &podagent.Reconciler{Mgmt: controller.Client(mgr), Node: node, Secrets: secrets.Follower(), ConfigMaps: maps.Follower()}
	return r.Setup(ctx, mgr)
}

// node builds the node that runs the Pods.
func (p *Plane) node(mgr ctrl.Manager) (*podagent.Node, error) {
	typed, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make tokens for Pods: %w", err)
	}
	logs, err := podlogs.Open(filepath.Join(p.dir, "pods", "logs"), time.Now)
	if err != nil {
		return nil, err
	}
	p.leave(logs.Left)
	images, err := ociimages.Open(filepath.Join(p.dir, "images"), ociimages.Options{Registry: registry.Options{Keychain: authn.DefaultKeychain}})
	if err != nil {
		return nil, err
	}
	return podagent.NewNode(podagent.Options{
		Object: nodeObject(p.name, p.ready()), Address: "127.0.0.1", DNS: netip.MustParseAddr(podspec.DNSService),
		Sandboxes: p.sandboxes, Unlimited: p.sandboxes.Rootless(), Images: Images{images, datadir.Dir(p.dir).Registries()}, Tokens: tokens{typed}, Logs: logs, Volumes: p.volumes,
		Space: func() (diskspace.Space, error) { return diskspace.Of(p.volumesDir()) },
		Live:  mgr.GetAPIReader(), Recorder: controller.Recorder(mgr, "runner"), Clock: clock.RealClock{},
	})
}

// ready returns whether the Node can run any Pod.
func (p *Plane) ready() corev1.NodeCondition {
	if missing, ok := p.sandboxes.(none); ok {
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "NoSandboxes", Message: missing.Error()}
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "PlaneRuns", Message: "the plane runs Pods"}
	if p.left != nil {
		ready.Message += "; files of earlier Pods take space: " + sanitize.Line(p.left.Error(), maxLeft)
	}
	return ready
}

// nodeObject returns the Node of a plane.
func nodeObject(name string, ready corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: podspec.NodeLabels(name, runtime.GOOS, runtime.GOARCH)},
		Status: corev1.NodeStatus{
			Capacity: capacity(), Allocatable: capacity(),
			// Only by its name: the API server would dial an address as the host
			// does.
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			Conditions:      []corev1.NodeCondition{ready},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, KubeletVersion: buildinfo.Read().Version, ContainerRuntimeVersion: "capstan://1",
			},
		},
	}
}

// kubelet returns the dial function by which the API server connects to the
// kubelet, which has no address outside this process.
func (p *Plane) kubelet(node *podagent.Node, api APIServer) (func(context.Context) (net.Conn, error), error) {
	authority, err := os.ReadFile(api.Authority)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the kubelet's clients: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	config := kubelet.TLS(func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(api.Cert, api.Key) // it is renewed in its file
		return &c, err
	}, trusted, api.Client)
	handler := kubelet.Handler(Kubelet{node})
	return func(ctx context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		connected, gone := context.WithCancel(context.WithoutCancel(ctx))
		server := &http.Server{Handler: handler, ReadHeaderTimeout: dialTimeout, BaseContext: func(net.Listener) context.Context { return connected }}
		go recovery.Func(connected, func() {
			defer gone()
			_ = server.Serve(connlistener.Listen(tls.Server(&ending{far, gone}, config))) // it ends with its connection
		})()
		return near, nil
	}, nil
}

// ending reports that the peer closed a connection. A server that has hijacked a
// connection for streams no longer detects that, and what it does for the peer
// would continue.
type ending struct {
	net.Conn
	closed func()
}

// Read implements net.Conn.
func (e *ending) Read(b []byte) (int, error) {
	n, err := e.Conn.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		e.closed()
	}
	return n, err
}

// tokens creates tokens of ServiceAccounts, for Pods.
type tokens struct{ typed kubernetes.Interface }

// Token implements podagent.Tokens.
func (k tokens) Token(ctx context.Context, pod *corev1.Pod, t podspec.Token) (string, time.Time, error) {
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &t.Seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if t.Audience != "" {
		ask.Spec.Audiences = []string{t.Audience}
	}
	name := pod.Spec.ServiceAccountName
	if name == "" {
		name = "default"
	}
	given, err := k.typed.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, name, ask, metav1.CreateOptions{})
	if err != nil {
		return "", time.Time{}, err
	}
	return given.Status.Token, given.Status.ExpirationTimestamp.Time, nil
}
