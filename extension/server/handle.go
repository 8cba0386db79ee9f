// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// How long a call may take.
const (
	DefaultTimeout = 10 * time.Second // unless Timeout or the caller sets another
	MaxTimeout     = 30 * time.Second // the upper limit of both
)

// HandlerOption changes how one handler is registered.
type HandlerOption func(*route)

// Name sets the name of the handler; by default, it is the hook's name in kebab-case:
// before-cluster-create. Names are DNS-1123 labels, and must be unique in a server, also
// across hooks. The name becomes part of the path, and <name>.<ExtensionConfig> is what a
// ClusterClass refers to.
func Name(name string) HandlerOption {
	return func(r *route) { r.name, r.named = name, true }
}

// Timeout is how long a call may take: whole seconds, from 1 to 30. Callers read it by
// discovery, and stop waiting then; the context of a call ends then too. Without it, the
// caller decides; its default is 10.
func Timeout(timeout time.Duration) HandlerOption {
	return func(r *route) { r.timeout, r.timed = timeout, true }
}

// OnFailure defines how callers treat a call that cannot be sent at all; the default is
// Fail. An answer with status Failure is a failure under either policy.
func OnFailure(policy hooksv1.FailurePolicy) HandlerOption {
	return func(r *route) { r.policy = &policy }
}

// Handle registers handle for a hook, which is one of the functions of api/hooks, such as
// hooksv1.BeforeClusterCreate. It must be called before Start.
//
// The handler may retain and change the request. The context ends with the call's
// deadline and when the caller disconnects; its logger (logr.FromContext) has the hook,
// the handler and the Cluster. An error is answered as status Failure with the error's
// text as message, so it must not contain a secret. A response whose status is not set is
// a Success; its kind and version are filled in.
func Handle[Req, Resp any](s *Server, hook func(*Req, *Resp), handle func(context.Context, *Req, *Resp) error, opts ...HandlerOption) error {
	if s == nil {
		return errors.New("register a handler: the server is nil")
	}
	if hook == nil {
		return errors.New("register a handler: the hook is nil: give a function of api/hooks")
	}
	descriptor, err := s.options.Catalog.Lookup(hook)
	if err != nil {
		return fmt.Errorf("register a handler: %w", err)
	}
	if handle == nil {
		return fmt.Errorf("register a handler for %s: the function is nil", descriptor.Hook)
	}
	r := newRoute(descriptor, handle)
	for _, opt := range opts {
		if opt != nil {
			opt(r)
		}
	}
	if err := s.register(r); err != nil {
		return fmt.Errorf("register a handler for %s: %w", descriptor.Hook, err)
	}
	return nil
}

// register checks a route and adds it.
func (s *Server) register(r *route) error {
	if !r.named {
		r.name = kebab(r.hook.Hook)
	}
	if err := r.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return errors.New("the server has started: register everything before")
	}
	if other, taken := s.names[r.name]; taken {
		return fmt.Errorf("the name %q is taken by the handler for %s: give another with server.Name", r.name, other.hook.GroupVersionHook)
	}
	s.names[r.name], s.routes[r.path()] = r, r
	if old := r.hook.Deprecated; old != nil {
		s.log.Info("Serving a deprecated version of a hook", "handler", r.name, "hook", r.hook.GroupVersionHook.String(), "since", old.Since, "use", old.Use)
	}
	return nil
}

// route is one handler.
type route struct {
	hook         catalog.Descriptor
	name         string // empty for discovery
	named, timed bool
	timeout      time.Duration
	policy       *hooksv1.FailurePolicy
	uncounted    bool        // it does not count as a call in progress
	level        int         // of the log line of a successful call
	newCall      func() call // with an empty request and response
}

// call is one request on its way through a handler.
type call struct {
	route    *route // nil where nothing is served at the path
	about    []any  // what is logged of it; read before the handler changes the request
	request  runtime.Object
	response hooksv1.ResponseObject
	handle   func(context.Context) error
}

// newRoute relies on the catalog's checks of the types.
func newRoute[Req, Resp any](descriptor catalog.Descriptor, handle func(context.Context, *Req, *Resp) error) *route {
	return &route{hook: descriptor, level: level(descriptor), newCall: func() call {
		request, response := new(Req), new(Resp)
		return call{
			request:  any(request).(runtime.Object),
			response: any(response).(hooksv1.ResponseObject),
			handle:   func(ctx context.Context) error { return handle(ctx, request, response) },
		}
	}}
}

func (r *route) path() string { return r.hook.Path(r.name) }

// check returns everything that is wrong with a registration.
func (r *route) check() error {
	var errs []error
	if r.hook.Singleton {
		errs = append(errs, errors.New("the server answers this hook itself"))
	}
	if why := validation.IsDNS1123Label(r.name); len(why) > 0 {
		errs = append(errs, fmt.Errorf("the name %q cannot be used: %s", r.name, strings.Join(why, "; ")))
	}
	if r.timed && (r.timeout < time.Second || r.timeout > MaxTimeout || r.timeout%time.Second != 0) {
		errs = append(errs, fmt.Errorf("the timeout %s is not a whole number of seconds from 1 to %d", r.timeout, MaxTimeout/time.Second))
	}
	if r.policy != nil && *r.policy != hooksv1.FailurePolicyFail && *r.policy != hooksv1.FailurePolicyIgnore {
		errs = append(errs, fmt.Errorf("the failure policy %q is neither %s nor %s", *r.policy, hooksv1.FailurePolicyFail, hooksv1.FailurePolicyIgnore))
	}
	return errors.Join(errs...)
}

// deadline is how long a call may take: what the caller requests, up to the limit of the
// handler.
func (r *route) deadline(asked string) (time.Duration, error) {
	most := cmp.Or(r.timeout, MaxTimeout)
	if asked == "" {
		return cmp.Or(r.timeout, DefaultTimeout), nil
	}
	timeout, err := time.ParseDuration(asked)
	if err != nil {
		return 0, fmt.Errorf("the timeout %q is not a duration such as 10s", shorten(asked, 64))
	}
	if timeout <= 0 {
		return 0, fmt.Errorf("the timeout %s leaves no time", timeout)
	}
	return min(timeout, most), nil
}

// handlers is the answer to discovery, sorted by name.
func (s *Server) handlers() []hooksv1.ExtensionHandler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]hooksv1.ExtensionHandler, 0, len(s.names))
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		r := s.names[name]
		h := hooksv1.ExtensionHandler{
			Name:        name,
			RequestHook: hooksv1.GroupVersionHook{APIVersion: r.hook.GroupVersion().String(), Hook: r.hook.Hook},
		}
		if r.timed {
			h.TimeoutSeconds = new(int32(r.timeout / time.Second))
		}
		if r.policy != nil {
			h.FailurePolicy = new(*r.policy)
		}
		all = append(all, h)
	}
	return all
}

// kebab turns BeforeClusterCreate into before-cluster-create.
func kebab(hook string) string {
	var b strings.Builder
	for i, r := range hook {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('-')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
