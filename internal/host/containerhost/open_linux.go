// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines"
	"github.com/capstan-dev/capstan/internal/host/containermachines/seed"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/host/loadbalancer"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
)

// Open opens the container machines of this host. The error has the reason for a
// failure, and the remedy. Other missing features of the host are reported when the
// first machine is created or run. stop releases the machines; they continue to
// run.
func Open(ctx context.Context, o Options) (backend localinfra.Backend, stop func() error, err error) {
	if os.Geteuid() != 0 {
		return nil, nil, errors.New("only root can run container machines: start the plane as root, or choose spec.simulated")
	}
	if o.check == nil {
		o.check = containers.Check
	}
	launcher, err := containers.Open(o.containers(), containers.Options{Log: o.Log.WithName("containers")})
	if err != nil {
		return nil, nil, err
	}
	store, err := nodeimages.Open(ctx, o.images())
	if err != nil {
		return nil, nil, errors.Join(err, launcher.Close())
	}
	facts, err := hostFacts()
	if err != nil {
		return nil, nil, errors.Join(err, launcher.Close())
	}
	machines, err := containermachines.New(ctx, containermachines.Options{
		Dir: o.machines(), Launcher: launcher, Images: images{store}, Host: facts, Taken: networks, Room: room, Log: o.Log.WithName("container"),
		Listen: func(at netip.AddrPort) (containermachines.Endpoint, error) {
			b, err := loadbalancer.Listen(at, loadbalancer.Options{Log: o.Log.WithName("endpoint").WithValues("endpoint", at.String())})
			if err != nil {
				return nil, err // not b: a nil *Balancer is not a nil Endpoint
			}
			if o.Guard == nil {
				return b, nil
			}
			o.Guard.Serve(at)
			return &served{b, func() { o.Guard.Stop(at) }}, nil
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, launcher.Close())
	}
	return &checked{machines: machines, check: o.check, namespaces: o.Namespaces}, func() error { return errors.Join(machines.Close(), launcher.Close()) }, nil
}

// served is an endpoint that Pods can reach until it is closed.
type served struct {
	containermachines.Endpoint
	stop func()
}

// Close implements containermachines.Endpoint.
func (s *served) Close(ctx context.Context) error {
	s.stop()
	return s.Endpoint.Close(ctx)
}

// images are the node images of a store.
type images struct{ store *nodeimages.Store }

// Find implements containermachines.Images.
func (i images) Find(wanted string) (containermachines.Image, error) {
	found, err := i.store.Find(wanted)
	if err != nil {
		return containermachines.Image{}, err
	}
	return containermachines.Image{ID: found.ID, Version: found.Version, Root: found.Root, Var: found.Var, Node: found.Node, MakeVar: found.MakeVar, Use: found.Use, Release: found.Release}, nil
}

// resolvConfs are the lists of name servers that the host itself uses; if
// systemd-resolved runs, its own list is first.
var resolvConfs = []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"}

// hostFacts returns the facts about this host that machines receive.
func hostFacts() (seed.Host, error) {
	var h seed.Host
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return h, fmt.Errorf("ask how many files a process may have open: %w", err)
	}
	h.MaxOpenFiles = files.Max
	var cgroups unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &cgroups); err != nil {
		return h, fmt.Errorf("look which control groups there are: %w", err)
	}
	h.CgroupV1 = cgroups.Type != unix.CGROUP2_SUPER_MAGIC
	bounding, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0)
	if err != nil {
		return h, fmt.Errorf("ask for the capability CAP_SYS_RESOURCE: %w", err)
	}
	h.LowersOOMScores = bounding == 1
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return h, fmt.Errorf("ask how much memory the host has: %w", err)
	}
	h.MemInfo = string(memory)
	for _, name := range resolvConfs {
		if text, err := os.ReadFile(name); err == nil {
			h.ResolvConf = string(text)
			break
		}
	}
	return h, nil
}

// networks returns the networks in which the host has an address, or to which it
// has a route.
func networks() (all []netip.Prefix, err error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			all = append(all, p.Masked())
		}
	}
	table, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, err
	}
	return append(all, containermachines.Routes(string(table))...), nil
}
