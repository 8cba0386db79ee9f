// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/install"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

const (
	// registration is the prefix of the names of both configurations of a provider;
	// each provider has its own, so that managers that run different providers do
	// not overwrite each other's.
	registration = "capstan-"

	// webhookPeriod is how often each replica reads the authority. It is short
	// compared to rotationDelay.
	webhookPeriod = time.Hour

	// webhookReadTimeout bounds the time to read the header of a request, so that
	// no client holds connections by sending nothing.
	webhookReadTimeout = 10 * time.Second

	// webhookStopTimeout bounds the wait for running reviews at the stop: a
	// client's write waits for each.
	webhookStopTimeout = 5 * time.Second
)

// Webhooks define where the webhooks listen and how the API server reaches them.
// The zero value serves none.
type Webhooks struct {
	// Listen is the host:port to serve on; port 0 takes a free one. "" serves none.
	Listen string
	// Host is the name or address by which the API server reaches this process;
	// "" means the host of Listen.
	Host string
	// Port is the port by which it does; 0 means the one that they listen on.
	Port int
	// Service routes to all replicas at port 443, and replaces Host; the zero value
	// means none.
	Service types.NamespacedName
	// CertDir has tls.crt and tls.key of an external issuer that also sets the
	// authorities that the API server trusts; the files are read again when they
	// change. With "" the manager does both.
	CertDir string
}

// complete refuses contradictory options.
func (w Webhooks) complete() error {
	switch byService := w.Service != (types.NamespacedName{}); {
	case w.Listen == "" && (byService || w.CertDir != ""):
		return errors.New("webhooks have a Service or a folder of certificates, and are not served: say where to serve them with --webhook-address")
	case byService && w.Host != "":
		return errors.New("webhooks are reached by a host and by a Service: give one of --webhook-host and --webhook-service")
	}
	return nil
}

// webhookServer serves admission reviews over TLS. It is a manager Runnable
// that every replica runs, leader or not.
type webhookServer struct {
	live     client.Client
	hooks    map[string][]webhook.Webhook // by provider
	listener net.Listener
	cert     certificate
	at       Webhooks // Host is set unless there is a Service

	providers []string // that run here
	converts  bool
	config    *rest.Config
	clock     clock.WithTicker
	log       logr.Logger

	ended chan error // receives why it no longer serves, and is then closed
}

// certificate is the certificate of the webhook server.
type certificate interface {
	// get returns the certificate for a connection.
	get(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// bundle has the authorities for the API server to trust, in PEM; nil if
	// another client sets them.
	bundle() []byte
	// refresh reads a newer authority, or creates one that is due.
	refresh(context.Context) error
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. The server already runs; its end stops the
// manager. Until then Start updates the authorities that the API server trusts.
func (s *webhookServer) Start(ctx context.Context) error {
	tick := s.clock.NewTicker(webhookPeriod)
	defer tick.Stop()
	for {
		select {
		case err := <-s.ended:
			return fmt.Errorf("serve webhooks: %w", err)
		case <-ctx.Done():
			return nil
		case <-tick.C():
			if err := s.refresh(ctx); err != nil {
				s.log.Error(err, "Looking after the certificates of webhooks", "again", webhookPeriod)
			}
		}
	}
}

// refresh reads the authority that another replica has created, or creates the next
// one when it is due, and registers it with the API server.
func (s *webhookServer) refresh(ctx context.Context) error {
	if err := s.cert.refresh(ctx); err != nil {
		return err
	}
	return s.announce(ctx)
}

// announce registers the address of the providers' webhooks with the API server, and
// the authorities to trust there, also for those that convert.
func (s *webhookServer) announce(ctx context.Context) error {
	if err := s.register(ctx, s.providers); err != nil {
		return err
	}
	if s.at.Service == (types.NamespacedName{}) || !s.converts {
		return nil
	}
	return install.Trust(ctx, s.config, s.at.Service, s.cert.bundle(), s.providers)
}

// clientConfig returns how the API server reaches a path.
func (s *webhookServer) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	client := admissionregistrationv1.WebhookClientConfig{CABundle: s.cert.bundle()}
	if s.at.Service != (types.NamespacedName{}) {
		client.Service = &admissionregistrationv1.ServiceReference{Namespace: s.at.Service.Namespace, Name: s.at.Service.Name, Path: &path, Port: new(int32(443))}
		return client
	}
	_, port, _ := net.SplitHostPort(s.listener.Addr().String()) // it is an address by construction
	if s.at.Port != 0 {
		port = strconv.Itoa(s.at.Port)
	}
	client.URL = new("https://" + net.JoinHostPort(s.at.Host, port) + path)
	return client
}

// openWebhooks serves the webhooks of the chosen providers, which are not yet
// registered with the API server.
func (m *Manager) openWebhooks(ctx context.Context, c clock.WithTicker) error {
	o := m.options
	if o.Webhooks.Listen == "" {
		return nil
	}
	live, err := client.New(m.mgr.GetConfig(), client.Options{Scheme: m.mgr.GetScheme(), Mapper: m.mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	listens, _, _ := net.SplitHostPort(o.Webhooks.Listen) // listening validates it
	at := o.Webhooks
	if at.Service == (types.NamespacedName{}) {
		at.Host = cmp.Or(at.Host, listens)
	}
	cert, err := at.certificate(ctx, live, c)
	if err != nil {
		return err
	}
	listener, err := o.Webhooks.listen(ctx, live, o.Providers)
	if err != nil {
		return err
	}
	s := &webhookServer{
		live: live, hooks: map[string][]webhook.Webhook{}, listener: listener, ended: make(chan error, 1),
		cert: cert, at: at, providers: o.Providers, converts: o.Conversion, config: m.mgr.GetConfig(), clock: c, log: o.Log.WithName("webhooks"),
	}
	var all []webhook.Webhook
	for _, provider := range o.Providers {
		s.hooks[provider] = webhooks.Of(webhooks.Clients{Live: live, Cache: cached{m.mgr.GetClient(), live, o.Namespace != ""}, Workload: m.workload}, m.backends, o.FeatureGates, provider)
		all = append(all, s.hooks[provider]...)
	}
	// Not HTTP/2, of which each idle connection takes a second to end: that would
	// be a second of every stop. The API server reuses connections anyway.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	mux := webhook.Handler(all)
	if o.Conversion {
		converter, err := m.openConversion()
		if err != nil {
			return err
		}
		mux.Handle("POST "+conversion.Path, converter)
	}
	server := &http.Server{
		Handler:           mux,
		Protocols:         &protocols,
		ReadHeaderTimeout: webhookReadTimeout,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.cert.get},
	}
	go recovery.Func(ctx, func() {
		defer close(s.ended)
		s.ended <- server.ServeTLS(listener, "", "")
	})()
	m.stack.Push("webhooks", func(ctx context.Context) error {
		_ = server.Shutdown(ctx) // the process exit closes what is still open
		for range s.ended {
		}
		return nil
	})
	m.webhooks = s
	return nil
}

// WebhooksAddr is where the webhooks listen, from New on.
func (m *Manager) WebhooksAddr() net.Addr { return m.webhooks.listener.Addr() }

// openConversion builds the converter. References in converted objects have the
// versions that the definitions of this API server name.
func (m *Manager) openConversion() (*conversion.Converter, error) {
	known := install.NewCRDVersions()
	stop, err := known.Connect(m.mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	m.stack.Push("watch of definitions", func(context.Context) error { stop(); return nil })
	return webhooks.NewConverter(known.Version)
}

// Conversion returns how the API server reaches this process for conversions; zero
// if it does not use it.
func (m *Manager) Conversion() install.Conversion {
	if m.webhooks == nil || !m.options.Conversion {
		return install.Conversion{}
	}
	at := m.webhooks.clientConfig(conversion.Path)
	if at.URL == nil {
		return install.Conversion{} // definitions that name a Service include it
	}
	return install.Conversion{URL: *at.URL, CABundle: at.CABundle, Providers: m.options.Providers}
}

// listen opens the listener. If any port is acceptable, it uses the one that an
// earlier start has registered with the API server, if it is free: then nothing has
// to be registered again. If the chosen providers have none, it uses a port of
// other providers: no process serves there, so none will take it.
func (w Webhooks) listen(ctx context.Context, c client.Reader, providers []string) (net.Listener, error) {
	address := w.Listen
	if host, port, err := net.SplitHostPort(address); err == nil && port == "0" && w.Port == 0 {
		others := slices.DeleteFunc(controllers.Providers(), func(p string) bool { return slices.Contains(providers, p) })
		known, err := registeredPort(ctx, c, append(slices.Clone(providers), others...))
		if err != nil {
			return nil, err
		}
		if known != "" {
			if l, err := net.Listen("tcp", net.JoinHostPort(host, known)); err == nil {
				return l, nil
			}
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks on %s: %w; choose another address", address, err)
	}
	return l, nil
}

// registeredPort is the first port in the registrations of webhooks of one of the
// providers; "" if there is none.
func registeredPort(ctx context.Context, c client.Reader, providers []string) (string, error) {
	for _, provider := range providers {
		known := &admissionregistrationv1.ValidatingWebhookConfiguration{} // not every provider defaults something
		err := c.Get(ctx, client.ObjectKey{Name: registration + provider}, known)
		if ignoreUnknown(err) != nil {
			return "", fmt.Errorf("read the webhooks' registration: %w", err)
		}
		for _, w := range known.Webhooks {
			if _, port, err := net.SplitHostPort(addressOf(w.ClientConfig)); err == nil {
				return port, nil
			}
		}
	}
	return "", nil
}

// ignoreUnknown drops the errors for an object that does not exist or must not be
// read: a manager may have access only to the registrations of its own providers.
func ignoreUnknown(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// addressOf returns where a webhook is reached: a host and port, or the namespace
// and name of a Service.
func addressOf(c admissionregistrationv1.WebhookClientConfig) string {
	if c.Service != nil {
		return c.Service.Namespace + "/" + c.Service.Name
	}
	if c.URL == nil {
		return ""
	}
	u, err := url.Parse(*c.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// register updates the webhook configurations of the providers, and removes those
// that an earlier start with other providers left: the API server would refuse
// writes, because no process serves those webhooks. Configurations that are up to
// date are not written.
func (s *webhookServer) register(ctx context.Context, providers []string) error {
	for _, provider := range controllers.Providers() {
		if !slices.Contains(providers, provider) {
			if err := s.withdraw(ctx, registration+provider); err != nil {
				return fmt.Errorf("withdraw webhooks of the provider %s, which does not run: %w", provider, err)
			}
			continue
		}
		// Replicas that start together write the same.
		err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
			return s.write(ctx, provider)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// write updates the configurations of one provider. Authorities that other clients
// have set stay.
func (s *webhookServer) write(ctx context.Context, provider string) error {
	mutating, validating := webhook.Configurations(registration+provider, s.hooks[provider], s.clientConfig)
	liveMutating, liveValidating := mutating.DeepCopy(), validating.DeepCopy()
	_, err := controllerutil.CreateOrUpdate(ctx, s.live, liveMutating, func() error {
		for i := range mutating.Webhooks {
			for _, theirs := range liveMutating.Webhooks {
				if ours := &mutating.Webhooks[i]; ours.Name == theirs.Name && ours.ClientConfig.CABundle == nil {
					ours.ClientConfig.CABundle = theirs.ClientConfig.CABundle
				}
			}
		}
		liveMutating.Webhooks = mutating.Webhooks
		return nil
	})
	if err != nil {
		return fmt.Errorf("register defaulting webhooks: %w", err)
	}
	_, err = controllerutil.CreateOrUpdate(ctx, s.live, liveValidating, func() error {
		for i := range validating.Webhooks {
			for _, theirs := range liveValidating.Webhooks {
				if ours := &validating.Webhooks[i]; ours.Name == theirs.Name && ours.ClientConfig.CABundle == nil {
					ours.ClientConfig.CABundle = theirs.ClientConfig.CABundle
				}
			}
		}
		liveValidating.Webhooks = validating.Webhooks
		return nil
	})
	if err != nil {
		return fmt.Errorf("register validating webhooks: %w", err)
	}
	return nil
}

// withdraw deletes the configurations of that name whose webhooks route to this
// process. Those of another manager have another address, whether it runs now or
// not.
func (s *webhookServer) withdraw(ctx context.Context, name string) error {
	here := addressOf(s.clientConfig(""))
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, config := range []client.Object{mutating, validating} {
		if err := ignoreUnknown(s.live.Get(ctx, client.ObjectKey{Name: name}, config)); err != nil {
			return err
		}
	}
	var stale []client.Object
	if slices.ContainsFunc(mutating.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return addressOf(w.ClientConfig) == here }) {
		stale = append(stale, mutating)
	}
	if slices.ContainsFunc(validating.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return addressOf(w.ClientConfig) == here }) {
		stale = append(stale, validating)
	}
	for _, config := range stale {
		if err := ignoreUnknown(s.live.Delete(ctx, config, client.Preconditions{UID: new(config.GetUID())})); err != nil {
			return err
		}
	}
	return nil
}
