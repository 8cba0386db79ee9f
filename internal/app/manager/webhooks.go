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
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/certs"
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

	// webhookRenewal is the age at which a server certificate is made anew:
	// two thirds of its life.
	webhookRenewal = certs.LeafValidity * 2 / 3

	webhookReadTimeout = 10 * time.Second
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
}

// webhookServer serves admission reviews over TLS. It is a manager Runnable
// that every replica runs, leader or not.
type webhookServer struct {
	handler  http.Handler
	listener net.Listener
	certs    *servingCert
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (s *webhookServer) Start(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: webhookReadTimeout,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certs.get},
	}
	stopped := context.AfterFunc(ctx, func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), webhookStopTimeout)
		defer cancel()
		_ = server.Shutdown(stop) // what is still open is cut off with the process
	})
	defer stopped()
	if err := server.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return nil
}

// url is where the API server finds a path.
func (s *webhookServer) url(path string) string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String()) // it is an address by construction
	return "https://" + net.JoinHostPort(s.certs.host, port) + path
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

// setupWebhooks opens the listener, tells the API server of the webhooks of the
// chosen providers, and adds their server to the manager.
func setupWebhooks(ctx context.Context, mgr ctrl.Manager, o Options, backends host.Backends, c clock.PassiveClock) error {
	if o.Webhooks.Listen == "" {
		return nil
	}
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return err
	}
	authority, err := webhookAuthority(ctx, live, c.Now())
	if err != nil {
		return err
	}
	listener, err := listenForWebhooks(ctx, live, o.Webhooks.Listen, registration+o.Providers[0])
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(o.Webhooks.Listen) // Listen has checked it
	s := &webhookServer{listener: listener, certs: &servingCert{authority: authority, host: cmp.Or(o.Webhooks.Host, host), clock: c}}
	var served []webhook.Webhook
	for _, provider := range o.Providers {
		all := append(webhooks.Of(live, backends, provider), idleWarnings(mgr.GetScheme(), provider)...)
		if err := s.register(ctx, live, registration+provider, all); err != nil {
			return errors.Join(err, listener.Close())
		}
		served = append(served, all...)
	}
	s.handler = webhook.Handler(served)
	return mgr.Add(s)
}

// listenForWebhooks opens the listener. Where any port will do it takes the one
// that the API server knows of an earlier start, from the configurations called
// registered, if it is free: then nothing has to be registered anew.
func listenForWebhooks(ctx context.Context, c client.Reader, address, registered string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && port == "0" {
		known, err := registeredPort(ctx, c, registered)
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

// registeredPort is the port of the webhooks that the API server knows; "" if
// it knows none.
func registeredPort(ctx context.Context, c client.Reader, name string) (string, error) {
	known := &admissionregistrationv1.ValidatingWebhookConfiguration{} // not every provider defaults something
	if err := c.Get(ctx, client.ObjectKey{Name: name}, known); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read the webhooks' registration: %w", err)
	}
	for _, w := range known.Webhooks {
		if w.ClientConfig.URL == nil {
			continue // reached by a Service, which has ports of its own
		}
		if u, err := url.Parse(*w.ClientConfig.URL); err == nil {
			return u.Port(), nil
		}
	}
	return "", nil
}

// register brings the webhook configurations of a provider up to date. What is
// as it should be is not written.
func (s *webhookServer) register(ctx context.Context, c client.Client, name string, all []webhook.Webhook) error {
	mutating, validating := webhook.Configurations(name, all, func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new(s.url(path)), CABundle: s.certs.authority.Cert}
	})
	liveMutating, liveValidating := mutating.DeepCopy(), validating.DeepCopy()
	_, err := controllerutil.CreateOrUpdate(ctx, c, liveMutating, func() error {
		liveMutating.Webhooks = mutating.Webhooks
		return nil
	})
	if err != nil {
		return fmt.Errorf("register defaulting webhooks: %w", err)
	}
	_, err = controllerutil.CreateOrUpdate(ctx, c, liveValidating, func() error {
		liveValidating.Webhooks = validating.Webhooks
		return nil
	})
	if err != nil {
		return fmt.Errorf("register validating webhooks: %w", err)
	}
	return nil
}
