// SPDX-License-Identifier: Apache-2.0

// Package podroutes routes connections of a plane's Pods to their destinations, and
// those of its API server to Pods: addresses of Services and Pods are only valid
// here. It also answers DNS queries of Pods.
package podroutes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/services"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// dialTimeout is the time limit for connecting a connection of a Pod.
const dialTimeout = 30 * time.Second

// Routes resolves addresses and connects to them. All fields are required.
type Routes struct {
	// Live reads Services and EndpointSlices, preferably from a cache.
	Live client.Reader
	// Choose returns a number below n: which of n ready endpoints is used.
	Choose func(n int) int
	// Pods are the addresses of Pods, and Services those of Services.
	Pods, Services netip.Prefix
	// DialPod connects to a Pod.
	DialPod func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// APIServer is the address of its Service, and Serve makes it serve a connection.
	APIServer netip.Addr
	Serve     func(net.Conn)
	// Kubelet connects to the kubelet of the node called Node.
	Node    string
	Kubelet func(ctx context.Context) (net.Conn, error)
	// Outside dials other addresses and names for the plane.
	Outside func(ctx context.Context, network, address string) (net.Conn, error)
	// ForPods is Outside for Pods: it resolves a name and then checks the address.
	ForPods func(ctx context.Context, network, address string) (net.Conn, error)
	// Lookup resolves names outside the cluster.
	Lookup Lookup
}

// Dial connects the plane to an address in the cluster: a Service or a Pod, by name
// or address, or the node. Other addresses are dialed as on the host.
func (r *Routes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %q is no port", address, text)
	}
	if host == r.Node {
		return r.Kubelet(ctx)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		var inside bool
		if ip, inside, err = r.named(ctx, host); err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		} else if !inside {
			return r.Outside(ctx, network, address)
		}
	}
	if !r.inside(ip) {
		return r.Outside(ctx, network, net.JoinHostPort(ip.String(), text))
	}
	conn, err := r.dial(ctx, netip.AddrPortFrom(ip, uint16(port)))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

func (r *Routes) inside(ip netip.Addr) bool { return r.Pods.Contains(ip) || r.Services.Contains(ip) }

// dial connects to a Service or a Pod.
func (r *Routes) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if to.Addr() == r.APIServer && to.Port() == 443 {
		near, far := net.Pipe()
		go func() { // it ends with the connection
			if err := recovery.Call(ctx, func() error { r.Serve(far); return nil }); err != nil {
				_ = far.Close() // the client must not wait
			}
		}()
		return near, nil
	}
	return r.dialInside(ctx, to, r.Outside)
}

// dialInside connects to a Pod, or to an endpoint of a Service, which is a Pod or
// an address for outside.
func (r *Routes) dialInside(ctx context.Context, to netip.AddrPort, outside func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	if r.Pods.Contains(to.Addr()) {
		return r.DialPod(ctx, to)
	}
	endpoint, err := r.endpoint(ctx, to)
	if err != nil {
		return nil, err
	}
	if at, err := netip.ParseAddrPort(endpoint); err == nil && r.Pods.Contains(at.Addr()) {
		return r.DialPod(ctx, at)
	}
	return outside(ctx, "tcp", endpoint)
}

// endpoint returns the address of an endpoint for a port of a Service.
func (r *Routes) endpoint(ctx context.Context, to netip.AddrPort) (string, error) {
	service, err := r.service(ctx, to.Addr())
	if err != nil {
		return "", err
	}
	resolver := services.Resolver{Live: r.Live, Choose: r.Choose}
	endpoint, err := resolver.Resolve(ctx, service.Namespace, service.Name, int32(to.Port()))
	if err != nil {
		return "", fmt.Errorf("service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return endpoint, nil
}

// service returns the Service with an address.
func (r *Routes) service(ctx context.Context, ip netip.Addr) (*corev1.Service, error) {
	all := &corev1.ServiceList{}
	if err := r.Live.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	text := ip.String()
	i := slices.IndexFunc(all.Items, func(s corev1.Service) bool {
		return s.Spec.ClusterIP == text || slices.Contains(s.Spec.ClusterIPs, text)
	})
	if i < 0 {
		return nil, fmt.Errorf("no Service has the address %s", ip)
	}
	return &all.Items[i], nil
}

// Conn is a connection that a Pod opened.
type Conn interface {
	net.Conn
	// Own connects to its address within the Pod.
	Own(ctx context.Context) (net.Conn, error)
	// Refuse closes it so that the Pod sees a reset, and reports why, unless that is empty.
	Refuse(why string)
}

// Connect takes over a connection that a Pod opened to an address, and closes it at
// its end; immediately if the destination does not exist or Pods must not reach it. It
// reports connections that policy refuses.
func (r *Routes) Connect(ctx context.Context, _ netip.Addr, to netip.AddrPort, c Conn) {
	if to.Addr() == r.APIServer && to.Port() == 443 {
		r.Serve(c)
		return
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	far, err := r.forPod(dialing, to, c)
	cancel()
	if refused, ok := errors.AsType[*dialguard.RefusedError](err); ok {
		c.Refuse(fmt.Sprintf("connect to %s: %v", to, refused))
		return
	}
	if err != nil {
		c.Refuse("") // as the destination does
		return
	}
	relay(ctx, c, far)
}

// forPod connects to destinations that a Pod may reach: Services, Pods, and those
// of ForPods. On a loopback address a process of the Pod itself comes first.
func (r *Routes) forPod(ctx context.Context, to netip.AddrPort, c Conn) (net.Conn, error) {
	if to.Addr().IsLoopback() {
		if own, err := c.Own(ctx); err == nil {
			return own, nil
		}
	}
	if r.inside(to.Addr()) {
		return r.dialInside(ctx, to, r.ForPods)
	}
	return r.ForPods(ctx, "tcp", to.String())
}

// halfCloser is a connection whose sending side can be closed alone.
type halfCloser interface{ CloseWrite() error }

// relay copies both ways until both have ended, or ctx has ended.
func relay(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = a.Close(); _ = b.Close() }))
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			if err := recovery.Call(ctx, func() error { carry(way[0], way[1]); return nil }); err != nil {
				_, _ = a.Close(), b.Close() // the other way must not wait
			}
		})
	}
	both.Wait()
	_, _ = a.Close(), b.Close() // nothing is left to be sent
}

// carry copies one way, and says that it has ended.
func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from) // its end is that of the connection
	if half, ok := to.(halfCloser); ok {
		_ = half.CloseWrite() // the other way may continue
		return
	}
	_ = to.Close() // it cannot be half closed
}
