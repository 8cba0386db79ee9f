// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout is how long sending the last spans may take.
const flushTimeout = 2 * time.Second

// tracing sends spans to a collector. Nil sends none.
type tracing struct{ sdk *sdktrace.TracerProvider }

// openTracing builds the exporter that sends spans to host:port, or to a URL, by
// OTLP over gRPC; without a scheme, or with http, it does not encrypt. An empty
// endpoint disables tracing. The collector need not be reachable.
func openTracing(ctx context.Context, endpoint string, log logr.Logger) (*tracing, error) {
	if endpoint == "" {
		return nil, nil
	}
	opts := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(endpoint), otlptracegrpc.WithInsecure()}
	address := endpoint
	if scheme, rest, ok := strings.Cut(endpoint, "://"); ok {
		if scheme != "http" && scheme != "https" {
			return nil, fmt.Errorf("send traces to %s: the scheme must be http or https", endpoint)
		}
		address, opts = strings.TrimSuffix(rest, "/"), []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(endpoint)}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", endpoint, err)
	}
	exporter, err := otlptracegrpc.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", endpoint, err)
	}
	return &tracing{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&reporting{SpanExporter: exporter, log: log.WithValues("endpoint", endpoint)}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "capstan"))),
	)}, nil
}

// provider returns nil, of the interface type, without tracing.
func (t *tracing) provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.sdk
}

// close sends the remaining spans.
func (t *tracing) close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return t.sdk.Shutdown(ctx)
}

// reporting logs that spans are lost, once until they arrive again. The SDK would
// log it for every batch, to a logger of the whole process.
type reporting struct {
	sdktrace.SpanExporter
	log  logr.Logger
	lost atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch lost := err != nil; {
	case lost && !r.lost.Swap(true):
		r.log.Error(err, "Losing traces until the collector takes them")
	case !lost && r.lost.Swap(false):
		r.log.Info("Sending traces again")
	}
	return nil
}
