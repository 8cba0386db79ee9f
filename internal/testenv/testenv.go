// SPDX-License-Identifier: Apache-2.0

// Package testenv gives tests a real management plane: the capstan program,
// built once and started as a process of its own, so that no test links an API
// server.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		env := testenv.Start(t)
//		env.Client.Create(t.Context(), ...) // in env.Namespace
//	}
//
// The plane is started by the first test of a package that asks for it and
// stopped after the last. CAPSTAN_TEST_KUBECONFIG names a running one to use
// instead.
package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/process"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

const (
	// Timeouts are for a machine on which many tests run at once; a test that
	// passes does not wait for them. Eventually looks often at first, since
	// most things take milliseconds, then rarely enough not to be the load.
	startTimeout      = 3 * time.Minute
	eventuallyTimeout = 3 * time.Minute
	firstPeriod       = 20 * time.Millisecond
	lastPeriod        = 320 * time.Millisecond
)

// Env is what a test works on.
type Env struct {
	// Client reads and writes the plane directly, without a cache.
	Client client.Client
	Config *rest.Config
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Namespace belongs to the test alone.
	Namespace string
}

// Main runs the tests of a package and stops the plane that they started. They
// wait for a plane more than they compute, so more of them run at once than
// there are processors, unless -parallel says otherwise.
func Main(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(2 * goruntime.GOMAXPROCS(0))) // a number is fine
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared is the plane of this test binary.
var shared plane

type plane struct {
	once       sync.Once
	process    *Process
	dir        string
	kubeconfig string
	err        error
}

// Start returns the plane and a new namespace on it.
func Start(t testing.TB) *Env {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a management plane, which -short leaves out")
	}
	shared.once.Do(shared.start)
	if shared.err != nil {
		t.Fatalf("start the management plane: %v", shared.err)
	}
	env, err := Connect(shared.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := env.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	env.Namespace = ns.Name
	t.Cleanup(func() {
		// Not waited for: a namespace takes five seconds to go.
		if err := env.Client.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	return env
}

func (p *plane) start() {
	if p.kubeconfig = os.Getenv("CAPSTAN_TEST_KUBECONFIG"); p.kubeconfig != "" {
		return
	}
	binary, err := build()
	if err != nil {
		p.err = err
		return
	}
	if p.dir, p.err = os.MkdirTemp("", "capstan-test-"); p.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	p.process, p.err = process.Up(ctx, binary, "--data-dir="+p.dir, "--simulated-dir="+datadir.Dir(p.dir).Simulated(), "--containers-dir="+p.dir+"/containers", "--listen=127.0.0.1:0")
	p.kubeconfig = filepath.Join(p.dir, "kubeconfig")
}

func (p *plane) stop() error {
	var err error
	if p.process != nil {
		err = p.process.Stop()
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// Connect returns an Env without a namespace for the plane of a kubeconfig.
func Connect(kubeconfig string) (*Env, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{} // of the names of finalizers, which are the field's
	s, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connect to the management plane: %w", err)
	}
	return &Env{Client: c, Config: cfg, Kubeconfig: kubeconfig}, nil
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(scheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), clusterv1.AddToScheme(s), bootstrapv1.AddToScheme(s),
		controlplanev1.AddToScheme(s), infrav1.AddToScheme(s), runtimev1.AddToScheme(s), addonsv1.AddToScheme(s), certmanagerv1.AddToScheme(s))
}

// Eventually calls check until it returns nil, and fails the test with its
// last error when that takes too long.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	Within(t, eventuallyTimeout, check)
}

// Within is Eventually for what may take longer, such as a whole cluster. The
// longer it takes, the less often it looks.
func Within(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for period := firstPeriod; ; period = min(2*period, lastPeriod) {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(period):
		case <-deadline.C:
			t.Fatalf("after %s: %v", limit, err)
		case <-t.Context().Done():
			t.Fatalf("the test was ended: %v", err)
		}
	}
}

// FreeAddress is an address of this machine that nobody listened on a moment
// ago.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// root is the folder of this module's go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/capstan-dev/capstan\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find go.mod of this module: not in a folder above")
		}
		dir = up
	}
}
