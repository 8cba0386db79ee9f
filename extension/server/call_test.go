// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// do calls the server without a network.
func do(s *Server, path, body string, change ...func(*http.Request)) (int, string) {
	w := record(s, path, body, change...)
	return w.Code, w.Body.String()
}

func record(s *Server, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(key, value) }
}

func method(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }

func TestCallsThatBreakTheProtocolAreRefusedByName(t *testing.T) {
	t.Parallel()
	const typed = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateRequest"`
	tests := map[string]struct {
		path, body string
		change     func(*http.Request)
		wantCode   int
		want       string
		wantHeader [2]string
	}{
		"a path that is not served":   {path: "/nothing/here", wantCode: 404, want: "nothing is served at \"/nothing/here\"\nserved are:\n" + beforeCreate + "\n" + discoveryPath + "\n"},
		"a hook without its handler":  {path: "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate", wantCode: 404, want: beforeCreate},
		"a path with a longer suffix": {path: beforeCreate + "/", wantCode: 404, want: "nothing is served at"},
		"a GET":                       {change: method("GET"), wantCode: 405, want: "hooks are called with POST, not GET", wantHeader: [2]string{"Allow", "POST"}},
		"a GET of discovery":          {path: discoveryPath, change: method("GET"), wantCode: 405, want: "POST", wantHeader: [2]string{"Allow", "POST"}},
		"another content type":        {change: header("Content-Type", "text/plain"), wantCode: 415, want: `"text/plain"`},
		"a content type that is none": {change: header("Content-Type", ";;;"), wantCode: 415, want: `";;;"`},
		"a compressed body":           {change: header("Content-Encoding", "gzip"), wantCode: 415, want: `encoded as "gzip"`},
		"a timeout that is none":      {path: beforeCreate + "?timeout=soon", wantCode: 400, want: `the timeout "soon" is not a duration`},
		"a timeout of nothing":        {path: beforeCreate + "?timeout=0s", wantCode: 400, want: "the timeout 0s leaves no time"},
		"a timeout before":            {path: beforeCreate + "?timeout=-1s", wantCode: 400, want: "the timeout -1s leaves no time"},
		"a body too large, said so":   {body: strings.Repeat(" ", 301), wantCode: 413, want: "larger than 300 bytes"},
		"a body too large, not said":  {body: strings.Repeat(" ", 301), change: func(r *http.Request) { r.ContentLength = -1 }, wantCode: 413, want: "larger than 300 bytes"},
		"an empty body":               {body: " ", wantCode: 400, want: "the body is empty: send a BeforeClusterCreateRequest"},
		"null":                        {body: "null", wantCode: 400, want: "the body is not a JSON object"},
		"a list":                      {body: "[" + beforeCreateBody + "]", wantCode: 400, want: "the body is not a JSON object"},
		"broken JSON":                 {body: typed, wantCode: 400, want: "is not the JSON of a BeforeClusterCreateRequest: unexpected end of JSON input"},
		"trailing garbage":            {body: typed + "} }", wantCode: 400, want: "invalid character '}' after top-level value"},
		"a second request":            {body: typed + "}" + typed + "}", wantCode: 400, want: "after top-level value"},
		"a field of another type":     {body: typed + `,"cluster":{"spec":{"paused":"yes"}}}`, wantCode: 400, want: "cluster.spec.paused"},
		"an older version":            {body: `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha0","kind":"BeforeClusterCreateRequest"}`, wantCode: 400, want: `the apiVersion is "hooks.runtime.cluster.x-k8s.io/v1alpha0", but this path takes hooks.runtime.cluster.x-k8s.io/v1alpha1`},
		"another kind":                {body: `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterDeleteRequest"}`, wantCode: 400, want: `the kind is "BeforeClusterDeleteRequest", but this path takes BeforeClusterCreateRequest`},
		"another kind in other words": {body: `{"kind":"Cluster","settings":[]}`, wantCode: 400, want: `the kind is "Cluster"`},
		"discovery of another kind":   {path: discoveryPath, body: `{"kind":"Discovery"}`, wantCode: 400, want: `the kind is "Discovery", but this path takes DiscoveryRequest`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := creating(t, Options{MaxRequestBytes: 300}, func(context.Context, *createRequest, *createResponse) error {
				t.Error("the handler was called")
				return nil
			})
			if tc.path == "" {
				tc.path = beforeCreate
			}
			if tc.body == "" {
				tc.body = beforeCreateBody
			}
			w := record(s, tc.path, tc.body, func(r *http.Request) {
				if tc.change != nil {
					tc.change(r)
				}
			})
			if w.Code != tc.wantCode || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tc.wantCode, tc.want)
			}
			if got := w.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("the reason is %q", got)
			}
			if key := tc.wantHeader[0]; key != "" && w.Header().Get(key) != tc.wantHeader[1] {
				t.Errorf("%s: %q, want %q", key, w.Header().Get(key), tc.wantHeader[1])
			}
			if len(s.slots) != 0 {
				t.Error("the refused call keeps its slot")
			}
		})
	}
}

func TestWhatIsToleratedReachesTheHandler(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body   string
		change func(*http.Request)
	}{
		"what our client sends":      {body: beforeCreateBody},
		"unknown fields":             {body: strings.TrimSuffix(beforeCreateBody, "}") + `,"novelty":{"a":[1]},"settings":null}`},
		"no apiVersion and kind":     {body: `{"cluster":{"metadata":{"namespace":"ns","name":"c1"}}}`},
		"white space around":         {body: "\n " + beforeCreateBody + "\n"},
		"a character set":            {body: beforeCreateBody, change: header("Content-Type", "Application/JSON; charset=utf-8")},
		"an encoding that does none": {body: beforeCreateBody, change: header("Content-Encoding", "identity")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got createRequest
			s := creating(t, Options{}, func(_ context.Context, req *createRequest, _ *createResponse) error {
				got = *req
				return nil
			})
			code, text := do(s, beforeCreate, tc.body, func(r *http.Request) {
				if tc.change != nil {
					tc.change(r)
				}
			})
			if code != 200 || got.Cluster.Namespace != "ns" || got.Cluster.Name != "c1" || got.Kind != "BeforeClusterCreateRequest" || got.APIVersion != hooksv1.GroupVersion().String() {
				t.Errorf("code %d, got %s %s %s: %s", code, got.APIVersion, got.Kind, got.Cluster.Name, text)
			}
		})
	}
}

func TestTheAnswerSaysHowTheHandlerEnded(t *testing.T) {
	t.Parallel()
	var noMap map[string]string
	tests := map[string]struct {
		handle      func(*createResponse) error
		wantStatus  hooksv1.ResponseStatus
		wantMessage string
		wantRetry   int32
	}{
		"nothing set is a success":   {func(*createResponse) error { return nil }, "Success", "", 0},
		"a message and a wait":       {func(r *createResponse) error { r.Message, r.RetryAfterSeconds = "later", 5; return nil }, "Success", "later", 5},
		"a failure that says why":    {func(r *createResponse) error { r.Status, r.Message = "Failure", "over budget"; return nil }, "Failure", "over budget", 0},
		"a failure that does not":    {func(r *createResponse) error { r.Status = "Failure"; return nil }, "Failure", `handler "before-cluster-create" answered Failure and did not say why`, 0},
		"an error":                   {func(r *createResponse) error { r.RetryAfterSeconds = 5; return errors.New("ask the ledger: refused") }, "Failure", "ask the ledger: refused", 0},
		"a status there is not":      {func(r *createResponse) error { r.Status = "Maybe"; return nil }, "Failure", `handler "before-cluster-create" set the status "Maybe", which is neither Success nor Failure`, 0},
		"a wait that is negative":    {func(r *createResponse) error { r.RetryAfterSeconds = -3; return nil }, "Failure", `handler "before-cluster-create" set retryAfterSeconds to -3, which is negative`, 0},
		"another kind set":           {func(r *createResponse) error { r.Kind, r.APIVersion = "Other", "x/v1"; return nil }, "Success", "", 0},
		"a panic":                    {func(*createResponse) error { panic("a secret: hunter2") }, "Failure", `handler "before-cluster-create" panicked`, 0},
		"a panic of the runtime":     {func(*createResponse) error { noMap["x"] = "y"; return nil }, "Failure", `handler "before-cluster-create" panicked: assignment to entry in nil map`, 0},
		"the end of its goroutine":   {func(*createResponse) error { runtime.Goexit(); return nil }, "Failure", `handler "before-cluster-create" ended without an answer`, 0},
		"a panic that aborts":        {func(*createResponse) error { panic(http.ErrAbortHandler) }, "Failure", `handler "before-cluster-create" panicked`, 0},
		"a response larger than fit": {func(r *createResponse) error { r.Message = strings.Repeat("x", 2000); return nil }, "Failure", `the response of handler "before-cluster-create" has 2147 bytes, more than the 2000 that are allowed`, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := creating(t, Options{MaxRequestBytes: 2000, MaxConcurrent: 1}, func(_ context.Context, _ *createRequest, resp *createResponse) error {
				return tc.handle(resp)
			})
			for range 2 { // it still runs, and its only slot is free again
				w := record(s, beforeCreate, beforeCreateBody)
				if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "application/json" {
					t.Fatalf("code %d, content type %s: %s", w.Code, got, w.Body)
				}
				got := unmarshal[createResponse](t, w.Body.String())
				if got.Status != tc.wantStatus || got.Message != tc.wantMessage || got.RetryAfterSeconds != tc.wantRetry {
					t.Errorf("got %s %q %d, want %s %q %d", got.Status, got.Message, got.RetryAfterSeconds, tc.wantStatus, tc.wantMessage, tc.wantRetry)
				}
				if got.Kind != "BeforeClusterCreateResponse" || got.APIVersion != hooksv1.GroupVersion().String() {
					t.Errorf("the response is a %s %s", got.APIVersion, got.Kind)
				}
			}
		})
	}
}

func TestAResponseThatCannotBeEncodedIsAFailure(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Options{})
	err := Handle(s, hooksv1.DiscoverVariables, func(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, resp *hooksv1.DiscoverVariablesResponse) error {
		resp.Variables = []clusterv1.ClusterClassVariable{{Name: "x", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Default: &apiextensionsv1.JSON{Raw: []byte("{")}}}}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	code, text := do(s, "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovervariables/discover-variables", `{}`)
	got := unmarshal[hooksv1.DiscoverVariablesResponse](t, text)
	if code != 200 || got.Status != hooksv1.ResponseStatusFailure || !strings.HasPrefix(got.Message, `encode the response of handler "discover-variables": `) || len(got.Variables) != 0 {
		t.Errorf("code %d: %s", code, text)
	}
}

func TestTheContextOfACallEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		query string
		opts  []HandlerOption
		want  time.Duration
	}{
		"no timeout is set":             {"", nil, 10 * time.Second},
		"the caller says":               {"?timeout=3s", nil, 3 * time.Second},
		"the caller says more than all": {"?timeout=1h", nil, 30 * time.Second},
		"the handler says":              {"", []HandlerOption{Timeout(20 * time.Second)}, 20 * time.Second},
		"the handler says less":         {"?timeout=10s", []HandlerOption{Timeout(4 * time.Second)}, 4 * time.Second},
		"the caller says less":          {"?timeout=150ms", []HandlerOption{Timeout(4 * time.Second)}, 150 * time.Millisecond},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := creating(t, Options{}, func(ctx context.Context, _ *createRequest, _ *createResponse) error {
					<-ctx.Done()
					return ctx.Err()
				}, tc.opts...)
				began := time.Now()
				code, text := do(s, beforeCreate+tc.query, beforeCreateBody)
				if took := time.Since(began); took != tc.want {
					t.Errorf("it took %s, want %s", took, tc.want)
				}
				got := unmarshal[createResponse](t, text)
				if want := `handler "before-cluster-create" did not answer within ` + tc.want.String(); code != 200 || got.Status != hooksv1.ResponseStatusFailure || got.Message != want {
					t.Errorf("code %d, got %s %q, want %q", code, got.Status, got.Message, want)
				}
			})
		})
	}
}

func TestAHandlerThatIgnoresItsDeadlineKeepsItsSlotAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := creating(t, Options{MaxConcurrent: 1}, func(_ context.Context, req *createRequest, resp *createResponse) error {
			<-release
			req.Cluster.Name, resp.Message = "changed", "too late" // these are no longer read
			return nil
		})
		code, text := do(s, beforeCreate+"?timeout=1s", beforeCreateBody)
		if got := unmarshal[createResponse](t, text); code != 200 || got.Message != `handler "before-cluster-create" did not answer within 1s` {
			t.Errorf("code %d: %s", code, text)
		}
		w := record(s, beforeCreate, beforeCreateBody)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "1 calls are being worked on") {
			t.Errorf("beyond the limit: %d %s, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if code, text := do(s, discoveryPath, discoveryBody); code != 200 {
			t.Errorf("discovery at the limit: %d %s", code, text)
		}
		close(release)
		synctest.Wait()
		if code, text := do(s, beforeCreate, beforeCreateBody); code != 200 {
			t.Errorf("after the handler ended: %d %s", code, text)
		}
	})
}

func TestManyCallsAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{}, func(_ context.Context, req *createRequest, resp *createResponse) error {
		resp.Message = req.Cluster.Name
		return nil
	})
	results := make(chan string)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		go func() {
			body, _ := json.Marshal(createRequest{Cluster: clusterv1.Cluster{ObjectMeta: objectMeta("ns", name)}})
			_, text := do(s, beforeCreate, string(body))
			if strings.Contains(text, `"message":"`+name+`"`) {
				text = ""
			}
			results <- text
		}()
	}
	for range names {
		if text := <-results; text != "" {
			t.Errorf("got %s", text)
		}
	}
}
