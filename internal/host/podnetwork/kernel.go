// SPDX-License-Identifier: Apache-2.0

// Package podnetwork configures the network of the Pods of one node, so that they
// reach those of all other nodes, which are on the same link. A Plan has the
// addresses of the Pods, the routes to the others, and whose traffic is
// masqueraded. It is written to the kernel and to the CNI configuration; the
// results are marked as ours, and everything else is left unchanged.
package podnetwork

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// protocol marks our routes. Numbers from 192 on are not assigned in the kernel's
// list and in that of iproute2.
const protocol = 202

// SetRoutes replaces our routes by those of a plan.
func SetRoutes(want []Route) error {
	have, err := routes()
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	changes := Compare(have, want)
	var errs []error
	for _, r := range changes.Remove {
		if err := netlink.RouteDel(kernelRoute(r)); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove the route to %s: %w", r.To, err))
		}
	}
	for _, r := range changes.Add {
		if err := netlink.RouteReplace(kernelRoute(r)); err != nil {
			errs = append(errs, fmt.Errorf("set the route to %s by %s: %w", r.To, r.Via, err))
		}
	}
	return errors.Join(errs...)
}

// routes returns our existing routes.
func routes() ([]Route, error) {
	found, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, err
	}
	var all []Route
	for _, r := range found {
		if r.Dst == nil || r.Gw == nil {
			continue
		}
		to, okTo := netip.AddrFromSlice(r.Dst.IP)
		via, okVia := netip.AddrFromSlice(r.Gw)
		if bits, _ := r.Dst.Mask.Size(); okTo && okVia {
			all = append(all, Route{To: netip.PrefixFrom(to.Unmap(), bits), Via: via.Unmap()})
		}
	}
	return all, nil
}

func kernelRoute(r Route) *netlink.Route {
	return &netlink.Route{
		Dst: &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())},
		Gw:  r.Via.AsSlice(), Protocol: protocol,
	}
}

// MTU returns the MTU of the link to other nodes, which has the default route; 0 if
// there is none.
func MTU() (int, error) {
	found, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return 0, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range found {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil {
			return 0, fmt.Errorf("link of the default route: %w", err)
		}
		return link.Attrs().MTU, nil
	}
	return 0, nil
}

// WriteConfig writes a CNI configuration file atomically: containerd watches the
// folder and reads its files. A file with the same content is not written.
func WriteConfig(file string, text []byte) error {
	have, err := os.ReadFile(file)
	if err == nil && bytes.Equal(have, text) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := atomicfile.Write(file, text); err != nil { // CNI ignores the name of its temporary file
		return fmt.Errorf("write the configuration of CNI: %w", err)
	}
	return nil
}
