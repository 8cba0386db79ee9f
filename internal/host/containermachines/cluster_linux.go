// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"syscall"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containers"
)

var _ localinfra.Backend = (*Backend)(nil)

// CheckEndpoint implements localinfra.Backend. The endpoint is the host's own address
// among its machines, which is not known before.
func (b *Backend) CheckEndpoint(at clusterv1.APIEndpoint) error {
	a, err := netip.ParseAddr(at.Host)
	if err != nil || !inPool(a) || at.Port < 1 || at.Port > 65535 {
		return fmt.Errorf("%s is no address that a host has among its container machines: leave the endpoint out, and it is chosen", at.Host)
	}
	return nil
}

// EnsureCluster implements localinfra.Backend.
func (b *Backend) EnsureCluster(ctx context.Context, want localinfra.Cluster) (clusterv1.APIEndpoint, error) {
	at, err := b.openCluster(ctx, want, !want.Made)
	if err != nil {
		return clusterv1.APIEndpoint{}, fmt.Errorf("container cluster %s: %w", want.NamespacedName, b.full(err))
	}
	return at, nil
}

// ResumeCluster implements localinfra.Backend.
func (b *Backend) ResumeCluster(ctx context.Context, want localinfra.Cluster) error {
	if _, err := b.openCluster(ctx, want, false); err != nil {
		return fmt.Errorf("container cluster %s: %w", want.NamespacedName, err)
	}
	return nil
}

// openCluster starts the endpoint of a cluster. If there is none it is created, if
// mayMake allows it.
func (b *Backend) openCluster(ctx context.Context, want localinfra.Cluster, mayMake bool) (clusterv1.APIEndpoint, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return clusterv1.APIEndpoint{}, localinfra.ErrClosed
	}
	c := b.clusters[want.ID]
	if c == nil && !mayMake {
		return clusterv1.APIEndpoint{}, fmt.Errorf("%w: nothing of it is in %s", localinfra.ErrNotHere, b.o.Dir)
	}
	if c != nil && c.endpoint != nil {
		return b.at(c), nil
	}
	if err := b.ensureNetwork(ctx); err != nil {
		return clusterv1.APIEndpoint{}, err
	}
	made := c == nil
	if made {
		c = &cluster{clusterRecord: clusterRecord{Namespace: want.Namespace, Name: want.Name, ID: want.ID, Object: want.Object}}
		if asked := want.Spec.ControlPlaneEndpoint; !asked.IsZero() {
			if gateway := gatewayOf(b.subnet).String(); asked.Host != gateway {
				return clusterv1.APIEndpoint{}, fmt.Errorf("spec.controlPlaneEndpoint.host is %s, and machines of this host reach it at %s: leave spec.controlPlaneEndpoint out", asked.Host, gateway)
			}
			c.Port = uint16(asked.Port)
		}
	}
	if err := b.listen(c); err != nil {
		return clusterv1.APIEndpoint{}, err
	}
	if made {
		if err := writeJSON(b.clusterFile(c.ID), c.clusterRecord); err != nil {
			return clusterv1.APIEndpoint{}, errors.Join(fmt.Errorf("keep the cluster: %w", err), c.endpoint.Close(ctx))
		}
		b.clusters[want.ID] = c
	}
	b.setMembers(c)
	for _, m := range b.byName { // they are waiting for the cluster
		if m.ClusterID == c.ID {
			b.machines.Publish(m.key())
		}
	}
	return b.at(c), nil
}

// ensureNetwork creates the network of all machines, in a subnet that is chosen for
// the first cluster. Called with the lock.
func (b *Backend) ensureNetwork(ctx context.Context) error {
	problem := ""
	if b.subnet.IsValid() {
		found, err := b.o.Launcher.CheckNetwork(networkOf(b.subnet))
		if err != nil {
			return fmt.Errorf("check the network of machines: %w", err)
		}
		if len(found) > 0 {
			problem = found[0].What
		}
	}
	switch {
	case problem != "" && len(b.clusters) > 0:
		return fmt.Errorf("%s, and machines have them already: remove what has them elsewhere, or delete all Clusters of container machines to have others chosen", problem)
	case problem != "" || !b.subnet.IsValid(): // the subnet has not been used yet
		if err := b.chooseSubnet(ctx); err != nil {
			return err
		}
	}
	if err := b.o.Launcher.EnsureNetwork(ctx, networkOf(b.subnet)); err != nil {
		return fmt.Errorf("make the network of machines: %w", err)
	}
	return nil
}

func networkOf(subnet netip.Prefix) containers.Network {
	return containers.Network{Name: networkName, Address: netip.PrefixFrom(gatewayOf(subnet), subnet.Bits())}
}

// chooseSubnet chooses the first that nothing of the host has, in place of one that
// something has taken since. Called with the lock.
func (b *Backend) chooseSubnet(ctx context.Context) error {
	taken, err := b.o.Taken()
	if err != nil {
		return fmt.Errorf("look which networks the host has: %w", err)
	}
	if b.subnet.IsValid() {
		taken = append(taken, b.subnet)
		if err := b.forgetSubnet(ctx); err != nil {
			return err
		}
	}
	subnet, err := freeSubnet(taken)
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(b.o.Dir, subnetFile), subnetRecord{subnet}); err != nil {
		return fmt.Errorf("keep the subnet of machines: %w", err)
	}
	b.subnet = subnet
	return nil
}

// forgetSubnet removes the network of machines. Called with the lock.
func (b *Backend) forgetSubnet(ctx context.Context) error {
	if err := b.o.Launcher.RemoveNetwork(ctx, networkName); err != nil {
		return fmt.Errorf("remove the network of machines: %w", err)
	}
	b.subnet = netip.Prefix{}
	return removeFile(filepath.Join(b.o.Dir, subnetFile))
}

// listen opens the endpoint of a cluster. One that has no port gets the first that is
// free. Called with the lock.
func (b *Backend) listen(c *cluster) (err error) {
	gateway := gatewayOf(b.subnet)
	if c.Port != 0 {
		c.endpoint, err = b.o.Listen(netip.AddrPortFrom(gateway, c.Port))
		return err
	}
	taken := map[uint16]bool{}
	for _, other := range b.clusters {
		taken[other.Port] = true
	}
	for port := firstPort; port < 1<<16; port++ {
		if taken[uint16(port)] {
			continue
		}
		c.endpoint, err = b.o.Listen(netip.AddrPortFrom(gateway, uint16(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err == nil {
			c.Port = uint16(port)
		}
		return err
	}
	return fmt.Errorf("no port from %d on is free at %s: delete a cluster that is not needed", firstPort, gateway)
}

// at is where a cluster is reached. Called with the lock.
func (b *Backend) at(c *cluster) clusterv1.APIEndpoint {
	return clusterv1.APIEndpoint{Host: gatewayOf(b.subnet).String(), Port: int32(c.Port)}
}

// setMembers sets the control plane machines of a cluster's endpoint. Called with
// the lock.
func (b *Backend) setMembers(c *cluster) {
	if c.endpoint == nil {
		return
	}
	var members []netip.AddrPort
	for _, m := range b.byName {
		if m.ClusterID == c.ID && m.ControlPlane {
			members = append(members, netip.AddrPortFrom(m.Address, firstPort))
		}
	}
	c.endpoint.SetMembers(members)
}

// ReleaseCluster implements localinfra.Backend. Its machines continue to run; the next
// owner opens its endpoint.
func (b *Backend) ReleaseCluster(ctx context.Context, which localinfra.Cluster) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clusters[which.ID]
	if c == nil || c.endpoint == nil || !c.of(which) {
		return nil
	}
	err := c.endpoint.Close(ctx)
	c.endpoint = nil
	if err != nil {
		return fmt.Errorf("release container cluster %s: %w", c.key(), err)
	}
	return nil
}

// of reports whether a cluster is that of an object, as far as that is known.
func (c *cluster) of(which localinfra.Cluster) bool {
	return which.Object.Name == "" || c.Object == which.Object
}

// DeleteCluster implements localinfra.Backend. The network is deleted with the last
// cluster.
func (b *Backend) DeleteCluster(ctx context.Context, which localinfra.Cluster) error {
	if which.ID == "" {
		return errors.New("delete a container cluster: its identity is needed")
	}
	if err := b.deleteCluster(ctx, which); err != nil {
		return fmt.Errorf("delete container cluster %s: %w", which.ID, err)
	}
	return nil
}

func (b *Backend) deleteCluster(ctx context.Context, which localinfra.Cluster) error {
	b.mu.Lock()
	c := b.clusters[which.ID]
	if c == nil || !c.of(which) {
		b.mu.Unlock()
		return nil
	}
	var machines []*machine
	for _, m := range b.byName {
		if m.ClusterID == c.ID {
			machines = append(machines, m)
		}
	}
	b.mu.Unlock()
	var errs []error
	for _, m := range machines {
		errs = append(errs, b.remove(ctx, m))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.endpoint != nil {
		ending, cancel := context.WithTimeout(ctx, closing)
		defer cancel()
		if err := c.endpoint.Close(ending); err != nil {
			return err
		}
		c.endpoint = nil
	}
	if err := removeFile(b.clusterFile(c.ID)); err != nil {
		return err
	}
	delete(b.clusters, c.ID)
	if len(b.clusters) > 0 {
		return nil
	}
	return b.forgetSubnet(ctx)
}
