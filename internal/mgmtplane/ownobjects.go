// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	rbac "k8s.io/kubernetes/pkg/registry/rbac/rest"
	scheduling "k8s.io/kubernetes/pkg/registry/scheduling/rest"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	ownObjectsHook  = "capstan/own-objects"
	ownObjectsCheck = "poststarthook/" + ownObjectsHook
	// ownObjectsTimeout is how long a stop waits for them to be written, which
	// takes some tenths of a second once the server answers.
	ownObjectsTimeout = 3 * time.Second
)

// ownObjects writes the API server's own objects: Kubernetes' roles and priority
// classes. Upstream has a start hook for each, and both sleep for a second before
// they start. Here they start before the server is built, which takes about as
// long, and end while definitions are installed.
type ownObjects struct {
	names []string // of the hooks

	serving   chan struct{} // closed when transport is set
	transport http.RoundTripper

	done chan struct{} // closed when err is set
	err  error
}

// writeOwnObjects writes them as soon as serve was called.
func writeOwnObjects(ctx context.Context) (*ownObjects, error) {
	o := &ownObjects{serving: make(chan struct{}), done: make(chan struct{})}
	in := genericapiserver.PostStartHookContext{
		Context:              context.WithoutCancel(ctx),
		LoopbackClientConfig: &rest.Config{Host: "http://in-process", Transport: o, QPS: -1},
	}
	ended := make(chan error)
	for _, provider := range []genericapiserver.PostStartHookProvider{rbac.RESTStorageProvider{}, scheduling.RESTStorageProvider{}} {
		name, hook, err := provider.PostStartHook()
		if err != nil {
			return nil, err
		}
		o.names = append(o.names, name)
		go recovery.Func(ctx, func() {
			err := recovery.Call(ctx, func() error { return hook(in) })
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			ended <- err
		})()
	}
	go recovery.Func(ctx, func() {
		defer close(o.done)
		for range o.names {
			o.err = errors.Join(o.err, <-ended)
		}
	})()
	return o, nil
}

// replace replaces upstream's hooks in a server by one that waits, so that the
// server still reports that it is ready when all is written.
func (o *ownObjects) replace(c *genericapiserver.Config) error {
	c.DisabledPostStartHooks.Insert(o.names...)
	return c.AddPostStartHook(ownObjectsHook, func(hook genericapiserver.PostStartHookContext) error {
		select {
		case <-o.done:
		case <-hook.Done():
		}
		return nil // wait returns the error; an error from here would end the process
	})
}

// serve sets the transport to the server, which answers.
func (o *ownObjects) serve(p *Plane) error {
	transport, err := rest.TransportFor(p.config)
	if err != nil {
		return err
	}
	o.transport = transport
	close(o.serving)
	p.stack.Push("writing of roles", func(ctx context.Context) error {
		select {
		case <-o.done:
		case <-time.After(ownObjectsTimeout):
		case <-ctx.Done():
		}
		return nil // the next start writes what this one has not
	})
	return nil
}

// wait returns when all is written.
func (o *ownObjects) wait(ctx context.Context, p *Plane) error {
	select {
	case <-o.done:
		return o.err
	case err := <-p.errs:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RoundTrip implements http.RoundTripper.
func (o *ownObjects) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-o.serving:
		return o.transport.RoundTrip(req)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}
