// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

const (
	callTimeout = 10 * time.Second // of one call through the client
	openTimeout = time.Minute      // for the first lists of a large cluster
	maxProbe    = 64 << 10         // bytes of a response to a probe
)

// connection is one connection to one API server. It never changes; another
// kubeconfig results in another connection.
type connection struct {
	kubeconfig []byte
	config     *rest.Config
	guard      *guard
	http       *http.Client
	base       *url.URL // of the API server
	client     client.Client
	nodes      *view[*corev1.Node]
	pods       *view[*corev1.Pod]
	kinds      *kinds

	cancel  context.CancelFunc // ends the views
	viewing sync.WaitGroup     // views that run
}

// newConnection prepares a connection. It sends nothing.
func newConnection(k *keeper, secret *corev1.Secret) (*connection, error) {
	cfg, err := k.read.configFrom(secret)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // the work per cluster is bounded; a limit would only add waiting
	cfg.UserAgent = "capstan"
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // see scanner
	cfg.WarningHandler = rest.NoWarnings{}                                                     // they are from another server, and would be stored forever to log each once
	if k.cache.Dial != nil {
		cfg.Dial = k.cache.Dial
	}
	c := &connection{kubeconfig: secret.Data[kubeconfig.DataKey], config: cfg, guard: newGuard(k.cache.answers)}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, kubeconfig.InSecret(secret, errors.New("its server is not a usable URL"))
	}
	c.base = base
	transport, err := newTransport(cfg, c.guard)
	if err != nil {
		return nil, kubeconfig.InSecret(secret, err)
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: noRedirects}
	if err := c.makeClients(k); err != nil {
		c.http.CloseIdleConnections()
		return nil, err
	}
	return c, nil
}

// makeClients creates one client for single calls, each of which has callTimeout,
// and one without a timeout for lists and watches: a watch lasts. Both use the same
// transport, so that its guard sees everything.
func (c *connection) makeClients(k *keeper) error {
	dynamic, err := apiutil.NewDynamicRESTMapper(c.config, c.http) // reads from the server only for kinds that are not built in
	if err != nil {
		return fmt.Errorf("make the mapper: %w", err)
	}
	calls := &http.Client{Transport: c.http.Transport, CheckRedirect: noRedirects, Timeout: callTimeout}
	direct, err := client.New(c.config, client.Options{
		HTTPClient: calls, Scheme: scheme.Scheme,
		Mapper: meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{builtIn(), dynamic}},
	})
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	lists := rest.CopyConfig(c.config)
	lists.APIPath, lists.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	lists.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	lister, err := rest.RESTClientForConfigAndClient(lists, c.http)
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	notify := func(obj client.Object) { k.cache.subscribers.notify(k.key, obj) }
	o := viewOptions{answers: k.cache.answers, views: k.cache.views, notify: notify, exceeded: c.guard.exceed}
	o.name, o.request = "nodes", requests(lister, "nodes", "", "")
	c.nodes = newNodes(o)
	o.name, o.request = "control plane pods", requests(lister, "pods", controlPlaneNamespace, controlPlaneLabel)
	c.pods = newPods(o)
	c.kinds = &kinds{lister: lister, notify: notify}
	c.client = &reader{Client: direct, answers: k.cache.answers, nodes: c.nodes, pods: c.pods}
	return nil
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// madeFrom reports whether the Secret still has the content that the connection
// uses.
func (c *connection) madeFrom(secret *corev1.Secret) bool {
	return bytes.Equal(c.kubeconfig, secret.Data[kubeconfig.DataKey])
}

// probe checks whether an API server answers. A server that does not show its
// version still shows the APIs that it serves.
func (c *connection) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	status, err := c.ask(ctx, c.base.JoinPath("version"), func(body []byte) bool {
		var v version.Info
		return json.Unmarshal(body, &v) == nil && v.GitVersion != ""
	})
	if status == http.StatusForbidden || status == http.StatusNotFound {
		_, err = c.ask(ctx, c.base.JoinPath("api", "v1"), func(body []byte) bool {
			var served metav1.APIResourceList
			return json.Unmarshal(body, &served) == nil && served.GroupVersion == "v1" && len(served.APIResources) > 0
		})
	}
	return err
}

// ask gets a response of a Kubernetes API server, or returns what is wrong with the
// response.
func (c *connection) ask(ctx context.Context, u *url.URL, valid func(body []byte) bool) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, fmt.Errorf("probe: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("probe %s: %w", u.Redacted(), plain(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbe))
	switch {
	case err != nil:
		return 0, fmt.Errorf("probe %s: %w", u.Redacted(), plain(err))
	case resp.StatusCode != http.StatusOK:
		return resp.StatusCode, fmt.Errorf("probe %s: it answered %d %s", u.Redacted(), resp.StatusCode, http.StatusText(resp.StatusCode))
	case !valid(body):
		return resp.StatusCode, fmt.Errorf("probe %s: its answer is not that of a Kubernetes API server", u.Redacted())
	}
	return resp.StatusCode, nil
}

// maxError limits the text of an error, which may be from a server.
const maxError = 300

// plain removes what differs between attempts, such as our own port, so that the
// same problem has the same text, and characters that are not printable.
func plain(err error) error {
	if e := excess(err); e != nil {
		return e
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return sanitize.Error(err, maxError)
}

// open fills the views, and keeps them up to date until close.
func (c *connection) open(ctx context.Context) error {
	viewing, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	failed := make(chan error, 1) // a view may fail before the receive
	c.viewing.Go(recovery.Func(ctx, func() { c.nodes.run(viewing, failed) }))
	c.viewing.Go(recovery.Func(ctx, func() { c.pods.run(viewing, failed) }))
	timeout := time.NewTimer(openTimeout)
	defer timeout.Stop()
	c.kinds.opened(viewing)
	for _, filled := range []<-chan struct{}{c.nodes.filled, c.pods.filled} {
		select {
		case <-filled:
		case err := <-failed:
			return err
		case <-timeout.C:
			return fmt.Errorf("list nodes and control plane pods: no answer within %s", openTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// close ends the views and waits for them. Calls in progress continue.
func (c *connection) close() {
	if c.cancel != nil {
		c.cancel()
	}
	c.kinds.closed()
	c.viewing.Wait()
	c.http.CloseIdleConnections()
}
