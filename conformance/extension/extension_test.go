// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/conformance/extension"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestGoodExtensionPassesEverything(t *testing.T) {
	t.Parallel()
	r := extension.Run(t.Context(), serve(t, good(t)))
	if r.Err() != nil || r.Skipped != 0 {
		t.Errorf("%v, %d skipped", r.Err(), r.Skipped)
	}
	checked := map[string]bool{}
	for _, res := range r.Results {
		checked[res.Check] = true
		if res.Outcome != extension.Passed {
			t.Error(res.Outcome, res)
		}
	}
	for _, c := range extension.Checks() {
		if !checked[c.Name] {
			t.Errorf("%q was not checked", c.Name)
		}
	}
}

// TestSuitePassesTolerantExtension is about servers such as those with
// Cluster API's own package: they check neither the method nor the content type
// nor the kind, answer what they cannot decode with a Failure, and do not set the
// content type of their answers.
func TestSuitePassesTolerantExtension(t *testing.T) {
	t.Parallel()
	r := extension.Run(t.Context(), serve(t, lax(good(t))))
	if r.Err() != nil || r.Skipped != 0 || r.Advised == 0 {
		t.Errorf("%v, %d skipped, %d advised", r.Err(), r.Skipped, r.Advised)
	}
	for _, res := range r.Results {
		if want := advice(res.Check); (res.Outcome == extension.Advised) != want {
			t.Errorf("%s: %s", res, res.Outcome)
		}
	}
}

func lax(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var fields map[string]any
		if json.Unmarshal(body, &fields) == nil {
			delete(fields, "kind")
			delete(fields, "apiVersion")
			body, _ = json.Marshal(fields)
		}
		in := httptest.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.RequestURI(), bytes.NewReader(body))
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, in)
		if rec.Code == http.StatusBadRequest {
			rec.Code, rec.Body = http.StatusOK, bytes.NewBufferString(`{"status":"Failure","message":"that cannot be read"}`)
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

func files(t *testing.T, cert tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestSuiteEndsWithAnyServer leaves no goroutine behind: httptest waits
// for its connections, and the clean-up of a listener for what it accepted.
func TestSuiteEndsWithAnyServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Go(func() { // sends nothing until the other side disconnects
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			})
		}
	})
	r := extension.Run(t.Context(), extension.Config{URL: "https://" + listener.Addr().String(), Timeout: 200 * time.Millisecond})
	wantOneFailure(t, r, certificateVerified, "no TLS connection within 200ms: ")
	_ = listener.Close()
	accepted.Wait()
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, good(t))
	c.Progress = func(r extension.Result) {
		if strings.HasPrefix(r.Check, "Discovery gives") {
			cancel(errors.New("Ctrl-C"))
		}
	}
	r := extension.Run(ctx, c)
	if r.Problem != "the run was ended: Ctrl-C" || r.Err() == nil {
		t.Errorf("problem %q, error %v", r.Problem, r.Err())
	}
	if r.Passed != 4 || r.Failed != 0 || len(r.Results) < len(extension.Checks()) {
		t.Errorf("%d passed, %d failed, %d in all: want the first four passed and the rest skipped", r.Passed, r.Failed, len(r.Results))
	}
	last := r.Results[len(r.Results)-1]
	if last.Outcome != extension.Skipped || !strings.Contains(last.Problem, "the run was ended") {
		t.Errorf("the last result is %s %q", last.Outcome, last.Problem)
	}
}

// recorder records the paths and bodies of calls.
type recorder struct {
	mu     sync.Mutex
	bodies map[string][]string // by path
}

func (r *recorder) middleware(next http.Handler) http.Handler {
	r.bodies = map[string][]string{}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		r.mu.Lock()
		r.bodies[req.URL.Path] = append(r.bodies[req.URL.Path], body.String())
		r.mu.Unlock()
		req.Body = http.NoBody
		if body.Len() > 0 {
			req.Body = struct {
				*bytes.Reader
				nothing
			}{bytes.NewReader(body.Bytes()), nothing{}}
		}
		next.ServeHTTP(w, req)
	})
}

type nothing struct{}

func (nothing) Close() error { return nil }

// of returns the bodies sent to a hook that are JSON.
func (r *recorder) of(hook string) (bodies []string) {
	for path, all := range r.bodies {
		if strings.Contains(path, "/"+strings.ToLower(hook)) {
			for _, body := range all {
				if json.Valid([]byte(body)) {
					bodies = append(bodies, body)
				}
			}
		}
	}
	return bodies
}

func TestOnlyTheHooksAskedForAreCalled(t *testing.T) {
	t.Parallel()
	var r recorder
	c := serve(t, r.middleware(good(t)))
	c.Hooks = []string{"discovervariables"}
	if err := extension.Run(t.Context(), c).Err(); err != nil {
		t.Error(err)
	}
	for path := range r.bodies {
		if !strings.Contains(path, "/discover") && !strings.Contains(path, "conformance") {
			t.Errorf("%s was called", path)
		}
	}
	if len(r.of("DiscoverVariables")) == 0 {
		t.Error("DiscoverVariables was not called")
	}
}

func TestSettingsAndRequestsAreThoseGiven(t *testing.T) {
	t.Parallel()
	var r recorder
	c := serve(t, r.middleware(good(t)))
	c.Name = "mine"
	c.Hooks = []string{create, initialized}
	c.Settings = map[string]string{"color": "blue", "size": "9"}
	c.Requests = map[string][]byte{
		"before-cluster-create.mine":   []byte("cluster: {metadata: {name: from-handler}}\nsettings: {size: '10'}"),
		create:                         []byte(`{"cluster": {"metadata": {"name": "from-hook"}}}`),
		"aftercontrolplaneinitialized": []byte(`{"cluster": {"metadata": {"name": "from-hook"}}}`),
	}
	if err := extension.Run(t.Context(), c).Err(); err != nil {
		t.Error(err)
	}
	for hook, want := range map[string][]string{
		create:      {`"from-handler"`, `"color":"blue"`, `"size":"10"`},
		initialized: {`"from-hook"`, `"color":"blue"`, `"size":"9"`},
	} {
		for _, body := range r.of(hook) {
			if !strings.Contains(body, `"kind":"`+hook+`Request"`) {
				continue // it is meant to be wrong
			}
			for _, w := range want {
				if !strings.Contains(body, w) {
					t.Errorf("%s was sent %s, want %s", hook, body, w)
				}
			}
		}
	}
	for _, body := range r.of("discovery") {
		if strings.Contains(body, "blue") {
			t.Errorf("discovery was sent settings: %s", body)
		}
	}
}

func TestConfigMistakesAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config extension.Config
		want   []string
	}{
		"nothing is given":         {extension.Config{}, []string{"url"}},
		"several things are wrong": {extension.Config{URL: "https://me:secret@host", Name: "A_B", Timeout: -1, Hooks: []string{"BeforeTea"}}, []string{"url", "A_B", "timeout", "BeforeTea"}},
		"the CA bundle is none":    {extension.Config{URL: "https://host", CABundle: []byte("x")}, []string{"CA bundle"}},
		"a key file is missing":    {extension.Config{URL: "https://host", ClientCertFile: "/nowhere"}, []string{"client certificate"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := extension.Run(t.Context(), tc.config)
			for _, want := range tc.want {
				if !strings.Contains(r.Problem, want) || r.Err() == nil {
					t.Errorf("problem %q, want something with %q", r.Problem, want)
				}
			}
			if strings.Contains(r.Problem, "secret") {
				t.Errorf("problem %q holds a password", r.Problem)
			}
		})
	}
}

func TestBrokenRequestIsNotTheExtensionsFault(t *testing.T) {
	t.Parallel()
	c := serve(t, good(t))
	c.Hooks, c.Requests = []string{create}, map[string][]byte{create: []byte("[")}
	r := extension.Run(t.Context(), c)
	if !strings.Contains(r.Problem, "request BeforeClusterCreate") || len(r.Results) > 0 {
		t.Errorf("problem %q, %d results: want the request to be refused before anything is called", r.Problem, len(r.Results))
	}
}

func TestSuiteRefusesRequestWithoutHandlerBeforeCalls(t *testing.T) {
	t.Parallel()
	var rec recorder
	c := serve(t, rec.middleware(good(t)))
	c.Requests = map[string][]byte{"before-cluster-crate": []byte("{}"), "before-cluster-create.extension": []byte("{}"), "generatepatches": []byte("{}")}
	r := extension.Run(t.Context(), c)
	if want := "request before-cluster-crate: there is no such handler or hook"; r.Problem != want {
		t.Errorf("problem %q, want %q", r.Problem, want)
	}
	if len(rec.of(create)) > 0 {
		t.Error("a handler was called")
	}
}

// TestBuiltInRequestsAreWhatTheirHooksTake decodes them strictly.
func TestBuiltInRequestsAreWhatTheirHooksTake(t *testing.T) {
	t.Parallel()
	c := catalog.Default()
	for _, d := range c.Hooks() {
		if d.Singleton {
			continue
		}
		text, err := extension.Request(d.GroupVersionHook)
		if err != nil {
			t.Error(err)
			continue
		}
		req, err := c.NewRequest(d.GroupVersionHook)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(req); err != nil {
			t.Errorf("%s: %v", d.Hook, err)
		}
		if d.Hook != "DiscoverVariables" && !bytes.Contains(text, []byte(extension.ClusterName)) {
			t.Errorf("%s: it does not say that it is about %s", d.Hook, extension.ClusterName)
		}
	}
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	c := serve(t, answers(create, func(c *call) { c.answer["retryAfterSeconds"] = -1 })(good(t)))
	c.Hooks = []string{create}
	r := extension.Run(t.Context(), c)
	r.URL = "https://127.0.0.1:9443"
	for i := range r.Results {
		r.Results[i].Duration = metav1.Duration{Duration: 12 * time.Millisecond}
	}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	builder.Golden(t, "report.json", append(got, '\n'))
}

// fakeTest is a test that is not one, so that it may fail.
type fakeTest struct {
	ctx                   context.Context
	name                  string
	said, logged, skipped []string
	children              []*fakeTest
}

func (f *fakeTest) Helper()                  {}
func (f *fakeTest) Context() context.Context { return f.ctx }
func (f *fakeTest) Fatal(...any)             { f.said = append(f.said, "fatal") }
func (f *fakeTest) Errorf(string, ...any)    { f.said = append(f.said, "error") }
func (f *fakeTest) Logf(string, ...any)      { f.logged = append(f.logged, f.name) }
func (f *fakeTest) Skip(...any)              { f.skipped = append(f.skipped, f.name) }
func (f *fakeTest) Run(name string, g func(*fakeTest)) bool {
	child := &fakeTest{ctx: f.ctx, name: name}
	g(child)
	f.children = append(f.children, child)
	return len(child.said) == 0
}

func TestTestHasASubtestForEachResult(t *testing.T) {
	t.Parallel()
	c := serve(t, answers(create, func(c *call) { c.answer["retryAfterSeconds"] = -1 })(good(t)))
	c.Hooks = []string{create}
	f := &fakeTest{ctx: t.Context()}
	extension.Test(f, c)
	i := slices.IndexFunc(f.children, func(c *fakeTest) bool { return len(c.said) > 0 })
	if want := "The answer of a blocking hook says by retryAfterSeconds when to ask again/before-cluster-create.extension"; i < 0 || f.children[i].name != want {
		t.Errorf("subtest %d failed, want %q", i, want)
	}
	if len(f.children) != len(extension.Run(t.Context(), c).Results) {
		t.Errorf("%d subtests", len(f.children))
	}
	c = serve(t, requests(create, asJSON)(good(t)))
	c.Hooks = []string{create}
	f = &fakeTest{ctx: t.Context()}
	extension.Test(f, c)
	i = slices.IndexFunc(f.children, func(c *fakeTest) bool { return len(c.logged) > 0 })
	if want := "A request whose content type is not JSON is refused/before-cluster-create.extension"; i < 0 || f.children[i].name != want || len(f.children[i].said) > 0 {
		t.Errorf("subtest %d has advice, want %q, which passes", i, want)
	}
	f = &fakeTest{ctx: t.Context()}
	extension.Test(f, extension.Config{})
	if !slices.Contains(f.said, "fatal") {
		t.Error("a test without a server did not end")
	}
}

func TestExtensionOfAnAuthorIsTested(t *testing.T) {
	t.Parallel()
	c := serve(t, good(t))
	c.Hooks = hooksOfGood
	extension.Test(t, c)
}
