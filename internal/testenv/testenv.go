// SPDX-License-Identifier: Apache-2.0

// Package testenv gives tests real management planes: the capstan program, built by the
// Makefile and started as a separate process, so that no test links an API server.
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		env := testenv.Start(t)
//		env.Client.Create(t.Context(), ...) // in env.Namespace
//	}
//
// Most tests share one plane, each with its own namespace. CAPSTAN_TEST_KUBECONFIG names
// the running plane; if it is not set, the first test of a package starts one. A test that
// starts, stops or configures planes calls OwnPlanes first; a test that exhausts the
// machine, or compiles, calls Alone. The Makefile runs these three kinds of tests in three
// passes. Tests never compile what they need: Program returns what the Makefile built, and
// a test is skipped where the Makefile did not run.
package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
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
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/planeproc"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// startTimeout is how long an idle machine may take to start a plane. It takes 2 to 5 s.
const startTimeout = 3 * time.Minute

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

// waitingTests is how many tests may wait for separate planes at the same time.
// Tests that wait must not use up -parallel: the subtests of a test that has planes
// need it, and the planes are released only after them.
const waitingTests = 1000

// Main runs the tests of a package and stops the plane that they started. Tests wait for a
// plane more than they compute, so more of them run at the same time than there are
// cores, unless -parallel sets a number. The slots of planes bound the other passes.
func Main(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		parallel := waitingTests
		if pass(os.Getenv(passVariable)) == sharedPass {
			parallel = 2 * goruntime.GOMAXPROCS(0)
		}
		_ = f.Value.Set(strconv.Itoa(parallel)) // a number is valid
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
	slots      []*os.File
	dir        string
	kubeconfig string
	err        error
}

// Start returns the shared plane and a new namespace in it.
func Start(t testing.TB) *Env {
	t.Helper()
	enter(t, sharedPass)
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
		// The test does not wait: the deletion of a namespace takes five seconds.
		if err := env.Client.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	reportFailure(t, env.DataDir(), ns.Name)
	return env
}

// DataDir returns the data directory of the plane, which is the folder of its kubeconfig.
func (e *Env) DataDir() string { return filepath.Dir(e.Kubeconfig) }

func (p *plane) start() {
	if p.kubeconfig = os.Getenv(kubeconfigVariable); p.kubeconfig != "" {
		return
	}
	binary, err := program("capstan")
	if err != nil {
		p.err = err
		return
	}
	if p.slots, p.err = slots(1, slotCount()); p.err != nil {
		return
	}
	if p.dir, p.err = os.MkdirTemp("", "capstan-test-"); p.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit(startTimeout))
	defer cancel()
	flags := []string{"--data-dir=" + p.dir, "--listen=127.0.0.1:0"}
	p.process, p.err = planeproc.Up(ctx, binary, append(ownMachines(flags), flags...)...)
	p.kubeconfig = datadir.Dir(p.dir).Kubeconfig()
}

func (p *plane) stop() error {
	var err error
	if p.process != nil {
		err = p.process.Stop()
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	release(p.slots)
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
		controlplanev1.AddToScheme(s), infrav1.AddToScheme(s), runtimev1.AddToScheme(s), addonsv1.AddToScheme(s), planv1.AddToScheme(s), certmanagerv1.AddToScheme(s))
}

// FreeAddress returns an address of this machine on which no process listens. Its port is
// outside the range from which the kernel chooses for port 0 (32768 and above on Linux):
// a listener of another test would get such a port before the intended program starts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("100 ports between 20000 and 30000 are taken")
	return ""
}
