// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/podforward"
)

// refuseDial is the dialer of a copy.
func refuseDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("a plan opens no connection")
}

// certificateLife is how long a certificate of kubeadm is valid.
const certificateLife = 365 * 24 * time.Hour

// certificateExpiry returns when the certificate of a machine expires that was
// created in the copy.
func (w *workloads) certificateExpiry(context.Context, podforward.Target) (time.Time, error) {
	return w.clock.Now().Add(certificateLife).Truncate(time.Second), nil
}

// Connect implements etcd.Connector.
func (w *workloads) Connect(_ context.Context, t etcd.Target) (etcd.Client, error) {
	namespace, name, _ := strings.Cut(t.Cluster, "/")
	c := w.get(client.ObjectKey{Namespace: namespace, Name: name})
	if err := c.failure(); err != nil {
		return nil, err
	}
	for _, node := range t.Nodes {
		for _, m := range c.members {
			if m.Name == node && c.servers[node] {
				return &member{c, m.ID}, nil
			}
		}
	}
	return nil, fmt.Errorf("no member of etcd runs on %s", strings.Join(t.Nodes, ", "))
}

// member is a member of etcd that answers. It implements etcd.Client.
type member struct {
	of *cluster
	id uint64
}

// Members implements etcd.Client.
func (m *member) Members(context.Context) ([]etcd.Member, error) {
	return slices.Clone(m.of.members), nil
}

// Status implements etcd.Client.
func (m *member) Status(context.Context) (etcd.Status, error) {
	return etcd.Status{Member: m.id, Leader: m.of.leader}, nil
}

// Remove implements etcd.Client.
func (m *member) Remove(_ context.Context, id uint64) error {
	m.of.changes++
	m.of.members = slices.DeleteFunc(m.of.members, func(x etcd.Member) bool { return x.ID == id })
	if m.of.leader == id && len(m.of.members) > 0 {
		m.of.leader = m.of.members[0].ID
	}
	return nil
}

// MoveLeader implements etcd.Client.
func (m *member) MoveLeader(_ context.Context, to uint64) error {
	m.of.changes++
	m.of.leader = to
	return nil
}

// Close implements etcd.Client.
func (*member) Close() error { return nil }

// join adds a member on a Node, whose API server runs.
func (c *cluster) join(node string) {
	c.changes++
	c.servers[node] = true
	c.lastID++
	c.members = append(c.members, etcd.Member{ID: c.lastID, Name: node})
	if c.leader == 0 {
		c.leader = c.lastID
	}
}
