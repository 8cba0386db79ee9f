// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/pki"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := func(s pki.Store) ExternalEtcd { return ExternalEtcd{Store: s} }
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"only a data directory":      {Options{Dir: "d"}, ""},
		"none":                       {Options{}, "no data directory given"},
		"no port":                    {Options{Dir: "d", Listen: "127.0.0.1"}, "address to listen on: address 127.0.0.1: missing port in address"},
		"all addresses":              {Options{Dir: "d", Listen: ":0"}, ""},
		"an etcd":                    {Options{Dir: "d", Etcd: etcd(pki.Store{Servers: []string{"https://e:2379"}, CAFile: file, CertFile: file, KeyFile: file})}, ""},
		"files for no etcd":          {Options{Dir: "d", Etcd: etcd(pki.Store{CAFile: file})}, "certificates or a prefix for an external etcd are given, but no server"},
		"a prefix for no etcd":       {Options{Dir: "d", Etcd: etcd(pki.Store{Prefix: "/a"})}, "certificates or a prefix for an external etcd are given, but no server"},
		"a certificate without key":  {Options{Dir: "d", Etcd: etcd(pki.Store{Servers: []string{"https://e"}, CertFile: file})}, "a client certificate for the external etcd needs both its certificate file and its key file"},
		"a file that does not exist": {Options{Dir: "d", Etcd: etcd(pki.Store{Servers: []string{"https://e"}, CAFile: file + "x"})}, "read certificates of the external etcd: open " + file + "x: no such file or directory"},
	} {
		c, err := tc.options.complete()
		if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if err == nil && (!filepath.IsAbs(string(c.dir)) || c.Etcd.Prefix != "/registry" || c.Listen == "" || c.host == "") {
			t.Errorf("%s: completed to %+v", name, c)
		}
	}
}

// TestServingHostsAreThoseOfClients: the kubeconfig names the first, and a certificate
// for all addresses names those of the host.
func TestServingHostsAreThoseOfClients(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "127.0.0.1": "127.0.0.1", "localhost": "localhost", "192.0.2.7": "192.0.2.7", "plane.example.com": "plane.example.com"} {
		hosts, err := servingHosts(listen)
		if err != nil || hosts[0] != want {
			t.Errorf("%q: got %v, %v, want %s first", listen, hosts, err, want)
		}
		for _, name := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"} {
			if n := len(slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return h != name })); n != 1 {
				t.Errorf("%q: %s is there %d times", listen, name, n)
			}
		}
	}
}

func TestReachedAtIsAddressForOtherHosts(t *testing.T) {
	t.Parallel()
	hosts := []string{"127.0.0.1", "localhost", "10.96.0.1", "192.0.2.7"}
	for listen, want := range map[string]string{"127.0.0.1:6443": "127.0.0.1:7000", "plane.example.com:6443": "127.0.0.1:7000", ":6443": "192.0.2.7:7000", "0.0.0.0:0": "192.0.2.7:7000", "[::]:0": "192.0.2.7:7000"} {
		c := &completed{Options: Options{Listen: listen}, hosts: hosts}
		if got := c.reachedAt("127.0.0.1:7000"); got != want {
			t.Errorf("%s: got %s, want %s", listen, got, want)
		}
	}
}

func TestReachNeedsOneServerOfEtcd(t *testing.T) {
	t.Parallel()
	secure, plain := httptest.NewTLSServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	const closed = "http://127.0.0.1:1"
	for name, tc := range map[string]struct {
		store pki.Store
		want  string
	}{
		"one":                   {pki.Store{Servers: []string{plain.URL}}, ""},
		"the second":            {pki.Store{Servers: []string{closed, plain.URL}}, ""},
		"a socket":              {pki.Store{Servers: []string{"unix://" + socket}}, ""},
		"none":                  {pki.Store{Servers: []string{closed}}, "reach etcd at http://127.0.0.1:1: "},
		"one of another scheme": {pki.Store{Servers: []string{"ftp://127.0.0.1"}}, "the URL must begin with https://, http:// or unix://"},
		"one that is no URL":    {pki.Store{Servers: []string{"http://a b"}}, "invalid character"},
		"one without trust":     {pki.Store{Servers: []string{secure.URL}}, "certificate"},
		"a bad authority":       {pki.Store{Servers: []string{secure.URL}, CAFile: text}, "no certificate in " + text},
		"a bad certificate":     {pki.Store{Servers: []string{secure.URL}, CertFile: text, KeyFile: text}, "read client certificate for etcd: "},
	} {
		err := ExternalEtcd{Store: tc.store}.reach(t.Context())
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// TestSocketsFitTheirAddress: the path of a socket is limited, and is part of a list of
// URLs.
func TestSocketsFitTheirAddress(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	stale := filepath.Join(tmp, socketsPrefix+"stale")
	if err := errors.Join(os.Mkdir(stale, 0o700), os.WriteFile(filepath.Join(stale, clientSocket), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dir string
		own bool
	}{
		"a short path":       {filepath.Join(tmp, "d"), true},
		"a long path":        {filepath.Join(tmp, strings.Repeat("d", maxSocketPath)), false},
		"a comma, in a list": {filepath.Join(tmp, "a,b"), false},
		"a percent sign":     {filepath.Join(tmp, "a%20b"), false},
	} {
		c, p := &completed{dir: datadir.Dir(tc.dir)}, &Plane{}
		got, err := c.socketDir(p)
		if err != nil || (got == filepath.Join(tc.dir, "run")) != tc.own {
			t.Errorf("%s: got %s, %v", name, got, err)
			continue
		}
		if info, err := os.Stat(got); err != nil || info.Mode().Perm() != 0o700 || len(filepath.Join(got, clientSocket)) > maxSocketPath || strings.ContainsAny(got, inURLs) {
			t.Errorf("%s: %s has mode %v, %v", name, got, info.Mode(), err)
		}
		sweepSockets() // by another plane, which must not remove it
		if _, err := os.Stat(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(got); (err == nil) != tc.own {
			t.Errorf("%s: after its end: %v", name, err)
		}
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed plane left: %v", err)
	}
}

func TestFailedChecksAreNamed(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.WriteString("[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n[-]poststarthook/rbac failed: not finished\nreadyz check failed\n")
	if got, err := failedChecks(w.Result()); err != nil || got != "status 500, waiting for etcd, poststarthook/rbac" {
		t.Errorf("got %q, %v", got, err)
	}
}

// collected are the warnings of one request.
type collected struct{ all []string }

func (c *collected) AddWarning(_, text string) { c.all = append(c.all, text) }

func TestOnlyKnownWarningsAreDropped(t *testing.T) {
	t.Parallel()
	const known, other, field = `metadata.finalizers: "cluster.cluster.x-k8s.io": prefer a domain-qualified finalizer name`, `metadata.finalizers: "mine": prefer`, `spec.x: "cluster.cluster.x-k8s.io" is deprecated`
	got := &collected{}
	h := withoutKnownWarnings(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, text := range []string{known, other, field, "metadata.finalizers: "} {
			warning.AddWarning(r.Context(), "", text)
		}
	}))
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	h.ServeHTTP(httptest.NewRecorder(), r.WithContext(warning.WithWarningRecorder(r.Context(), got)))
	if want := []string{other, field, "metadata.finalizers: "}; !slices.Equal(got.all, want) {
		t.Errorf("got %q, want %q", got.all, want)
	}
}

func TestLastingPathsHaveNoTimeLimit(t *testing.T) {
	t.Parallel()
	c := &genericapiserver.Config{LongRunningFunc: func(_ *http.Request, i *request.RequestInfo) bool { return i.Verb == "watch" }}
	letLast(c, []string{"/capstan/dial"})
	for name, tc := range map[string]struct {
		info request.RequestInfo
		want bool
	}{
		"such a path":        {request.RequestInfo{Path: "/capstan/dial"}, true},
		"one below it":       {request.RequestInfo{Path: "/capstan/dial/x"}, false},
		"a resource":         {request.RequestInfo{Path: "/capstan/dial", IsResourceRequest: true}, false},
		"as it was":          {request.RequestInfo{Verb: "watch", IsResourceRequest: true}, true},
		"any other resource": {request.RequestInfo{Verb: "get", IsResourceRequest: true}, false},
	} {
		if got := c.LongRunningFunc(nil, &tc.info); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestKubeconfigIsCompleteAndPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := pki.Folder{Dir: filepath.Join(dir, "pki"), Now: time.Now}
	file := filepath.Join(dir, "kubeconfig")
	if err := writeKubeconfig(file, keys, "https://127.0.0.1:6443"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without certificates: got %v", err)
	}
	if err := errors.Join(keys.Ensure([]string{"127.0.0.1"}), writeKubeconfig(file, keys, "https://127.0.0.1:6443")); err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := os.ReadFile(keys.Cert("admin"))
	if info, serr := os.Stat(file); serr != nil || info.Mode().Perm() != 0o600 || err != nil || string(cfg.CertData) != string(admin) || len(cfg.KeyData) == 0 || len(cfg.CAData) == 0 {
		t.Errorf("got %+v, %v, %v", cfg, err, serr)
	}
	if u, err := url.Parse(cfg.Host); err != nil || u.Host != "127.0.0.1:6443" {
		t.Errorf("its server is %s, %v", cfg.Host, err)
	}
}

// TestEtcdEndsItsPlaneAlone: errors for which etcd would end the process end the goroutine
// that logged them.
func TestEtcdEndsItsPlaneAlone(t *testing.T) {
	t.Parallel()
	cause := errors.New("wal: crc mismatch")
	for name, write := range map[string]func(*zap.Logger){
		"fatal": func(l *zap.Logger) { l.Fatal("cannot read", zap.Error(cause), zap.Error(errors.New("second"))) },
		"panic": func(l *zap.Logger) { l.Panic("cannot read", zap.String("a", "b"), zap.Error(cause)) },
	} {
		lost, returned := make(chan error, 1), make(chan bool, 1)
		go func() {
			defer close(returned)
			write(etcdLogger(func(err error) { lost <- err }))
			returned <- true
		}()
		if <-returned {
			t.Errorf("%s: the goroutine continues", name)
		}
		if err := <-lost; !errors.Is(err, cause) || err.Error() != "cannot read: wal: crc mismatch" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for level, want := range map[zapcore.Level]bool{zapcore.InfoLevel: false, zapcore.WarnLevel: false, zapcore.ErrorLevel: true} {
		if got := (etcdCore{}).Enabled(level); got != want {
			t.Errorf("%s is logged: %v", level, got)
		}
	}
}
