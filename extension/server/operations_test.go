// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHealthIsServedWithTheCallsToo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path string
		stopping     bool
		wantCode     int
		want         string
	}{
		"healthy":                   {"GET", "/healthz", false, 200, "ok\n"},
		"healthy while it stops":    {"GET", "/healthz", true, 200, "ok\n"},
		"ready":                     {"GET", "/readyz", false, 200, "ok\n"},
		"not ready while it stops":  {"HEAD", "/readyz", true, 503, "stopping\n"},
		"health is not for posting": {"POST", "/healthz", false, 405, "health is asked for with GET\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := creating(t, Options{}, agree)
			s.stopping.Store(tc.stopping)
			for _, h := range []http.Handler{s, s.operations()} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
				if w.Code != tc.wantCode || w.Body.String() != tc.want {
					t.Errorf("got %d %q, want %d %q", w.Code, w.Body, tc.wantCode, tc.want)
				}
			}
		})
	}
}

func TestMetricsCountCallsByResult(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0", OperationsAddress: "127.0.0.1:0"}, func(_ context.Context, req *createRequest, _ *createResponse) error {
		if req.Cluster.Name != "c1" {
			return errors.New("not that one")
		}
		return nil
	})
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "budget_left"})
	s.Metrics().MustRegister(own)
	start(t, s)
	do(s, beforeCreate, beforeCreateBody)
	do(s, beforeCreate, beforeCreateBody)
	do(s, beforeCreate, "{}")
	do(s, beforeCreate, "")
	do(s, "/nothing", "")
	code, text := get(t, s.OperationsURL()+"/metrics")
	for _, want := range []string{
		`capi_extension_server_requests_total{code="200",handler="before-cluster-create",hook="BeforeClusterCreate",status="Success"} 2`,
		`capi_extension_server_requests_total{code="200",handler="before-cluster-create",hook="BeforeClusterCreate",status="Failure"} 1`,
		`capi_extension_server_requests_total{code="400",handler="before-cluster-create",hook="BeforeClusterCreate",status=""} 1`,
		`capi_extension_server_requests_total{code="404",handler="",hook="",status=""} 1`,
		`capi_extension_server_request_duration_seconds_count{handler="before-cluster-create",hook="BeforeClusterCreate"} 4`,
		`capi_extension_server_requests_in_flight{handler="before-cluster-create",hook="BeforeClusterCreate"} 0`,
		"budget_left 0",
		"go_goroutines ",
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in %d\n%s", want, code, text)
		}
	}
	if code, _ := get(t, s.OperationsURL()+"/metrics/other"); code != http.StatusNotFound {
		t.Errorf("another path: %d", code)
	}
}

func TestInFlightCountsWhatIsWorkedOn(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	s := creating(t, Options{}, w.handle)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(s, beforeCreate, beforeCreateBody)
	}()
	<-w.came
	rec := httptest.NewRecorder()
	s.operations().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if want := `capi_extension_server_requests_in_flight{handler="before-cluster-create",hook="BeforeClusterCreate"} 1`; !strings.Contains(rec.Body.String(), want) {
		t.Errorf("no %s", want)
	}
	close(w.release)
	<-done
}

func TestOperationsAreForTheLoopbackUnlessTold(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{":8080": "127.0.0.1:8080", "0.0.0.0:8080": "0.0.0.0:8080", "[::1]:0": "[::1]:0"} {
		o := Options{OperationsAddress: given}
		if err := o.complete(); err != nil || o.OperationsAddress != want {
			t.Errorf("%s: got %s, %v, want %s", given, o.OperationsAddress, err, want)
		}
	}
}
