// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// ErrNotReady means that not all extensions of this management cluster have been
// tried, for example after a start: it is unknown whether a hook has handlers.
// Requeue soon.
var ErrNotReady = errors.New("runtime extensions have not been read yet")

// Registry stores which handlers answer which hook. The controller of
// ExtensionConfigs fills it and Clients read it.
type Registry struct {
	catalog *catalog.Catalog
	ready   chan struct{}
	last    atomic.Uint64 // the last id of a registration

	changing sync.Mutex // held during a change and its notifications; taken before mu
	watchers []watcher

	mu       sync.RWMutex // guards the fields below
	waiting  map[string]bool
	expected bool
	configs  map[string]*registration
	handlers map[string]*handler
	hooks    map[catalog.GroupHook][]*handler // sorted by name; never changed in place
}

// watcher is called for each change, one call at a time; was and is may be nil.
type watcher func(config string, was, is *registration)

// errRemoved ends calls that are in progress when their ExtensionConfig is removed.
var errRemoved = errors.New("the ExtensionConfig was removed meanwhile")

// registration is one ExtensionConfig at one time. It is immutable, except version,
// gone and lifetime.
type registration struct {
	id           uint64 // unique in this process
	config       string
	uid          types.UID
	generation   int64
	spec         runtimev1.ExtensionConfigSpec
	known        []runtimev1.ExtensionHandler
	endpoint     transport.Endpoint
	host         string
	selector     labels.Selector
	handlers     []*handler
	version      atomic.Pointer[string] // resourceVersion
	undiscovered bool                   // no handler and no failure policy is known
	gone         atomic.Bool            // replaced or removed
	lifetime     context.Context        // ends when the config is removed, not when it is replaced
	end          context.CancelCauseFunc
}

// handler is one handler of a registration.
type handler struct {
	target
	of            *registration
	timeout       time.Duration
	failurePolicy runtimev1.FailurePolicy
	stats         *stats // survives a new registration of the config

	requestType, responseType reflect.Type
	requestKind, responseKind schema.GroupVersionKind
	deprecated                bool
}

// target is the called server, and the labels for it in metrics and traces.
type target struct {
	config, host string
	endpoint     transport.Endpoint
	name         string // <handler>.<config>; empty at discovery
	path         string
	hook         catalog.GroupVersionHook
}

// NewRegistry returns an empty registry, which is not ready until Expect was called
// and all expected configs were tried.
func NewRegistry(c *catalog.Catalog) *Registry {
	return &Registry{
		catalog:  c,
		ready:    make(chan struct{}),
		waiting:  map[string]bool{},
		configs:  map[string]*registration{},
		handlers: map[string]*handler{},
		hooks:    map[catalog.GroupHook][]*handler{},
	}
}

// Expect sets the configs that must be tried before the registry is ready; without
// any it is ready immediately.
func (r *Registry) Expect(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isReady() {
		return
	}
	r.expected = true
	for _, name := range names {
		r.waiting[name] = true
	}
	r.readyIfTried()
}

// Tried records that registering a config was tried, with or without success.
func (r *Registry) Tried(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, name)
	r.readyIfTried()
}

// Ready is closed once all expected configs were tried; it stays closed.
func (r *Registry) Ready() <-chan struct{} { return r.ready }

// Set registers the handlers in the config's status instead of those registered
// before. After an error the previous registration remains. Setting the same
// registration again changes nothing and keeps cached responses. If only the
// resourceVersion differs, cached responses are evicted, so that any update of the
// config causes the extension to be called again.
func (r *Registry) Set(config *runtimev1.ExtensionConfig) error {
	is, err := r.register(config)
	if err != nil {
		return fmt.Errorf("register ExtensionConfig %s: %w", config.Name, err)
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	was := r.configs[config.Name]
	changed := !was.same(is)
	if changed {
		r.replace(config.Name, was, is)
	}
	r.mu.Unlock()
	if changed {
		r.notify(config.Name, was, is)
	} else {
		was.version.Store(&config.ResourceVersion)
	}
	return nil
}

// Remove removes a config: when it returns, none of its handlers is called any
// longer, and calls in progress are about to end. The config counts as tried.
func (r *Registry) Remove(name string) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	was := r.configs[name]
	r.replace(name, was, nil)
	if was != nil {
		was.end(errRemoved)
	}
	delete(r.waiting, name)
	r.readyIfTried()
	r.mu.Unlock()
	r.notify(name, was, nil)
}

func (r *Registry) notify(config string, was, is *registration) {
	for _, w := range r.watchers {
		w(config, was, is)
	}
}

// register returns a registration of a config without storing it.
func (r *Registry) register(config *runtimev1.ExtensionConfig) (*registration, error) {
	config = config.DeepCopy()
	undiscovered := !extensionconfig.Known(config)
	endpoint, err := Endpoint(config.Spec.ClientConfig)
	if err != nil && !undiscovered { // a config that is not called needs no endpoint
		return nil, err
	}
	selector := labels.Everything()
	if config.Spec.NamespaceSelector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(config.Spec.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
		}
	}
	out := &registration{
		id:         r.last.Add(1),
		config:     config.Name,
		uid:        config.UID,
		generation: config.Generation,
		spec:       config.Spec,
		known:      config.Status.Handlers,
		endpoint:   endpoint,
		host:       endpoint.Host(),
		selector:   selector,

		undiscovered: undiscovered,
	}
	out.version.Store(&config.ResourceVersion)
	out.lifetime, out.end = context.WithCancelCause(context.Background())
	var errs []error
	for i, known := range config.Status.Handlers {
		h, err := r.handler(out, known)
		if err != nil {
			errs = append(errs, fmt.Errorf("status.handlers[%d] %q: %w", i, known.Name, err))
			continue
		}
		out.handlers = append(out.handlers, h)
	}
	return out, errors.Join(errs...)
}

func (r *Registry) handler(of *registration, known runtimev1.ExtensionHandler) (*handler, error) {
	own, ok := strings.CutSuffix(known.Name, "."+of.config)
	if !ok || own == "" {
		return nil, fmt.Errorf("name: must be a handler's name, a dot, and %q", of.config)
	}
	hook, err := extensionconfig.Hook(known.RequestHook)
	if err != nil {
		return nil, err
	}
	d, err := r.catalog.Find(hook)
	if err != nil {
		return nil, err
	}
	if d.Singleton {
		return nil, fmt.Errorf("hook %s is answered by the extension as a whole", hook)
	}
	h := &handler{
		target:        target{config: of.config, host: of.host, endpoint: of.endpoint, name: known.Name, path: hook.Path(own), hook: hook},
		of:            of,
		timeout:       min(time.Duration(known.TimeoutSeconds)*time.Second, extensionconfig.MaxTimeout),
		failurePolicy: cmp.Or(known.FailurePolicy, runtimev1.FailurePolicyFail),
		stats:         &stats{},
		requestType:   d.RequestType,
		responseType:  d.ResponseType,
		requestKind:   d.Request,
		responseKind:  d.Response,
		deprecated:    d.Deprecated != nil,
	}
	if h.timeout <= 0 {
		h.timeout = extensionconfig.DefaultTimeout
	}
	return h, nil
}

// same reports whether registering next instead would change nothing.
func (a *registration) same(next *registration) bool {
	return a != nil && a.uid == next.uid && a.generation == next.generation && a.undiscovered == next.undiscovered &&
		reflect.DeepEqual(a.spec, next.spec) && reflect.DeepEqual(a.known, next.known)
}

// replace replaces a registration. The caller must hold the lock; was and is may be
// nil.
func (r *Registry) replace(config string, was, is *registration) {
	stale := map[catalog.GroupHook]bool{}
	if was != nil {
		was.gone.Store(true)
		delete(r.configs, config)
		for _, h := range was.handlers {
			delete(r.handlers, h.name)
			stale[h.hook.GroupHook()] = true
		}
	}
	if is != nil {
		r.configs[config] = is
		if was != nil && was.uid == is.uid {
			is.lifetime, is.end = was.lifetime, was.end
		} else if was != nil {
			was.end(errRemoved)
		}
		for _, h := range is.handlers {
			if was != nil {
				h.stats = was.statsOf(h.name, h.stats)
			}
			r.handlers[h.name] = h
			stale[h.hook.GroupHook()] = true
		}
	}
	for hook := range stale {
		r.sort(hook, was, is)
	}
}

func (a *registration) statsOf(name string, fresh *stats) *stats {
	for _, h := range a.handlers {
		if h.name == name {
			return h.stats
		}
	}
	return fresh
}

// sort rebuilds the list of a hook without the handlers of was and with those of
// is.
func (r *Registry) sort(hook catalog.GroupHook, was, is *registration) {
	list := make([]*handler, 0, len(r.hooks[hook])+1)
	for _, h := range r.hooks[hook] {
		if h.of != was {
			list = append(list, h)
		}
	}
	if is != nil {
		for _, h := range is.handlers {
			if h.hook.GroupHook() == hook {
				list = append(list, h)
			}
		}
	}
	if len(list) == 0 {
		delete(r.hooks, hook)
		return
	}
	slices.SortFunc(list, func(a, b *handler) int { return cmp.Compare(a.name, b.name) })
	r.hooks[hook] = list
}

// readyIfTried closes ready if no config is awaited. The caller must hold the lock.
func (r *Registry) readyIfTried() {
	if r.expected && len(r.waiting) == 0 && !r.isReady() {
		close(r.ready)
	}
}

func (r *Registry) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// of lists the handlers of a hook, in all its versions, sorted by name. The list
// must not be changed.
func (r *Registry) of(hook catalog.GroupHook) ([]*handler, error) {
	if !r.isReady() {
		return nil, ErrNotReady
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.hooks[hook], nil
}

// undiscovered lists the registrations without known handlers, sorted by name.
func (r *Registry) undiscovered() []*registration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*registration
	for _, reg := range r.configs {
		if reg.undiscovered {
			all = append(all, reg)
		}
	}
	slices.SortFunc(all, func(a, b *registration) int { return cmp.Compare(a.config, b.config) })
	return all
}

// named returns a handler by its full name.
func (r *Registry) named(name string) (*handler, error) {
	if !r.isReady() {
		return nil, ErrNotReady
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if h := r.handlers[name]; h != nil {
		return h, nil
	}
	_, config, ok := strings.Cut(name, ".")
	switch reg := r.configs[config]; {
	case !ok:
		return nil, fmt.Errorf("handler %q is not known: a name is a handler's name, a dot, and an ExtensionConfig's name", name)
	case reg == nil || reg.undiscovered:
		return nil, fmt.Errorf("handler %q is not known: ExtensionConfig %q does not exist or was never discovered", name, config)
	case len(reg.handlers) == 0:
		return nil, fmt.Errorf("handler %q is not known: ExtensionConfig %q has no handlers", name, config)
	default:
		return nil, fmt.Errorf("handler %q is not known: ExtensionConfig %q has %s", name, config, some(reg.handlers))
	}
}

// some returns the names of a few handlers.
func some(handlers []*handler) string {
	const most = 10
	names := make([]string, 0, most)
	for _, h := range handlers[:min(len(handlers), most)] {
		names = append(names, h.name)
	}
	text := strings.Join(names, ", ")
	if n := len(handlers) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// all lists all handlers, sorted by name.
func (r *Registry) all() []*handler {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.handlers), func(a, b *handler) int { return cmp.Compare(a.name, b.name) })
}

// deprecated counts the handlers of deprecated hook versions.
func (r *Registry) deprecated() map[catalog.GroupVersionHook]int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	counts := map[catalog.GroupVersionHook]int{}
	for _, h := range r.handlers {
		if h.deprecated {
			counts[h.hook]++
		}
	}
	return counts
}

// inUse reports whether a registration has an endpoint.
func (r *Registry) inUse(e transport.Endpoint) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, reg := range r.configs {
		if reflect.DeepEqual(reg.endpoint, e) {
			return true
		}
	}
	return false
}

// watch registers a function to be called after each change.
func (r *Registry) watch(w watcher) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.watchers = append(r.watchers, w)
}
