// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/server/mux"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/mgmtplane/election"
	"github.com/capstan-dev/capstan/internal/mgmtplane/relay"
)

// MembersPath is where the API server of a plane with an external etcd lists the
// planes that share it, as a JSON array of members.Member.
const MembersPath = "/capstan/members"

// others handles the planes with which a plane shares an external etcd. With an
// embedded one it has no client, and leads from its start.
type others struct {
	client     *clientv3.Client
	leads      chan struct{} // closed when it leads
	mu         sync.Mutex    // guards membership
	membership *election.Membership
}

// connect creates a client of an external etcd, which does not call it yet.
func (c *completed) connect(p *Plane) error {
	p.others.leads = make(chan struct{})
	if len(c.Etcd.Servers) == 0 {
		close(p.others.leads)
		return nil
	}
	cfg := clientv3.Config{Endpoints: c.Etcd.Servers, DialTimeout: dialTimeout, Logger: zap.NewNop()}
	if strings.HasPrefix(c.Etcd.Servers[0], "https://") {
		var err error
		if cfg.TLS, err = c.Etcd.TLS(); err != nil {
			return err
		}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	p.others.client = client
	p.stack.Push("connection to etcd", func(context.Context) error {
		if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return nil
}

// meet refuses an external etcd whose planes have other certificates and keys: one
// plane would not trust what another signs.
func (c *completed) meet(ctx context.Context, p *Plane, keys pki.Folder) error {
	if p.others.client == nil {
		return nil
	}
	ours, err := keys.Fingerprint()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	key := election.Folder(c.Etcd.Prefix) + "/authorities"
	res, err := p.others.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, ours)).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return fmt.Errorf("compare certificates and keys with those of other planes in etcd: %w", err)
	}
	if !res.Succeeded && string(res.Responses[0].GetResponseRange().Kvs[0].Value) != ours {
		return fmt.Errorf("planes with other certificates and keys use this etcd and prefix: start this one with --join and the file \"join\" of a data directory of theirs, or choose another --etcd-prefix; if theirs are lost, remove the key %s from etcd, which ends all that the old ones made", key)
	}
	if err := c.fit(ctx, p); err != nil {
		return err
	}
	store := c.Etcd.Store
	if err := pki.WriteJoinFile(c.dir.Join(), store, keys, c.now()); err != nil {
		return fmt.Errorf("write what other planes join by: %w", err)
	}
	return nil
}

// fit refuses a plane that must not join the others, before it changes their shared
// data.
func (c *completed) fit(ctx context.Context, p *Plane) error {
	self, err := c.self(p)
	if err != nil {
		return err
	}
	there, err := election.List(ctx, p.others.client, c.Etcd.Prefix)
	if err != nil {
		return err
	}
	return election.Fit(self, there)
}

// self returns the description of this plane for the others.
func (c *completed) self(p *Plane) (m election.Member, err error) {
	m = election.Member{Dir: string(c.dir), Address: c.reachedAt(p.addr), Version: c.Version, Since: c.now()}
	if m.Name, err = c.memberName(); err != nil {
		return m, err
	}
	m.Host, err = os.Hostname()
	return m, err
}

// join makes the plane a member of the planes of an external etcd. Its controllers
// wait until it leads; when it no longer does, the plane ends.
func (c *completed) join(ctx context.Context, p *Plane) error {
	if p.others.client == nil {
		return nil
	}
	self, err := c.self(p)
	if err != nil {
		return err
	}
	m, err := election.Join(ctx, p.others.client, c.Etcd.Prefix, self)
	if err != nil {
		return err
	}
	p.others.mu.Lock()
	p.others.membership = m
	p.others.mu.Unlock()
	done, ended := make(chan struct{}), make(chan struct{})
	go recovery.Func(ctx, func() {
		defer close(ended)
		select {
		case <-m.Elected():
			close(p.others.leads)
		case <-done:
			return
		}
		select {
		case <-m.Lost():
			p.fail(lifecycle.ErrDeposed)
		case <-done:
		}
	})()
	p.stack.Push("membership", func(ctx context.Context) error {
		close(done)
		<-ended
		_ = m.Leave(ctx) // otherwise etcd ends it, a few seconds later
		return nil
	})
	return nil
}

// reachedAt returns the address by which other hosts reach an API server that
// listens on all addresses of this one.
func (c *completed) reachedAt(addr string) string {
	host, port, _ := net.SplitHostPort(addr) // it is an address by construction
	listens, _, _ := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(listens); listens != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr
	}
	for _, h := range c.hosts { // the addresses of the host are last
		if ip := net.ParseIP(h); ip != nil && !ip.IsLoopback() {
			host = h
		}
	}
	return net.JoinHostPort(host, port)
}

// dialer returns how the API server connects to addresses in the cluster. Pods run
// where a plane leads: the other planes connect through its API server.
func (c *completed) dialer(p *Plane, keys pki.Folder) Dial {
	if c.Dial == nil || p.others.client == nil {
		return c.Dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-p.others.leads:
			return c.Dial(ctx, network, address)
		default:
		}
		leader, err := p.others.leader(ctx)
		if err != nil {
			return nil, err
		}
		cfg, err := asAdministrator(keys)
		if err != nil {
			return nil, err
		}
		return relay.Through(ctx, leader, cfg, address)
	}
}

// leader returns the address of the leader.
func (o *others) leader(ctx context.Context) (string, error) {
	all, err := o.list(ctx)
	if err != nil {
		return "", err
	}
	if len(all) == 0 || all[0].Gone {
		return "", errors.New("no plane leads")
	}
	return all[0].Address, nil
}

func asAdministrator(keys pki.Folder) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(keys.Cert("admin"), keys.Key("admin"))
	if err != nil {
		return nil, fmt.Errorf("read certificate of the administrator: %w", err)
	}
	pem, err := os.ReadFile(keys.Cert("ca"))
	if err != nil {
		return nil, fmt.Errorf("read the authority of the planes: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}

// serveOthers serves, at the API server, the requests of other planes, and of
// "capstan status", to a plane that shares its store.
func (c *completed) serveOthers(p *Plane, mux *mux.PathRecorderMux) {
	if p.others.client == nil {
		return
	}
	mux.Handle(MembersPath, &p.others)
	if c.Dial != nil {
		mux.Handle(relay.Path, relay.Handler(func(ctx context.Context, network, address string) (net.Conn, error) {
			select {
			case <-p.others.leads:
				return c.Dial(ctx, network, address)
			default:
				return nil, errors.New("this plane does not lead")
			}
		}))
	}
}

// memberName returns the name of the data directory, which the first call
// generates.
func (c *completed) memberName() (string, error) {
	b, err := os.ReadFile(c.dir.Member())
	if err == nil && len(b) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the name of this plane: %w", err)
	}
	name := rand.String(8)
	if err := atomicfile.Write(c.dir.Member(), []byte(name+"\n")); err != nil {
		return "", fmt.Errorf("write the name of this plane: %w", err)
	}
	return name, nil
}

// Leads is closed when the controllers of this plane may act: at its start, or once
// it leads the planes that share its etcd.
func (p *Plane) Leads() <-chan struct{} { return p.others.leads }

// list returns the planes that share the store, the leader first.
func (o *others) list(ctx context.Context) ([]election.Member, error) {
	o.mu.Lock()
	m := o.membership
	o.mu.Unlock()
	if m == nil {
		return nil, errors.New("the plane is starting: try again")
	}
	return m.List(ctx)
}

// mayAct returns an error once this plane has led and another one may.
func (o *others) mayAct() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.membership == nil {
		return nil // it has not joined: what it writes now each plane writes at its start
	}
	return o.membership.MayAct()
}

// ServeHTTP lists the planes that share the store.
func (o *others) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, err := o.list(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the client may have disconnected
}
