// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	ctrl "sigs.k8s.io/controller-runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// counted returns the number of requests by code.
func (w *world) counted(t testing.TB) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, m := range w.series(t, "capi_runtime_sdk_requests_total") {
		out[label(m, "code")] += m.GetCounter().GetValue()
	}
	return out
}

func (w *world) series(t testing.TB, name string) []*dto.Metric {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func TestSeriesOfAHostGoWithItsLastConfig(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	hosts := func(want ...string) {
		t.Helper()
		for _, name := range []string{"capi_runtime_sdk_requests_total", "capi_runtime_sdk_request_duration_seconds"} {
			got := map[string]bool{}
			for _, m := range w.series(t, name) {
				got[label(m, "host")] = true
			}
			if len(got) != len(want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
			for _, host := range want {
				if !got[host] {
					t.Errorf("%s: got %v, want %s in it", name, got, host)
				}
			}
		}
	}
	host := strings.TrimPrefix(e.URL, "https://")
	w.set(t, e.config("a", handles("h", "BeforeClusterCreate")), e.config("b"))
	if _, err := w.create(t); err != nil {
		t.Fatal(err)
	}
	hosts(host)
	w.registry.Remove("a")
	hosts(host) // b still exists
	w.registry.Remove("b")
	hosts()

	// A config that was never registered leaves nothing either.
	if _, err := w.Discover(t.Context(), e.config("c")); err != nil {
		t.Fatal(err)
	}
	hosts(host)
	w.registry.Remove("c")
	hosts()

	// Metrics of an extension with a new address follow it.
	w.set(t, e.config("d", handles("h", "BeforeClusterCreate")))
	other := serve(t, success)
	if _, err := w.Discover(t.Context(), other.config("d")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.create(t); err != nil {
		t.Fatal(err)
	}
	hosts(host, strings.TrimPrefix(other.URL, "https://"))
	w.set(t, other.config("d", handles("h", "BeforeClusterCreate")))
	hosts(strings.TrimPrefix(other.URL, "https://"))
}

func TestMetricsOfACallThatOutlivesItsConfigAreNotKept(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
	h, err := w.registry.named("h.ext")
	if err != nil {
		t.Fatal(err)
	}
	w.registry.Remove("ext")
	w.Client.metrics.record(&h.target, "200", 1)
	if got := w.counted(t); len(got) != 0 {
		t.Errorf("got %v, want no series", got)
	}
}

func TestDeprecatedHandlersAreCounted(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, success)
	counted := func(what string, want float64) {
		t.Helper()
		series := w.series(t, "capi_runtime_sdk_deprecated_handlers")
		if want == 0 && len(series) == 0 {
			return
		}
		if len(series) != 1 || label(series[0], "hook") != "BeforeClusterUpgrade" || label(series[0], "version") != "v1alpha1" || series[0].GetGauge().GetValue() != want {
			t.Errorf("%s: got %v, want %v of the older BeforeClusterUpgrade", what, series, want)
		}
	}
	newer := handles("n", "BeforeClusterUpgrade")
	newer.RequestHook.APIVersion = v1alpha2
	w.set(t, e.config("a", handles("h", "BeforeClusterUpgrade"), handles("c", "BeforeClusterCreate"), newer))
	counted("one", 1)
	w.set(t, e.config("b", handles("h", "BeforeClusterUpgrade")))
	counted("two", 2)
	w.registry.Remove("a")
	counted("one was removed", 1)
	w.registry.Remove("b")
	counted("none is left", 0)
}

func TestTwoClientsShareMetrics(t *testing.T) {
	t.Parallel()
	a := newWorld(t)
	b := newWorld(t, func(o *Options) { o.Metrics = a.metrics })
	if a.Client.metrics.requests != b.Client.metrics.requests {
		t.Error("the second client counts elsewhere")
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := make(chan string, 3)
	e := serveFunc(t, func(rw http.ResponseWriter, r *http.Request) {
		w.clock.Step(250 * time.Millisecond)
		write(200, <-answer)(rw, r)
	})
	w.set(t, e.config("ext", ignoring(handles("h", "BeforeClusterCreate"))), e.config("a", handles("never", "GeneratePatches")))
	start := w.clock.Now()
	for _, a := range []string{success, `{"status":"` + strings.Repeat("x", 600) + `"}`, success} {
		answer <- a
		if _, err := w.create(t); err != nil {
			t.Fatal(err)
		}
	}
	host := strings.TrimPrefix(e.URL, "https://")
	want := []HandlerStats{
		{Handler: "never.a", Config: "a", APIVersion: v1alpha1, Hook: "GeneratePatches", Host: host, FailurePolicy: "Fail", TimeoutSeconds: 10},
		{
			Handler: "h.ext", Config: "ext", APIVersion: v1alpha1, Hook: "BeforeClusterCreate", Host: host, FailurePolicy: "Ignore", TimeoutSeconds: 10,
			Calls: 3, Failures: 1, LastErrorTime: start.Add(250 * time.Millisecond), LastCall: start.Add(500 * time.Millisecond), P50Seconds: 0.25, P99Seconds: 0.25,
			LastError: `the answer has status "` + strings.Repeat("x", 97) + `…": want Success or Failure`,
		},
	}
	slices.SortFunc(want, func(a, b HandlerStats) int { return strings.Compare(a.Handler, b.Handler) })
	if diff := cmp.Diff(want, w.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}

	// They survive a change of the config, but not its removal.
	changed := e.config("ext", handles("h", "BeforeClusterCreate"))
	changed.Generation = 2
	w.set(t, changed)
	if got := w.Stats()[0]; got.Calls != 3 || got.FailurePolicy != "Fail" {
		t.Errorf("after a change: got %+v, want 3 calls", got)
	}
	w.registry.Remove("ext")
	w.set(t, changed)
	if got := w.Stats()[0]; got.Calls != 0 {
		t.Errorf("after a removal: got %+v, want no calls", got)
	}
}

func TestStatsCountDiscoveriesUntilConfigIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := make(chan string, 2)
	e := serveFunc(t, func(rw http.ResponseWriter, r *http.Request) {
		w.clock.Step(100 * time.Millisecond)
		write(200, <-answer)(rw, r)
	})
	start := w.clock.Now()
	for i, a := range []string{success, `{"status":"Failure","message":"no licence"}`} {
		answer <- a
		if _, err := w.Discover(t.Context(), e.config("ext")); (err != nil) != (i == 1) {
			t.Fatal(err)
		}
	}
	want := []HandlerStats{{
		Config: "ext", APIVersion: v1alpha1, Hook: "Discovery", Host: strings.TrimPrefix(e.URL, "https://"), TimeoutSeconds: 10,
		Calls: 2, Failures: 1, LastError: "the extension answered Failure: no licence", LastErrorTime: start.Add(100 * time.Millisecond),
		LastCall: start.Add(100 * time.Millisecond), P50Seconds: 0.1, P99Seconds: 0.1,
	}}
	if diff := cmp.Diff(want, w.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	w.registry.Remove("ext")
	if got := w.Stats(); len(got) != 0 {
		t.Errorf("after the removal: %+v", got)
	}
}

func TestStatsLatenciesAreOfTheLastCalls(t *testing.T) {
	t.Parallel()
	s := &stats{}
	for i := range window {
		s.record(time.Unix(0, 0), time.Duration(i+1)*time.Second, nil)
	}
	if got := s.read(); got.P50Seconds != 64 || got.P99Seconds != 127 {
		t.Errorf("a full window: got %v and %v, want 64 and 127", got.P50Seconds, got.P99Seconds)
	}
	for range window {
		s.record(time.Unix(0, 0), time.Second, nil)
	}
	if got := s.read(); got.P99Seconds != 1 || got.Calls != 2*window || len(s.took) != window {
		t.Errorf("after as many again: got %+v, want all of 1 s", got)
	}
	first := []bool{s.record(time.Unix(0, 0), 1, io.EOF), s.record(time.Unix(0, 0), 1, io.EOF), s.record(time.Unix(0, 0), 1, nil), s.record(time.Unix(0, 0), 1, io.EOF)}
	if !slices.Equal(first, []bool{true, false, false, true}) {
		t.Errorf("first of a row of failures: got %v", first)
	}
}

func TestEachCallIsOneSpan(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	w := newWorld(t, func(o *Options) { o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)) })
	e := serve(t, `{"status":"Failure","message":"no quota"}`)
	w.set(t, e.config("ext", handles("h", "BeforeClusterCreate")))
	if _, err := w.create(t); err == nil {
		t.Fatal("want a Failure")
	}
	spans := recorder.Ended()
	if len(spans) != 1 {
		t.Fatalf("got %d spans, want 1", len(spans))
	}
	got := map[string]string{"status": spans[0].Status().Description}
	for _, a := range spans[0].Attributes() {
		got[string(a.Key)] = a.Value.AsString()
	}
	want := map[string]string{
		"capstan.hook": v1alpha1 + "/BeforeClusterCreate", "capstan.handler": "h.ext", "capstan.outcome": "200",
		"server.address": strings.TrimPrefix(e.URL, "https://"), "status": "the extension answered Failure: no quota",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("span (-want +got):\n%s", diff)
	}
}

// TestStatsAsJSON checks what the plane serves and the command line reads.
func TestStatsAsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for want, stats := range map[string]HandlerStats{
		`{"handler":"h.ext","config":"ext","apiVersion":"g/v1","hook":"Hook","host":"h:1","failurePolicy":"Fail","timeoutSeconds":10,"calls":0,"failures":0,"p50Seconds":0,"p99Seconds":0}`: {
			Handler: "h.ext", Config: "ext", APIVersion: "g/v1", Hook: "Hook", Host: "h:1", FailurePolicy: "Fail", TimeoutSeconds: 10,
		},
		`{"handler":"h.ext","config":"ext","apiVersion":"g/v1","hook":"Hook","deprecated":true,"host":"h:1","failurePolicy":"Ignore","timeoutSeconds":5,"calls":2,"failures":1,"lastError":"no","lastErrorTime":"2026-11-20T12:00:00Z","lastCall":"2026-11-20T12:00:00Z","p50Seconds":0.5,"p99Seconds":1}`: {
			Handler: "h.ext", Config: "ext", APIVersion: "g/v1", Hook: "Hook", Deprecated: true, Host: "h:1", FailurePolicy: "Ignore", TimeoutSeconds: 5,
			Calls: 2, Failures: 1, LastError: "no", LastErrorTime: at, LastCall: at, P50Seconds: 0.5, P99Seconds: 1,
		},
	} {
		got, err := json.Marshal(stats)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestIgnoredFailuresAreLoggedLoudlyOnce(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), serve(t, `{}`)
	w.set(t, e.config("ext", ignoring(handles("h", "BeforeClusterCreate"))))
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
	for range 2 {
		err := w.CallAllExtensions(ctrl.LoggerInto(t.Context(), log), hooksv1.BeforeClusterCreate, demo(), &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
		if err != nil {
			t.Fatal(err)
		}
	}
	line := `"msg"="Ignoring an extension that gave no usable answer" "handler"="h.ext" "hook"="BeforeClusterCreate" "reason"="the answer has no status: want Success or Failure"`
	if diff := cmp.Diff([]string{`"level"=0 ` + line, `"level"=2 ` + line}, lines); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
