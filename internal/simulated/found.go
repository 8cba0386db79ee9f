// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
	"github.com/capstan-dev/capstan/internal/simulated/etcd"
)

// found assigns the cluster to the machine that ran kubeadm init, with its keys. A
// control plane of which no machine is left starts a new cluster: like a real one
// it has lost everything.
func (c *cluster) found(m *machine, pki bootstrap.PKI) error {
	if c.record.Founder == m.UID {
		return nil
	}
	if c.record.Founder != "" {
		for _, o := range c.machines {
			if o.UID != m.UID && o.Role.controlPlane() {
				return fmt.Errorf("kubeadm init: the cluster has a control plane already, of machine %s: further machines run kubeadm join", o.Name)
			}
		}
		if err := c.reset(); err != nil {
			return err
		}
	}
	c.record.Founder, c.record.PKI, c.record.External = m.UID, pki, m.run.ExternalEtcd()
	if err := c.trust(); err != nil {
		return err
	}
	c.startWork()
	return c.note()
}

// reset discards the objects, keys and members of an earlier control plane.
func (c *cluster) reset() error {
	c.stopServing()
	c.members.Store(nil)
	c.record.Founder, c.record.PKI, c.record.Serving, c.record.External, c.record.Etcd = "", bootstrap.PKI{}, certs.Pair{}, false, etcd.State{}
	if err := errors.Join(c.note(), removeFile(filepath.Join(c.dir, journalFile))); err != nil {
		return err
	}
	machines := c.machines
	err := c.open()
	c.machines = machines // open has read copies of them
	return err
}

// trust puts the cluster's keys to work: the API server's certificate and
// whose clients it trusts, and etcd.
func (c *cluster) trust() error {
	pki := c.record.PKI
	cert, err := loaded(c.record.Serving)
	if cert.Leaf == nil || cert.Leaf.VerifyHostname(c.place.host) != nil { // certificates behind the endpoint are never renewed
		cert, c.record.Serving, err = c.serving(c.b.clock.Now(), certs.CAValidity, nil)
	}
	if err != nil {
		return err
	}
	key, err := certs.ParseKey(pki.ServiceAccount.Key)
	if err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(pki.CA.Cert)
	c.server.Trust(apiserver.Trust{Serving: cert, ClientCAs: clients, ServiceAccountKey: key})
	if c.record.External {
		return nil
	}
	e, err := etcd.New(etcd.Options{
		Name: c.key.String() + "/" + string(c.record.Founder), CA: pki.Etcd, Clock: c.b.clock, State: c.record.Etcd, Changed: c.etcdChanged,
	})
	if err != nil {
		return err
	}
	c.members.Store(e)
	return nil
}

// serving issues a certificate for API servers, or for that of one machine. Called
// with the lock.
func (c *cluster) serving(from time.Time, validity time.Duration, of *machine) (tls.Certificate, certs.Pair, error) {
	leaf := certs.Leaf{
		CommonName: "kube-apiserver", Server: true, Now: from, Validity: validity,
		DNSNames: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		IPs:      []net.IP{net.IP(c.place.addr.Addr().AsSlice()), net.IPv4(127, 0, 0, 1)},
	}
	if of != nil {
		leaf.DNSNames, leaf.IPs = append(leaf.DNSNames, of.NodeName), append(leaf.IPs, net.ParseIP(of.Address))
	}
	if net.ParseIP(c.place.host) == nil {
		leaf.DNSNames = append(leaf.DNSNames, c.place.host)
	}
	pair, err := c.record.PKI.CA.Issue(leaf)
	if err != nil {
		return tls.Certificate{}, certs.Pair{}, fmt.Errorf("sign the API server's certificate: %w", err)
	}
	cert, err := loaded(pair)
	return cert, pair, err
}

// loaded parses a certificate for use; the pair may be empty.
func loaded(pair certs.Pair) (tls.Certificate, error) {
	if !pair.HasKey() {
		return tls.Certificate{}, nil
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the API server's certificate: %w", err)
	}
	return cert, nil
}

// certificate is the serving certificate of a machine's API server: kubeadm created
// it there, and only kubeadm renews it. Called with the lock.
func (c *cluster) certificate(m *machine) (tls.Certificate, error) {
	if m.certificate.Leaf != nil {
		return m.certificate, nil
	}
	cert, err := loaded(m.Serving)
	if cert.Leaf == nil {
		from, validity := c.b.clock.Now(), certs.CAValidity // of a machine that was created while no client connected
		if !m.CertificatesEnd.IsZero() {
			validity = certs.LeafValidity // the actual validity does not matter: no client reads its start
			from = m.CertificatesEnd.Add(-validity)
		}
		cert, m.Serving, err = c.serving(from, validity, m)
		if m.dirty = true; err == nil {
			if err := c.keepMachine(m); err != nil { // it is, with the machine's next step
				c.b.log.Error(err, "Keeping the certificate of an API server", "simulatedCluster", c.key, "machine", m.Name)
			}
		}
	}
	if err == nil {
		m.certificate = cert
	}
	return cert, err
}

// portForward serves the ports that clients forward to: those of an etcd, and of
// the API server of a machine.
func (c *cluster) portForward(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = stream.Close() })) // the client has disconnected
	defer stop()
	member, isEtcd := strings.CutPrefix(pod, "etcd-")
	node, isAPIServer := strings.CutPrefix(pod, "kube-apiserver-")
	e := c.members.Load()
	switch {
	case namespace != metav1.NamespaceSystem:
	case isEtcd && port == 2379 && e != nil:
		return e.Serve(member, etcd.Conn(stream))
	case isAPIServer:
		return c.serveMachine(node, port, stream)
	}
	return errors.Join(refused(namespace, pod, port), stream.Close())
}

func refused(namespace, pod string, port int32) error {
	return fmt.Errorf("pod %s/%s, port %d: connection refused", namespace, pod, port)
}

// serveMachine answers as the API server of the machine with that Node.
func (c *cluster) serveMachine(node string, port int32, stream io.ReadWriteCloser) error {
	c.mu.Lock()
	server, at := c.server, slices.IndexFunc(c.machines, func(m *machine) bool { return m.NodeName == node && m.apiServerPort() == port })
	if at < 0 || !c.machines[at].did(stepAPIServer) || c.machines[at].off() || !c.etcdRuns(c.machines[at]) {
		c.mu.Unlock()
		return errors.Join(refused(metav1.NamespaceSystem, "kube-apiserver-"+node, port), stream.Close())
	}
	m := c.machines[at]
	cert, err := c.certificate(m)
	hangs := !c.serves(m)
	c.mu.Unlock()
	switch {
	case err != nil:
		return errors.Join(err, stream.Close())
	case hangs:
		_, err := io.Copy(io.Discard, stream) // until the client has had enough
		return errors.Join(err, stream.Close())
	}
	return server.ServeStream(stream, cert, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Contains(c.machines, m) && c.serves(m)
	})
}

// populate writes what kubeadm init leaves in a cluster. What is there already
// was written before the process ended in the middle of it.
func (c *cluster) populate(m *machine) error {
	objs, err := m.run.ClusterObjects(c.record.PKI, c.place.addr.String(), c.b.clock.Now())
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := c.server.Store().Add(obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %s: %w", obj, obj.GetName(), err)
		}
	}
	return nil
}

// lowest is the version that clients of a control plane can rely on.
func lowest(machines []*machine) string {
	var low *version.Version
	for _, m := range machines {
		if v, err := version.ParseSemantic(m.Version); err == nil && (low == nil || v.LessThan(low)) {
			low = v
		}
	}
	if low == nil {
		return ""
	}
	return "v" + low.String()
}
