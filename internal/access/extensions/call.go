// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// DiscoveryTimeout is the time limit of a discovery call.
const DiscoveryTimeout = 10 * time.Second

// errChanged means that a call was canceled before it was sent. The next call uses
// the new registration.
var errChanged = errors.New("the ExtensionConfig was changed or removed meanwhile")

// unusableError means that there is a response, but not a usable one.
type unusableError struct{ error }

func (e unusableError) Unwrap() error { return e.error }

// Discover requests the handlers of an extension, even from a server in backoff.
// The response has the right kind and status Success; the handlers in it are not
// validated.
func (c *Client) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
	response := &hooksv1.DiscoveryResponse{}
	if err := c.discover(ctx, config, response); err != nil {
		return nil, fmt.Errorf("discover the handlers of ExtensionConfig %s: %w", config.Name, err)
	}
	return response, nil
}

func (c *Client) discover(ctx context.Context, config *runtimev1.ExtensionConfig, response *hooksv1.DiscoveryResponse) error {
	d, err := c.catalog.Lookup(hooksv1.Discovery)
	if err != nil {
		return err
	}
	endpoint, err := Endpoint(config.Spec.ClientConfig)
	if err != nil {
		return err
	}
	request := &hooksv1.DiscoveryRequest{}
	request.SetGroupVersionKind(d.Request)
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	t := target{config: config.Name, host: endpoint.Host(), endpoint: endpoint, hook: d.GroupVersionHook, path: d.Path("")}
	c.metrics.at(t.config, func(h hosts) hosts { return hosts{called: h.called, asked: t.host} })
	timed, cancel := context.WithTimeout(ctx, DiscoveryTimeout)
	defer cancel()
	_, err = c.observed(timed, &t, c.discoveries.begin(t), func(ctx context.Context) error {
		answer, err := c.transport.Probe(ctx, endpoint, t.path, body)
		if err != nil {
			return err
		}
		if err := extensionconfig.Decode(answer, d.Response, response); err != nil {
			return unusableError{err}
		}
		return extensionconfig.Success(response)
	})
	return gaveUp(ctx, err)
}

// call calls one handler. The response is undefined after an error.
func (c *Client) call(ctx context.Context, d catalog.Descriptor, h *handler, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	body, err := c.encode(h, request)
	if err != nil {
		return err
	}
	var key answerKey
	if d.Cacheable {
		key = keyOf(h, body)
		if known, ok := c.answers.get(key, c.clock.Now()); ok {
			return c.decode(known.body, h, response)
		}
	}
	timed, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	defer context.AfterFunc(h.of.lifetime, cancel)()
	if h.of.gone.Load() {
		return errChanged
	}
	var answered []byte
	first, err := c.observed(timed, &h.target, h.stats, func(ctx context.Context) error {
		var err error
		if answered, err = c.transport.Post(ctx, h.endpoint, h.path, body); err != nil {
			return err
		}
		if err := c.decode(answered, h, response); err != nil {
			return err
		}
		return extensionconfig.Success(response)
	})
	if err = gaveUp(h.of.lifetime, gaveUp(ctx, err)); err == nil {
		if d.Cacheable {
			c.rememberAnswer(key, h, answered)
		}
		return nil
	}
	if h.failurePolicy == runtimev1.FailurePolicyIgnore && !d.MustAnswer && ctx.Err() == nil && h.of.lifetime.Err() == nil && hidden(err) {
		level := 2
		if first {
			level = 0
		}
		ctrl.LoggerFrom(ctx).V(level).Info("Ignoring an extension that gave no usable answer", "handler", h.name, "hook", d.Hook, "reason", err.Error())
		extensionconfig.Reset(response, d.Response)
		return nil
	}
	return err
}

// hidden reports whether failurePolicy Ignore hides an error: whether it is the
// extension's, not the caller's or that of the ExtensionConfig.
func hidden(err error) bool {
	if _, ok := errors.AsType[unusableError](err); ok {
		return true
	}
	e, ok := errors.AsType[*transport.Error](err)
	return ok && e.Reason != transport.Canceled && e.Reason != transport.BadEndpoint
}

// gaveUp ensures that the error shows if the caller canceled the call, the caller's
// deadline passed, or the config was removed.
func gaveUp(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// encode returns the body of a request: in the handler's version, with the settings
// of the ExtensionConfig and of the caller. It does not change the caller's
// request; only its outer struct is copied.
func (c *Client) encode(h *handler, request hooksv1.RequestObject) ([]byte, error) {
	converted, err := c.catalog.ConvertRequest(request, h.hook)
	if err != nil {
		return nil, err
	}
	if converted == runtime.Object(request) {
		outer := reflect.New(h.requestType)
		outer.Elem().Set(reflect.ValueOf(request).Elem())
		converted = outer.Interface().(runtime.Object)
	}
	sent, ok := converted.(hooksv1.RequestObject)
	if !ok {
		return nil, fmt.Errorf("a %T has no settings", converted)
	}
	sent.SetSettings(extensionconfig.Settings(h.of.spec.Settings, sent.GetSettings()))
	sent.GetObjectKind().SetGroupVersionKind(h.requestKind)
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return body, nil
}

// decode decodes a response from the handler's version.
func (c *Client) decode(body []byte, h *handler, response hooksv1.ResponseObject) error {
	extensionconfig.Clear(response)
	if reflect.TypeOf(response).Elem() == h.responseType {
		if err := extensionconfig.Decode(body, h.responseKind, response); err != nil {
			return unusableError{err}
		}
		return nil
	}
	older := reflect.New(h.responseType).Interface().(hooksv1.ResponseObject)
	if err := extensionconfig.Decode(body, h.responseKind, older); err != nil {
		return unusableError{err}
	}
	return c.catalog.ConvertResponse(older, response)
}

// observed makes one request and records it in metrics, trace and statistics. It
// reports whether this is the first failure after a success.
func (c *Client) observed(ctx context.Context, t *target, s *stats, request func(context.Context) error) (first bool, err error) {
	started := c.clock.Now()
	ctx, span := c.tracer.Start(ctx, "call extension", c.spans...)
	defer span.End()
	err = request(ctx)
	took := c.clock.Since(started)
	code := codeOf(err)
	c.metrics.record(t, code, took)
	first = s.record(started, took, err)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("capstan.hook", t.hook.String()),
			attribute.String("capstan.handler", t.name),
			attribute.String("server.address", t.host),
			attribute.String("capstan.outcome", code),
		)
		if err != nil {
			span.SetStatus(codes.Error, extensionconfig.Shorten(err.Error(), maxErrorLength))
		}
	}
	return first, err
}
