// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/handlertransport"
)

// askExtensions creates the client with which the controllers call extensions.
func askExtensions(o Options) (controllers.Extensions, error) {
	known := catalog.Default()
	registry := extensions.NewRegistry(known)
	if o.Updates != nil {
		return controllers.Extensions{Catalog: known, Registry: registry, Client: asked{o.Updates}, Updates: extensions.InPlaceHooks{Hooks: o.Updates}}, nil
	}
	registry.Expect() // no others: existing ones are known from their status
	for _, obj := range o.Objects {
		if config, is := obj.(*runtimev1.ExtensionConfig); is {
			if err := registry.Set(config); err != nil {
				return controllers.Extensions{}, err
			}
		}
	}
	if o.Extension == nil {
		o.Extension = http.NotFoundHandler()
	}
	if o.Calls == nil {
		o.Calls = called{o.Extension}
	}
	if o.Namespaces == nil {
		o.Namespaces = func(context.Context, string) (map[string]string, error) { return nil, nil }
	}
	calls, err := extensions.New(extensions.Options{
		Catalog: known, Registry: registry, Transport: o.Calls, Clock: o.Clock, Metrics: prometheus.NewRegistry(),
		Namespaces: o.Namespaces,
	})
	return controllers.Extensions{Catalog: known, Registry: registry, Client: calls, Updates: extensions.InPlaceHooks{Hooks: calls}}, err
}

// called is a server of extensions that is called without a network.
type called struct{ http.Handler }

// slow is a server that declares how long it takes to answer. That time does not
// advance the clock: a caller with a shorter timeout gets no answer.
type slow interface {
	Takes(path string) time.Duration
}

// Post implements extensions.Poster.
func (c called) Post(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	if s, is := c.Handler.(slow); is {
		if deadline, may := ctx.Deadline(); may && s.Takes(path) > time.Until(deadline) {
			return nil, &transport.Error{Host: e.Host(), Reason: transport.Timeout, Err: fmt.Errorf("time ran out waiting for its answer: %w", context.DeadlineExceeded)}
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := handlertransport.Transport(c).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d %s", e.Host(), answer.StatusCode, text)
	}
	return text, err
}

// Probe implements extensions.Poster.
func (c called) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return c.Post(ctx, e, path, body)
}

// Forget implements extensions.Poster.
func (called) Forget(transport.Endpoint) {}

// asked are the hooks that a test provides in place of extensions. None is
// discovered.
type asked struct{ extensions.Hooks }

// Source implements topology.Extensions.
func (asked) Source(extensions.ToRequests) source.Source { return nil }

// Discover implements extensionconfig.Extensions.
func (asked) Discover(_ context.Context, config *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
	return nil, fmt.Errorf("extension %s is not asked in a simulation", config.Name)
}
