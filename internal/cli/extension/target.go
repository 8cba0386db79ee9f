// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/access/services"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// anonymous is the name of the missing ExtensionConfig for an extension that is
// given by its URL.
const anonymous = "extension"

// targetFlags choose the extension to call, and how, in addition to its URL or the
// name of its ExtensionConfig.
type targetFlags struct {
	mgmt            command.MgmtFlags
	caFile          string
	clientCert, key string
	serviceAddress  string
	settings        command.Pairs
	timeout         time.Duration
	url, config     string
}

func (f *targetFlags) add(cmd *cobra.Command, env *command.Env) {
	f.mgmt.Add(cmd, env)
	fl := cmd.Flags()
	fl.StringVar(&f.caFile, "ca-file", "", "file with the certificates (PEM) that the certificate of a URL is verified with (default: those of the system)")
	fl.StringVar(&f.clientCert, "client-cert-file", "", "certificate to show to an extension that asks for one")
	fl.StringVar(&f.key, "client-key-file", "", "key of --client-cert-file")
	fl.StringVar(&f.serviceAddress, "service-address", "", "host:port at which the extension's Service is reached from here, such as one that kubectl port-forward listens on")
	fl.Var(&f.settings, "setting", "setting to send, as k=v; may be repeated; wins over that of the ExtensionConfig")
	fl.DurationVar(&f.timeout, "timeout", 0, "how long a call may take, at most 30s (default: what the handler says)")
	for _, name := range []string{"ca-file", "client-cert-file", "client-key-file"} {
		_ = cmd.MarkFlagFilename(name, "crt", "pem", "cert", "key")
	}
}

func (f *targetFlags) check() error {
	switch {
	case f.timeout < 0 || f.timeout > extensionconfig.MaxTimeout:
		return command.Misuse(fmt.Errorf("--timeout %s: the limit of a call is %s", f.timeout, extensionconfig.MaxTimeout))
	case (f.clientCert == "") != (f.key == ""):
		return command.Misuse(errors.New("--client-cert-file and --client-key-file go together"))
	case f.caFile != "" && f.url == "":
		return command.Misuse(errors.New("--ca-file is for a URL: an ExtensionConfig has certificates of its own"))
	case f.serviceAddress != "" && f.url != "":
		return command.Misuse(errors.New("--service-address is for an ExtensionConfig with a Service, not for a URL"))
	}
	return nil
}

// target is an extension to talk to.
type target struct {
	config   *runtimev1.ExtensionConfig
	endpoint transport.Endpoint
	pool     *transport.Pool
	services *finder
	timeout  time.Duration
}

// open finds the extension. It reads the management cluster only for the name
// of an ExtensionConfig, and does not call the extension.
func (f *targetFlags) open(ctx context.Context, env *command.Env) (*target, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	t := &target{timeout: f.timeout, config: &runtimev1.ExtensionConfig{}, services: &finder{address: f.serviceAddress}}
	t.config.Name = anonymous
	t.config.Spec.ClientConfig.URL = f.url
	if f.url == "" {
		m, err := connect(env, &f.mgmt)
		if err != nil {
			return nil, err
		}
		if t.config, err = m.config(ctx, f.config); err != nil {
			return nil, err
		}
		t.services.cluster = &services.Resolver{Live: m.client, Choose: rand.IntN}
	}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("read --ca-file: %w", err)
		}
		t.config.Spec.ClientConfig.CABundle = pem
	}
	t.config.Spec.Settings = extensionconfig.Settings(t.config.Spec.Settings, f.settings)
	var err error
	if t.endpoint, err = extensions.Endpoint(t.config.Spec.ClientConfig); err != nil {
		return nil, err
	}
	t.pool, err = transport.New(transport.Options{ClientCertFile: f.clientCert, ClientKeyFile: f.key, Services: t.services})
	return t, err
}

// url is where the extension is, also for a Service.
func (t *target) url() string {
	s := t.endpoint.Service
	if s == nil {
		return t.endpoint.URL
	}
	return strings.TrimSuffix("https://"+t.endpoint.Host()+"/"+strings.TrimPrefix(s.Path, "/"), "/")
}

// finder resolves a Service: to the one given address, or as the management cluster
// resolves it.
type finder struct {
	address string
	cluster transport.Resolver
	// found means that the management cluster resolved it.
	found bool
}

func (f *finder) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	if f.address != "" {
		return f.address, nil
	}
	address, err := f.cluster.Resolve(ctx, namespace, name, port)
	f.found = err == nil
	return address, err
}

// discover returns the handlers of the extension. An ExtensionConfig has them in
// its status.
func (t *target) discover(ctx context.Context) ([]runtimev1.ExtensionHandler, error) {
	if len(t.config.Status.Handlers) > 0 {
		return t.config.Status.Handlers, nil
	}
	return t.ask(ctx)
}

// ask calls discovery.
func (t *target) ask(ctx context.Context) ([]runtimev1.ExtensionHandler, error) {
	d, err := catalog.Default().Lookup(hooksv1.Discovery)
	if err != nil {
		return nil, err
	}
	request, err := catalog.Default().NewRequest(d.GroupVersionHook)
	if err != nil {
		return nil, err
	}
	response := &hooksv1.DiscoveryResponse{}
	err = t.post(ctx, post{what: "discover the extension", path: d.Path(""), kind: d, request: request, response: response, timeout: extensionconfig.DefaultTimeout})
	if err != nil {
		return nil, err
	}
	handlers, err := extensionconfig.Handlers(catalog.Default(), t.config.Name, response)
	if err != nil {
		return nil, fmt.Errorf("discover the extension: its answer: %w", err)
	}
	return handlers, nil
}

// post is one call.
type post struct {
	what, path string
	kind       catalog.Descriptor
	request    any
	response   hooksv1.ResponseObject
	timeout    time.Duration
}

// post sends a request and decodes the answer into its response.
func (t *target) post(ctx context.Context, p post) error {
	body, err := json.Marshal(p.request)
	if err != nil {
		return fmt.Errorf("%s: write the request: %w", p.what, err)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(t.timeout, p.timeout))
	defer cancel()
	answer, err := t.pool.Probe(ctx, t.endpoint, p.path, body)
	if err != nil {
		return fmt.Errorf("%s: %w%s", p.what, err, t.advice(err))
	}
	if err := extensionconfig.Decode(answer, p.kind.Response, p.response); err != nil {
		return fmt.Errorf("%s: server %s: %w", p.what, t.endpoint.Host(), err)
	}
	return nil
}

// advice returns the remedy for a Service that is not reached from here.
func (t *target) advice(err error) string {
	failed, ok := errors.AsType[*transport.Error](err)
	if !ok || !t.services.found || (failed.Reason != transport.Connection && failed.Reason != transport.Timeout) {
		return ""
	}
	s, port := t.endpoint.Service, cmp.Or(t.endpoint.Service.Port, 443)
	return fmt.Sprintf(`

A Service is reached from within its cluster. From here, forward it:
  kubectl -n %s port-forward service/%s 9443:%d
and add --service-address 127.0.0.1:9443. If its certificate is for 127.0.0.1
too, its URL does as well: https://%s%s`, s.Namespace, s.Name, port, net.JoinHostPort("127.0.0.1", "9443"), s.Path)
}

// pick finds the handler of a hook, by its name if there are several.
func (t *target) pick(handlers []runtimev1.ExtensionHandler, hook catalog.GroupHook, name string) (runtimev1.ExtensionHandler, catalog.GroupVersionHook, error) {
	var found []runtimev1.ExtensionHandler
	var all, fitting []string
	for _, h := range handlers {
		short := strings.TrimSuffix(h.Name, "."+t.config.Name)
		all = append(all, fmt.Sprintf("%s (%s)", short, h.RequestHook.Hook))
		of, err := extensionconfig.Hook(h.RequestHook)
		if err != nil || of.GroupHook() != hook {
			continue
		}
		fitting = append(fitting, short)
		if name == "" || name == h.Name || name == short {
			found = append(found, h)
		}
	}
	slices.Sort(all)
	var err error
	switch {
	case len(found) == 1:
		of, err := extensionconfig.Hook(found[0].RequestHook)
		return found[0], of, err
	case len(found) > 1:
		err = command.Misuse(fmt.Errorf("the extension has several handlers for %s: choose one with --handler: %s", hook.Hook, strings.Join(fitting, ", ")))
	case len(all) == 0:
		err = errors.New("the extension has no handlers")
	case name != "" && len(fitting) > 0:
		err = fmt.Errorf("the extension has no handler %s for %s, but %s", name, hook.Hook, strings.Join(fitting, ", "))
	default:
		err = fmt.Errorf("the extension has no handler for %s, but %s", hook.Hook, strings.Join(all, ", "))
	}
	return runtimev1.ExtensionHandler{}, catalog.GroupVersionHook{}, err
}

// parseService reads namespace/name[:port][/path].
func parseService(text string) (runtimev1.ServiceReference, error) {
	var ref runtimev1.ServiceReference
	bad := func(why string) (runtimev1.ServiceReference, error) {
		return ref, fmt.Errorf("--service %q: %s: it is namespace/name[:port][/path]", text, why)
	}
	namespace, rest, ok := strings.Cut(text, "/")
	if !ok || namespace == "" {
		return bad("the namespace is missing")
	}
	name, path, hasPath := strings.Cut(rest, "/")
	name, port, hasPort := strings.Cut(name, ":")
	if name == "" {
		return bad("the name is missing")
	}
	ref.Namespace, ref.Name, ref.Port = namespace, name, new(int32(443))
	if hasPath {
		ref.Path = "/" + path
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return bad("port " + strconv.Quote(port) + " is no number from 1 to 65535")
		}
		ref.Port = new(int32(n))
	}
	return ref, nil
}

// hookText is a hook as people read it: its name and its version.
func hookText(h runtimev1.GroupVersionHook) string {
	_, version, _ := strings.Cut(h.APIVersion, "/")
	return h.Hook + "/" + version
}

// deprecation describes the deprecation of the version of a handler's hook; empty
// for one that stays.
func deprecation(h runtimev1.ExtensionHandler) string {
	return strings.Join(extensionconfig.Deprecated(catalog.Default(), []runtimev1.ExtensionHandler{h}), "")
}
