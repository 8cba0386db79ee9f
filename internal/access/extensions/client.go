// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// Poster sends one request to one server. transport.Pool is one.
type Poster interface {
	// Post returns the body of a usable response: HTTP 200 and JSON.
	Post(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error)
	// Probe is a Post that is also sent while a server is in backoff.
	Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error)
	// Forget closes the connections to a server.
	Forget(e transport.Endpoint)
}

// Options configure a Client.
type Options struct {
	Catalog   *catalog.Catalog
	Registry  *Registry
	Transport Poster

	// Namespaces returns the labels of a namespace, from a cache. It is called
	// only where an extension has a namespaceSelector.
	Namespaces func(ctx context.Context, name string) (map[string]string, error)

	Clock   clock.PassiveClock    // nil: the system's
	Tracer  trace.TracerProvider  // nil: the process's
	Metrics prometheus.Registerer // nil: controller-runtime's
}

// Client calls extensions.
type Client struct {
	catalog    *catalog.Catalog
	registry   *Registry
	transport  Poster
	namespaces func(ctx context.Context, name string) (map[string]string, error)
	clock      clock.PassiveClock
	tracer     trace.Tracer
	spans      []trace.SpanStartOption
	metrics    *metrics

	single  map[catalog.GroupVersionHook]bool // hooks whose responses cannot be combined
	blocked *memory[subject, blocked]
	answers *memory[answerKey, answer]

	discoveries discoveries
}

// New returns a Client. It reads the registry and is notified of its changes.
func New(o Options) (*Client, error) {
	if o.Catalog == nil || o.Registry == nil || o.Transport == nil {
		return nil, errors.New("make a client of extensions: Catalog, Registry and Transport are needed")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Tracer == nil {
		o.Tracer = otel.GetTracerProvider()
	}
	if o.Metrics == nil {
		o.Metrics = ctrlmetrics.Registry
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("make a client of extensions: %w", err)
	}
	c := &Client{
		catalog:    o.Catalog,
		registry:   o.Registry,
		transport:  o.Transport,
		namespaces: o.Namespaces,
		clock:      o.Clock,
		tracer:     o.Tracer.Tracer("github.com/capstan-dev/capstan/internal/access/extensions"),
		spans:      []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)},
		metrics:    m,
		single:     map[catalog.GroupVersionHook]bool{},
		blocked:    newMemory[subject, blocked](maxBlocked, maxBlockedBytes),
		answers:    newMemory[answerKey, answer](maxAnswers, maxAnswerBytes),
	}
	for _, d := range o.Catalog.Hooks() {
		c.single[d.GroupVersionHook] = !extensionconfig.Aggregatable(d.ResponseType)
	}
	o.Registry.watch(c.changed)
	return c, nil
}

// changed evicts cached responses of an earlier registration.
func (c *Client) changed(config string, was, is *registration) {
	if was != nil {
		c.blocked.drop(func(b blocked) bool {
			return slices.ContainsFunc(b.by, func(h *handler) bool { return h.of == was })
		})
		c.answers.drop(func(a answer) bool { return a.of == was.id })
		if !c.registry.inUse(was.endpoint) {
			c.transport.Forget(was.endpoint)
		}
	}
	if is == nil {
		c.discoveries.forget(config)
	}
	c.metrics.at(config, func(hosts) hosts {
		if is == nil {
			return hosts{}
		}
		return hosts{called: is.host, asked: is.host}
	})
	c.metrics.deprecated(c.registry.deprecated())
}

// GetAllExtensions lists, sorted, the handlers that CallAllExtensions would
// call. There may be none.
func (c *Client) GetAllExtensions(ctx context.Context, hook any, forObject metav1.Object) ([]string, error) {
	d, err := c.catalog.Lookup(hook)
	if err != nil {
		return nil, fmt.Errorf("list extension handlers: %w", err)
	}
	handlers, err := c.matching(ctx, d, forObject)
	if err != nil {
		return nil, fmt.Errorf("list extension handlers of hook %s for %s: %w", d.Hook, describe(forObject), err)
	}
	names := make([]string, len(handlers))
	for i, h := range handlers {
		names[i] = h.name
	}
	return names, nil
}

// CallAllExtensions calls all handlers of a hook that match the object, in the
// order of their names, and combines their responses; without handlers the response
// is an empty Success. It stops at the first error. A blocking response is returned
// again, with the remaining time, until it expires.
//
// It can only be used for hooks whose responses consist of status, message and
// retryAfterSeconds; handlers of other hooks are called individually.
func (c *Client) CallAllExtensions(ctx context.Context, hook any, forObject metav1.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	d, err := c.typed(hook, request, response)
	if err != nil {
		return fmt.Errorf("call all extension handlers: %w", err)
	}
	if c.single[d.GroupVersionHook] {
		return fmt.Errorf("call all extension handlers of hook %s: its answers cannot be made one: call one handler at a time", d.Hook)
	}
	handlers, err := c.matching(ctx, d, forObject)
	if err != nil {
		return fmt.Errorf("call all extension handlers of hook %s for %s: %w", d.Hook, describe(forObject), err)
	}
	if err := c.awaitDiscovery(ctx, forObject); err != nil {
		return fmt.Errorf("call all extension handlers of hook %s for %s: %w", d.Hook, describe(forObject), err)
	}
	if len(handlers) == 0 {
		extensionconfig.Reset(response, d.Response)
		return nil
	}
	about := subjectOf(d.GroupHook(), forObject)
	if d.Blocking && c.stillBlocked(about, handlers, d, response) {
		return nil
	}
	answers := make([]extensionconfig.Answer, 0, len(handlers))
	for i, h := range handlers {
		into := response
		if i > 0 {
			into = reflect.New(d.ResponseType).Interface().(hooksv1.ResponseObject)
		}
		if err := c.call(ctx, d, h, request, into); err != nil {
			extensionconfig.Clear(response)
			return callError(d, h, forObject, err)
		}
		answers = append(answers, extensionconfig.Answer{Handler: h.name, Response: into})
	}
	extensionconfig.Aggregate(response, answers)
	if d.Blocking {
		c.rememberBlocked(about, handlers, response)
	}
	return nil
}

// CallExtension calls one handler by its full name. It is an error if its
// namespaceSelector does not select the object's namespace: a caller that names a
// handler needs its response.
func (c *Client) CallExtension(ctx context.Context, hook any, forObject metav1.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	d, err := c.typed(hook, request, response)
	if err != nil {
		return fmt.Errorf("call extension handler %q: %w", name, err)
	}
	h, err := c.registry.named(name)
	if err != nil {
		return fmt.Errorf("call an extension handler of hook %s for %s: %w", d.Hook, describe(forObject), err)
	}
	if err := c.callable(ctx, d, h, forObject); err != nil {
		return callError(d, h, forObject, err)
	}
	if err := c.call(ctx, d, h, request, response); err != nil {
		extensionconfig.Clear(response)
		return callError(d, h, forObject, err)
	}
	return nil
}

// Reject evicts the response of a handler to a request, because the caller cannot
// use it: the extension is called again at the next request. Without such a
// response it does nothing.
func (c *Client) Reject(hook any, name string, request hooksv1.RequestObject) {
	d, err := c.catalog.Lookup(hook)
	if err != nil || !d.Cacheable {
		return
	}
	h, err := c.registry.named(name)
	if err != nil {
		return // evicted with its registration
	}
	if body, err := c.encode(h, request); err == nil {
		c.answers.forget(keyOf(h, body))
	}
}

func callError(d catalog.Descriptor, h *handler, forObject metav1.Object, err error) error {
	return fmt.Errorf("call extension handler %q of hook %s for %s: %w", h.name, d.Hook, describe(forObject), err)
}

// callable returns an error if a handler cannot be called for an object.
func (c *Client) callable(ctx context.Context, d catalog.Descriptor, h *handler, forObject metav1.Object) error {
	if h.hook.GroupHook() != d.GroupHook() {
		return fmt.Errorf("it answers hook %s", h.hook)
	}
	var ns namespace
	switch ok, err := ns.selectedBy(ctx, c, h.of, forObject); {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("the namespaceSelector of ExtensionConfig %q does not select namespace %q", h.config, forObject.GetNamespace())
	}
	return nil
}

// typed checks that request and response are those of the hook.
func (c *Client) typed(hook any, request runtime.Object, response hooksv1.ResponseObject) (catalog.Descriptor, error) {
	d, err := c.catalog.Lookup(hook)
	if err != nil {
		return d, err
	}
	if !points(request, d.RequestType) {
		return d, fmt.Errorf("hook %s takes a *%s: got %T", d.Hook, d.RequestType, request)
	}
	if !points(response, d.ResponseType) {
		return d, fmt.Errorf("hook %s answers with a *%s: got %T", d.Hook, d.ResponseType, response)
	}
	return d, nil
}

func points(o any, to reflect.Type) bool {
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.Type().Elem() == to && !v.IsNil()
}

// matching lists the handlers of a hook that match an object.
func (c *Client) matching(ctx context.Context, d catalog.Descriptor, forObject metav1.Object) ([]*handler, error) {
	handlers, err := c.registry.of(d.GroupHook())
	if err != nil {
		return nil, err
	}
	var ns namespace
	for i, h := range handlers {
		ok, err := ns.selectedBy(ctx, c, h.of, forObject)
		if err != nil {
			return nil, err
		}
		if ok {
			continue
		}
		// From here on the list differs from that of the registry.
		some := slices.Clone(handlers[:i])
		for _, h := range handlers[i+1:] {
			ok, err := ns.selectedBy(ctx, c, h.of, forObject)
			if err != nil {
				return nil, err
			}
			if ok {
				some = append(some, h)
			}
		}
		return some, nil
	}
	return handlers, nil
}

// awaitDiscovery returns an error while an extension that matches the object was
// never discovered: it may have a handler, whose failure policy is also unknown.
func (c *Client) awaitDiscovery(ctx context.Context, forObject metav1.Object) error {
	var ns namespace
	for _, reg := range c.registry.undiscovered() {
		ok, err := ns.selectedBy(ctx, c, reg, forObject)
		if err != nil {
			return err
		}
		if ok {
			return fmt.Errorf("ExtensionConfig %q was never discovered, and may have a handler of this hook: correct what its condition %s names, or delete it", reg.config, runtimev1.ExtensionConfigDiscoveredCondition)
		}
	}
	return nil
}

// namespace is that of an object, read at most once and only if needed.
type namespace struct {
	known  bool
	labels labels.Set
}

func (n *namespace) selectedBy(ctx context.Context, c *Client, of *registration, forObject metav1.Object) (bool, error) {
	if of.selector.Empty() || isNil(forObject) {
		return true, nil
	}
	if itself, ok := forObject.(*corev1.Namespace); ok {
		return of.selector.Matches(labels.Set(itself.Labels)), nil
	}
	name := forObject.GetNamespace()
	if name == "" {
		return true, nil
	}
	if !n.known {
		if c.namespaces == nil {
			return false, fmt.Errorf("look up the labels of namespace %q for ExtensionConfig %q: this process does not read namespaces", name, of.config)
		}
		found, err := c.namespaces(ctx, name)
		if err != nil {
			return false, fmt.Errorf("look up the labels of namespace %q for ExtensionConfig %q: %w", name, of.config, err)
		}
		n.known, n.labels = true, found
	}
	return of.selector.Matches(n.labels), nil
}

// describe names an object for messages, such as Cluster default/demo.
func describe(o metav1.Object) string {
	if isNil(o) {
		return "no object"
	}
	kind := ""
	if r, ok := o.(runtime.Object); ok {
		kind = r.GetObjectKind().GroupVersionKind().Kind
	}
	if t := reflect.TypeOf(o); t.Kind() == reflect.Pointer {
		kind = cmp.Or(kind, t.Elem().Name())
	}
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return cmp.Or(kind, "object") + " " + name
}

func isNil(o metav1.Object) bool {
	if o == nil {
		return true
	}
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
