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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
	"github.com/capstan-dev/capstan/internal/simulated/etcd"
)

// found makes the cluster that of a machine's kubeadm init, with its keys. A
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
	return c.note()
}

// reset forgets the objects, keys and members of an earlier control plane.
func (c *cluster) reset() error {
	c.stopListening()
	c.server.Close()
	if e := c.members.Swap(nil); e != nil {
		e.Close()
	}
	c.record.Founder, c.record.PKI, c.record.External, c.record.Etcd = "", bootstrap.PKI{}, false, etcd.State{}
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
	cert, err := c.serving(c.b.clock.Now(), certs.CAValidity) // behind the endpoint nobody renews anything
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

// serving makes a certificate for API servers. Called with the lock.
func (c *cluster) serving(from time.Time, validity time.Duration) (tls.Certificate, error) {
	leaf := certs.Leaf{
		CommonName: "kube-apiserver", Server: true, Now: from, Validity: validity,
		DNSNames: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		IPs:      []net.IP{net.IP(c.place.addr.Addr().AsSlice()), net.IPv4(127, 0, 0, 1)},
	}
	if net.ParseIP(c.place.host) == nil {
		leaf.DNSNames = append(leaf.DNSNames, c.place.host)
	}
	pair, err := c.record.PKI.CA.Issue(leaf)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign the API server's certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the API server's certificate: %w", err)
	}
	return cert, nil
}

// greet shows the certificate of the API server of a machine to a client.
func (c *cluster) greet(ctx context.Context, node string, stream io.ReadWriteCloser) error {
	c.mu.Lock()
	at := slices.IndexFunc(c.machines, func(m *machine) bool { return m.NodeName == node && c.serves(m) })
	if at < 0 {
		c.mu.Unlock()
		return fmt.Errorf("API server on node %s: connection refused", node)
	}
	from, validity := c.b.clock.Now(), certs.CAValidity // of a machine that was made when nobody looked
	if end := c.machines[at].CertificatesEnd; !end.IsZero() {
		validity = certs.LeafValidity // whatever it was: nobody asks for its beginning
		from = end.Add(-validity)
	}
	cert, err := c.serving(from, validity)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return tls.Server(etcd.Conn(stream), &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}).HandshakeContext(ctx)
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
