// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

// answering is a transport without costs.
type answering []byte

func (a answering) Post(context.Context, transport.Endpoint, string, []byte) ([]byte, error) {
	return a, nil
}

func (a answering) Probe(context.Context, transport.Endpoint, string, []byte) ([]byte, error) {
	return nil, errors.New("no extension is called")
}

func (answering) Forget(transport.Endpoint) {}

// hanging is a transport that never answers, and returns the error of the real one.
type hanging struct{}

func (hanging) Post(ctx context.Context, e transport.Endpoint, _ string, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, &transport.Error{Host: e.Host(), Reason: transport.Timeout, Err: ctx.Err()}
}

func (h hanging) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return h.Post(ctx, e, path, body)
}

func (hanging) Forget(transport.Endpoint) {}

func TestAHangingExtensionCostsNoMoreThanItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Transport = hanging{} })
		config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
		config.Spec.ClientConfig.URL = "https://example.test"
		ignored, failing := ignoring(handles("ignored.ext", "BeforeClusterCreate")), handles("failing.ext", "BeforeClusterCreate")
		ignored.TimeoutSeconds, failing.TimeoutSeconds = 7, 300 // more than the maximum
		config.Status.Handlers = []runtimev1.ExtensionHandler{ignored, failing}
		w.set(t, config)
		for _, tc := range []struct {
			handler string
			within  time.Duration // of the caller; 0: any
			takes   time.Duration
			fails   bool
		}{{"ignored.ext", 0, 7 * time.Second, false}, {"ignored.ext", time.Second, time.Second, true}, {"failing.ext", 0, 30 * time.Second, true}, {"failing.ext", time.Minute, 30 * time.Second, true}} {
			ctx, cancel := t.Context(), func() {}
			if tc.within > 0 {
				ctx, cancel = context.WithTimeout(ctx, tc.within)
			}
			started := time.Now()
			err := w.CallExtension(ctx, hooksv1.BeforeClusterCreate, demo(), tc.handler, &hooksv1.BeforeClusterCreateRequest{}, &hooksv1.BeforeClusterCreateResponse{})
			cancel()
			if took := time.Since(started); took != tc.takes || (err != nil) != tc.fails {
				t.Errorf("%s within %s: %s, %v, want %s, failure %v", tc.handler, tc.within, took, err, tc.takes, tc.fails)
			}
		}
		started := time.Now()
		if _, err := w.Discover(t.Context(), config); err == nil || time.Since(started) != 10*time.Second {
			t.Errorf("discovery: %v after %s, want an error after 10s", err, time.Since(started))
		}
	})
}

// BenchmarkCallOverhead measures the cost of a call in addition to the request
// itself.
func BenchmarkCallOverhead(b *testing.B) {
	for name, answer := range map[string]string{
		"continues": `{"apiVersion":"` + v1alpha1 + `","kind":"BeforeClusterCreateResponse","status":"Success","message":"continue","retryAfterSeconds":0}`,
	} {
		w := newWorld(b, func(o *Options) { o.Transport = answering(answer) })
		e := &extension{Server: serve(b, answer).Server}
		config := e.config("ext", handles("h", "BeforeClusterCreate"))
		config.Spec.Settings = map[string]string{"a": "1"}
		w.set(b, config)
		request, response := &hooksv1.BeforeClusterCreateRequest{Cluster: *demo()}, &hooksv1.BeforeClusterCreateResponse{}
		request.Settings = map[string]string{"b": "2"}
		b.Run("one that "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := w.CallExtension(b.Context(), hooksv1.BeforeClusterCreate, demo(), "h.ext", request, response); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("all that "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := w.CallAllExtensions(b.Context(), hooksv1.BeforeClusterCreate, demo(), request, response); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
