// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func config(name string, discovered metav1.ConditionStatus, message string, handlers ...string) *runtimev1.ExtensionConfig {
	c := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.ClientConfig.URL = "https://host:9443"
	if discovered != "" {
		c.Status.Conditions = []metav1.Condition{{Type: runtimev1.ExtensionConfigDiscoveredCondition, Status: discovered, Message: message}}
	}
	for _, h := range handlers {
		c.Status.Handlers = append(c.Status.Handlers, runtimev1.ExtensionHandler{
			Name:        h + "." + name,
			RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: "BeforeClusterCreate"},

			TimeoutSeconds: 10, FailurePolicy: runtimev1.FailurePolicyFail,
		})
	}
	return c
}

func TestTheListShowsWhatIsKnown(t *testing.T) {
	t.Parallel()
	calls := map[callKey]*callInfo{
		{"", "good"}:       {Total: 2, P50Seconds: 0.002, P99Seconds: 0.003},
		{"", "bad"}:        {Total: 7, Failed: 7, LastError: "refused", LastErrorTime: now, P50Seconds: 0.001, P99Seconds: 0.001},
		{"b.good", "good"}: {Total: 12, Failed: 1, LastError: "server host:9443: dial tcp:\nconnection refused", LastErrorTime: now.Add(-90 * time.Second), P50Seconds: 0.0004, P99Seconds: 1.2345},
		{"a.good", "good"}: {},
	}
	old := describe(config("old", metav1.ConditionTrue, "", "a"), nil)
	old.Handlers[0].Deprecated = "it will go"
	tests := map[string]struct {
		list []extensionInfo
		want string
	}{
		"handlers by name, with how their calls went": {
			[]extensionInfo{describe(config("good", metav1.ConditionTrue, "", "b", "a"), calls)}, `
good https://host:9443 True - Discovery/v1alpha1 10s - 2 0 2ms 3ms -
good https://host:9443 True a.good BeforeClusterCreate/v1alpha1 10s Fail 0 0 - - -
good https://host:9443 True b.good BeforeClusterCreate/v1alpha1 10s Fail 12 1 400µs 1.23s 90s ago: server host:9443: dial tcp: connection refused`,
		},
		"calls without counts, and a version will be removed": {
			[]extensionInfo{old}, `
old https://host:9443 True - Discovery/v1alpha1 10s - - - - - -
old https://host:9443 True a.old BeforeClusterCreate/v1alpha1 (deprecated) 10s Fail - - - - -`,
		},
		"nothing is known yet": {
			[]extensionInfo{describe(config("new", "", ""), nil)}, `
new https://host:9443 Unknown - Discovery/v1alpha1 10s - - - - - -`,
		},
		"known facts stay next to the current error": {
			[]extensionInfo{describe(config("bad", metav1.ConditionFalse, "discover the handlers of ExtensionConfig bad: server host:9443: refused", "a"), calls)}, `
bad https://host:9443 False - Discovery/v1alpha1 10s - 7 7 1ms 1ms server host:9443: refused
bad https://host:9443 False a.bad BeforeClusterCreate/v1alpha1 10s Fail - - - - -`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := writeList(&command.Env{Out: &out, Now: func() time.Time { return now }}, tc.list); err != nil {
				t.Fatal(err)
			}
			var rows strings.Builder
			for line := range strings.Lines(out.String()) {
				if !strings.HasPrefix(line, "CONFIG") {
					rows.WriteString("\n" + strings.Join(strings.Fields(line), " "))
				}
			}
			if diff := cmp.Diff(tc.want, rows.String()); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheListForProgramsIsAContract(t *testing.T) {
	t.Parallel()
	c := config("good", metav1.ConditionTrue, "", "a")
	c.Spec.Settings = map[string]string{"k": "v"}
	calls := map[callKey]*callInfo{{"", "good"}: {Total: 1}, {"a.good", "good"}: {Total: 2, Failed: 1, Last: now, LastError: "refused", LastErrorTime: now, P50Seconds: 0.5, P99Seconds: 1}}
	got, err := json.Marshal(describe(c, calls))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"good","address":"https://host:9443","discovered":"True","settings":{"k":"v"},"handlers":[` +
		`{"name":"a.good","hook":"BeforeClusterCreate","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","timeoutSeconds":10,"failurePolicy":"Fail",` +
		`"calls":{"total":2,"failed":1,"last":"2026-01-02T03:04:05Z","lastError":"refused","lastErrorTime":"2026-01-02T03:04:05Z","p50Seconds":0.5,"p99Seconds":1}}],` +
		`"discovery":{"total":1,"failed":0,"p50Seconds":0,"p99Seconds":0}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestAnAPIServerMayNotKnowHowCallsWent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status        int
		body          string
		want          map[callKey]*callInfo
		unknown, fail string
	}{
		"one of ours": {http.StatusOK, `[{"handler":"a.good","config":"good","calls":2,"failures":1,"lastError":"refused","p50Seconds":0.5,"p99Seconds":1}]`,
			map[callKey]*callInfo{{"a.good", "good"}: {Total: 2, Failed: 1, LastError: "refused", P50Seconds: 0.5, P99Seconds: 1}}, "", ""},
		"another":             {http.StatusNotFound, "404 page not found", nil, "the controllers run elsewhere", ""},
		"without controllers": {http.StatusServiceUnavailable, "the controllers do not run yet", nil, "do not run", ""},
		"with little rights":  {http.StatusForbidden, "forbidden", nil, "may not read", ""},
		"in trouble":          {http.StatusInternalServerError, "oh", nil, "", "ask the API server how calls went"},
		"talking rubbish":     {http.StatusOK, "<html>", nil, "", "read how calls went from the API server"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != statsPath {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(server.Close)
			raw, err := command.RawClient(&rest.Config{Host: server.URL}, runtime.NewScheme())
			if err != nil {
				t.Fatal(err)
			}
			got, unknown, err := (&mgmt{raw: raw}).calls(t.Context())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if !strings.Contains(unknown, tc.unknown) || (unknown == "") != (tc.unknown == "") {
				t.Errorf("unknown because %q, want %q", unknown, tc.unknown)
			}
			if (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("error %v, want one with %q", err, tc.fail)
			}
		})
	}
}

func TestAServiceIsWrittenInOneWord(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want runtimev1.ServiceReference
		err  string
	}{
		"the least":              {"ns/name", runtimev1.ServiceReference{Namespace: "ns", Name: "name", Port: new(int32(443))}, ""},
		"everything":             {"ns/name:8443/a/b", runtimev1.ServiceReference{Namespace: "ns", Name: "name", Port: new(int32(8443)), Path: "/a/b"}, ""},
		"a path and no port":     {"ns/name/a:b", runtimev1.ServiceReference{Namespace: "ns", Name: "name", Port: new(int32(443)), Path: "/a:b"}, ""},
		"no namespace":           {"name", runtimev1.ServiceReference{}, "the namespace is missing"},
		"an empty namespace":     {"/name", runtimev1.ServiceReference{}, "the namespace is missing"},
		"no name":                {"ns/", runtimev1.ServiceReference{}, "the name is missing"},
		"port 0":                 {"ns/name:0", runtimev1.ServiceReference{}, `port "0" is no number`},
		"a port that is no port": {"ns/name:https", runtimev1.ServiceReference{}, `port "https" is no number`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseService(tc.text)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v, service (-want +got):\n%s", err, diff)
			}
		})
	}
}
