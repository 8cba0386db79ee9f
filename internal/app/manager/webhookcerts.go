// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	// webhookSecret has, in Capstan's namespace, the authority that signs the
	// certificates of the webhook servers of all replicas; the API server trusts
	// only this authority.
	webhookSecret = "capstan-webhook-ca"

	// webhookRenewal is the age at which a server certificate is renewed: two
	// thirds of its validity.
	webhookRenewal = certs.LeafValidity * 2 / 3
)

// certificate opens the certificate of the webhook server: one signed by the
// authority of all replicas, or one that a user provides.
func (w Webhooks) certificate(ctx context.Context, c client.Client, now clock.PassiveClock) (certificate, error) {
	if w.CertDir != "" {
		f := &fileCert{dir: w.CertDir}
		_, err := f.get(nil)
		return f, err
	}
	s := &servingCert{host: w.Host, clock: now, live: c}
	if w.Service != (types.NamespacedName{}) {
		s.host = w.Service.Name + "." + w.Service.Namespace + ".svc"
	}
	return s, s.refresh(ctx)
}

// servingCert issues the server's certificate, and renews it before it expires.
type servingCert struct {
	host  string
	clock clock.PassiveClock
	live  client.Client // nil: the authority is never read again

	mu        sync.Mutex // guards what follows
	authority certs.Pair
	trusted   []byte // nil: only authority
	current   *tls.Certificate
	issued    time.Time
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

func (c *servingCert) bundle() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trusted == nil {
		return c.authority.Cert
	}
	return c.trusted
}

func (c *servingCert) refresh(ctx context.Context) error {
	a, err := webhookAuthority(ctx, c.live, c.clock.Now())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trusted = a.trusted
	if !bytes.Equal(c.authority.Cert, a.signer.Cert) {
		c.authority, c.current = a.signer, nil // the next connection gets a certificate of it
	}
	return nil
}

// webhookAuthority reads the authority of all replicas, creates it, or continues
// its rotation if due. A later replica uses the authority that the first one
// created.
func webhookAuthority(ctx context.Context, c client.Client, now time.Time) (authority, error) {
	key := client.ObjectKey{Namespace: manifests.Namespace, Name: webhookSecret}
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return makeAuthority(ctx, c, key, now)
	}
	if err != nil {
		return authority{}, fmt.Errorf("read the webhooks' authority: %w", err)
	}
	now = now.UTC()
	a, err := authorityOf(secret)
	if err != nil {
		return authority{}, err
	}
	next, err := a.rotate(now)
	if err != nil || next.equal(a) {
		return next, err
	}
	next.into(secret)
	err = c.Update(ctx, secret)
	if apierrors.IsConflict(err) { // another replica was first
		return webhookAuthority(ctx, c, now)
	}
	if err != nil {
		return authority{}, fmt.Errorf("rotate the webhooks' authority: %w", err)
	}
	return next, nil
}

func makeAuthority(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time) (authority, error) {
	a, err := authority{}.rotate(now)
	if err != nil {
		return a, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: manifests.Namespace}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return a, fmt.Errorf("create namespace %s: %w", manifests.Namespace, err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Type: corev1.SecretTypeTLS}
	a.into(secret)
	err = c.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return webhookAuthority(ctx, c, now)
	}
	if err != nil {
		return a, fmt.Errorf("store the webhooks' authority: %w", err)
	}
	return a, nil
}

// fileCert serves the certificate in a directory, and checks at each connection
// whether the files have changed.
type fileCert struct {
	dir string

	mu      sync.Mutex // guards what follows
	current *tls.Certificate
	changed time.Time // the files, when they were read
}

// get returns the earlier certificate while the files do not match, as between the
// writes of the two.
func (f *fileCert) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cert, key := filepath.Join(f.dir, corev1.TLSCertKey), filepath.Join(f.dir, corev1.TLSPrivateKeyKey)
	changed, err := lastChange(cert, key)
	if err == nil && f.current != nil && changed.Equal(f.changed) {
		return f.current, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(cert, key); err == nil {
			f.current, f.changed = &pair, changed
		}
	}
	if f.current != nil {
		return f.current, nil
	}
	return nil, fmt.Errorf("read the webhooks' certificate: %w", err)
}

func (f *fileCert) bundle() []byte                { return nil }
func (f *fileCert) refresh(context.Context) error { return nil }

// lastChange is when the more recent of two files was written.
func lastChange(files ...string) (last time.Time, err error) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return last, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}
