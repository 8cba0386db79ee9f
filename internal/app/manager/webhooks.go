// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/internal/access/definitions"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/conversions"
	"github.com/capstan-dev/capstan/internal/app/install"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	// registration is how the names of both configurations of a provider
	// begin; each provider has its own, so that managers that run different
	// ones do not overwrite each other's.
	registration = "capstan-"

	// webhookSecret holds, in Capstan's namespace, the authority that signs what
	// the webhook servers of all replicas show; the API server trusts it alone.
	webhookSecret = "capstan-webhook-ca"

	// webhookRenewal is the age at which a server certificate is renewed:
	// two thirds of its life.
	webhookRenewal = certs.LeafValidity * 2 / 3

	// webhookReadTimeout bounds the header of a request, so that nobody holds
	// connections by sending nothing.
	webhookReadTimeout = 10 * time.Second

	// webhookStopTimeout lets reviews end that are under way: somebody's write
	// waits for each.
	webhookStopTimeout = 5 * time.Second
)

// Webhooks says where the webhooks listen and how the API server reaches them.
// The zero value serves none.
type Webhooks struct {
	// Listen is the host:port to serve on; port 0 takes a free one. "" serves none.
	Listen string
	// Host is the name or address by which the API server reaches this process;
	// "" means the host of Listen.
	Host string
	// Port is that by which it does; 0 means the one that they listen on.
	Port int
}

// webhookServer serves admission reviews over TLS. It is a manager Runnable
// that every replica runs, leader or not.
type webhookServer struct {
	live     client.Client
	hooks    map[string][]webhook.Webhook // by provider
	listener net.Listener
	port     int // by which it is reached, unless that is the listener's
	certs    *servingCert
	ended    chan error // receives why it serves no longer, and is closed then
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It serves already: that it does not any
// more ends the manager.
func (s *webhookServer) Start(ctx context.Context) error {
	select {
	case err := <-s.ended:
		return fmt.Errorf("serve webhooks: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// clientConfig is how the API server reaches a path.
func (s *webhookServer) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String()) // it is an address by construction
	if s.port != 0 {
		port = strconv.Itoa(s.port)
	}
	at := "https://" + net.JoinHostPort(s.certs.host, port) + path
	return admissionregistrationv1.WebhookClientConfig{URL: &at, CABundle: s.certs.authority.Cert}
}

// servingCert issues the server's certificate, and again before it ends.
type servingCert struct {
	authority certs.Pair
	host      string
	clock     clock.PassiveClock

	mu      sync.Mutex // guards what follows
	current *tls.Certificate
	issued  time.Time
}

func (c *servingCert) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if c.current != nil && now.Sub(c.issued) < webhookRenewal {
		return c.current, nil
	}
	leaf := certs.Leaf{CommonName: c.host, Server: true, Now: now}
	if ip := net.ParseIP(c.host); ip != nil {
		leaf.IPs = []net.IP{ip}
	} else {
		leaf.DNSNames = []string{c.host}
	}
	pair, err := c.authority.Issue(leaf)
	if err != nil {
		return nil, fmt.Errorf("issue the webhooks' certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("issue the webhooks' certificate: %w", err)
	}
	c.current, c.issued = &cert, now
	return c.current, nil
}

// webhookAuthority reads the authority of all replicas, or makes it. Who is
// second takes what the first one made.
func webhookAuthority(ctx context.Context, c client.Client, now time.Time) (certs.Pair, error) {
	key := client.ObjectKey{Namespace: manifests.Namespace, Name: webhookSecret}
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	if err == nil {
		return certs.FromSecret(secret, certs.CA)
	}
	if !apierrors.IsNotFound(err) {
		return certs.Pair{}, fmt.Errorf("read the webhooks' authority: %w", err)
	}
	pair, err := certs.NewCA(certs.ECDSAP256, "capstan-webhooks", now, certs.CAValidity)
	if err != nil {
		return certs.Pair{}, fmt.Errorf("make the webhooks' authority: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: manifests.Namespace}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return certs.Pair{}, fmt.Errorf("create namespace %s: %w", manifests.Namespace, err)
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{certs.CertKey: pair.Cert, certs.PrivateKeyKey: pair.Key},
	}
	err = c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return webhookAuthority(ctx, c, now)
	}
	if err != nil {
		return certs.Pair{}, fmt.Errorf("store the webhooks' authority: %w", err)
	}
	return pair, nil
}

// openWebhooks serves the webhooks of the chosen providers, of which the API
// server is yet to be told.
func (m *Manager) openWebhooks(ctx context.Context, c clock.PassiveClock) error {
	o := m.options
	if o.Webhooks.Listen == "" {
		return nil
	}
	live, err := client.New(m.mgr.GetConfig(), client.Options{Scheme: m.mgr.GetScheme(), Mapper: m.mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	authority, err := webhookAuthority(ctx, live, c.Now())
	if err != nil {
		return err
	}
	listener, err := o.Webhooks.listen(ctx, live, o.Providers)
	if err != nil {
		return err
	}
	listens, _, _ := net.SplitHostPort(o.Webhooks.Listen) // Listen has checked it
	s := &webhookServer{
		live: live, hooks: map[string][]webhook.Webhook{}, listener: listener, port: o.Webhooks.Port, ended: make(chan error, 1),
		certs: &servingCert{authority: authority, host: cmp.Or(o.Webhooks.Host, listens), clock: c},
	}
	var all []webhook.Webhook
	for _, provider := range o.Providers {
		s.hooks[provider] = webhooks.Of(webhooks.Clients{Live: live, Cache: cached{m.mgr.GetClient(), live, o.Namespace != ""}, Workload: m.workload}, m.backends, o.FeatureGates, provider)
		all = append(all, s.hooks[provider]...)
	}
	// Not HTTP/2, of which each idle connection takes a second to end: that would
	// be a second of every stop. The API server keeps connections all the same.
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
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certs.get},
	}
	go func() {
		defer close(s.ended)
		s.ended <- server.ServeTLS(listener, "", "")
	}()
	m.stack.Push("webhooks", func(ctx context.Context) error {
		_ = server.Shutdown(ctx) // what is still open is cut off with the process
		for range s.ended {
		}
		return nil
	})
	m.webhooks = s
	return nil
}

// WebhooksAddr is where the webhooks listen, which the manager serves since New.
func (m *Manager) WebhooksAddr() net.Addr { return m.webhooks.listener.Addr() }

// openConversion makes what converts objects. References in them are shown at the
// versions that the definitions of this API server name.
func (m *Manager) openConversion() (*conversion.Converter, error) {
	known := definitions.New()
	stop, err := known.Connect(m.mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	m.stack.Push("watch of definitions", func(context.Context) error { stop(); return nil })
	return conversions.New(known.Version)
}

// Conversion is how the API server has objects converted by this process; zero if
// it does not.
func (m *Manager) Conversion() install.Conversion {
	if m.webhooks == nil || !m.options.Conversion {
		return install.Conversion{}
	}
	at := m.webhooks.clientConfig(conversion.Path)
	return install.Conversion{URL: *at.URL, CABundle: at.CABundle, Providers: m.options.Providers}
}

// listen opens the listener. Where any port will do it takes one that
// the API server knows of an earlier start, if it is free: then nothing has to
// be registered anew. Those of other providers will do where it knows none of
// the chosen ones: nobody serves there, and so nobody else comes to.
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

// registeredPort is the first port at which the API server knows webhooks of
// one of the providers; "" if it knows none.
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

// ignoreUnknown drops that something is not there, or not to be seen by who
// asks: a manager may know the registrations of its own providers alone.
func ignoreUnknown(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// addressOf is the host and port at which a webhook is reached; "" if that is
// by a Service, which has ports of its own.
func addressOf(c admissionregistrationv1.WebhookClientConfig) string {
	if c.URL == nil {
		return ""
	}
	u, err := url.Parse(*c.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// register brings the webhook configurations of the providers up to date, and
// takes away those of the others that an earlier start has left, which ran
// them: the API server would refuse what nobody is here to admit. What is as it
// should be is not written.
func (s *webhookServer) register(ctx context.Context, providers []string) error {
	for _, provider := range controllers.Providers() {
		if !slices.Contains(providers, provider) {
			if err := s.withdraw(ctx, registration+provider); err != nil {
				return fmt.Errorf("withdraw webhooks of the provider %s, which does not run: %w", provider, err)
			}
			continue
		}
		mutating, validating := webhook.Configurations(registration+provider, s.hooks[provider], s.clientConfig)
		liveMutating, liveValidating := mutating.DeepCopy(), validating.DeepCopy()
		_, err := controllerutil.CreateOrUpdate(ctx, s.live, liveMutating, func() error {
			liveMutating.Webhooks = mutating.Webhooks
			return nil
		})
		if err != nil {
			return fmt.Errorf("register defaulting webhooks: %w", err)
		}
		_, err = controllerutil.CreateOrUpdate(ctx, s.live, liveValidating, func() error {
			liveValidating.Webhooks = validating.Webhooks
			return nil
		})
		if err != nil {
			return fmt.Errorf("register validating webhooks: %w", err)
		}
	}
	return nil
}

// withdraw deletes the configurations of that name whose webhooks are reached
// here. Those of another manager are elsewhere, whether it runs now or not.
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
