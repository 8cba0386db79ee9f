// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// Options say where a plane keeps its data and where it answers. Only Dir is
// needed.
type Options struct {
	// Dir is the data directory; it is made if need be.
	Dir string
	// Listen is the API server's address, 127.0.0.1:6443 if empty. Port 0
	// takes a free one; Plane.Addr tells which.
	Listen string
	// Etcd uses an external etcd instead of the embedded one.
	Etcd ExternalEtcd
	// Version is what the lock of the data directory says of the program.
	Version string
	// Providers is what the lock says of the controllers that run, Flags what
	// it says of the command line.
	Providers []string
	Flags     map[string]string
	// Fatal receives what a library would have ended the process for; see
	// CatchExits. Nil receives nothing.
	Fatal <-chan error
	// Definitions returns those that a new embedded etcd begins with, as an API
	// server would have them. Nil returns none.
	Definitions func(now time.Time) ([]*apiextensionsv1.CustomResourceDefinition, error)
	// Conversion converts objects of definitions that name conversion.InProcessURL.
	// Nil converts none.
	Conversion *conversion.Converter
	// Stored is told how many keys an embedded etcd holds that is not new, before
	// an API server reads them. Nil is not told.
	Stored func(keys int64)
	// Install is called when the API server answers, before its own
	// controllers start: a garbage collector that knows all kinds from its
	// start need not ask the API server for the owners it has not seen. Nil
	// installs nothing.
	Install func(context.Context, *rest.Config) error
	// Handlers answer at the API server, each at its path, whoever is allowed
	// to use that path as a nonResourceURL.
	Handlers map[string]http.Handler
	// Dial connects the API server to what lies in the cluster. Nil dials as the
	// host does, to which addresses of Services and Pods mean nothing.
	Dial Dial
	// DialURL connects the API server to the host and port of a webhook's URL. Nil
	// dials as the host does.
	DialURL Dial
	// Workloads runs the controllers of Deployments, ReplicaSets and the endpoints
	// of Services, once there is one of the former or a Pod. Who binds and runs
	// the Pods is another matter.
	Workloads bool
	// Kubelets are the names and addresses by which the API server dials the
	// kubelet of this plane; see Plane.KubeletFiles. Empty makes no certificate.
	Kubelets []string
	// Progress is told what is being done, in a few words. Nil tells nobody.
	Progress func(string)
}

// ExternalEtcd is an etcd that others run. The zero value is none.
type ExternalEtcd struct {
	// Servers are URLs.
	Servers []string
	// CAFile, CertFile and KeyFile are needed for https servers that ask for
	// a client certificate.
	CAFile, CertFile, KeyFile string
	// Prefix of all keys, /registry if empty. Planes with the same one share what
	// they keep, and one of them at a time acts; others need another.
	Prefix string
	// Await has a start wait for servers that do not answer, as long as its context
	// lasts. Otherwise it fails, for somebody who may have named the wrong ones.
	Await bool
}

// completed is options in which nothing is left to choose. Only it can run.
type completed struct {
	Options
	dir  datadir.Dir
	host string
	// hosts are the names and addresses that the serving certificate is for.
	hosts []string
	// kubernetes is the version of the API server, for example v1.36.3.
	kubernetes string
	now        func() time.Time
}

func (o Options) complete() (*completed, error) {
	c := &completed{Options: o, now: time.Now}
	if o.Dir == "" {
		return nil, errors.New("no data directory given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory %s: %w", o.Dir, err)
	}
	c.dir = datadir.Dir(dir)
	if c.Listen == "" {
		c.Listen = "127.0.0.1:6443"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("address to listen on: %w", err)
	}
	if c.hosts, err = servingHosts(host); err != nil {
		return nil, err
	}
	c.host = c.hosts[0]
	if err := c.Etcd.check(); err != nil {
		return nil, err
	}
	if c.Etcd.Prefix == "" {
		c.Etcd.Prefix = "/registry"
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Stored == nil {
		c.Stored = func(int64) {}
	}
	return c, nil
}

func (e ExternalEtcd) check() error {
	if len(e.Servers) == 0 && e.CAFile+e.CertFile+e.KeyFile+e.Prefix != "" {
		return errors.New("certificates or a prefix for an external etcd are given, but no server")
	}
	if (e.CertFile == "") != (e.KeyFile == "") {
		return errors.New("a client certificate for the external etcd needs both its certificate file and its key file")
	}
	for _, file := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if file == "" {
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("read certificates of the external etcd: %w", err)
		}
		_ = f.Close()
	}
	return nil
}

// servingHosts lists what clients may call the server; the first is what the
// kubeconfig uses.
func servingHosts(host string) ([]string, error) {
	always := []string{"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1"}
	ip := net.ParseIP(host)
	if host != "" && (ip == nil || !ip.IsUnspecified()) {
		return append([]string{host}, slices.DeleteFunc(always, func(h string) bool { return h == host })...), nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			always = append(always, n.IP.String())
		}
	}
	return always, nil
}

// kubernetesVersion is that of the k8s.io/kubernetes module in this program.
// Upstream stamps it at link time; without the stamp a server calls itself
// v0.0.0-master, which kubectl cannot parse. A program built by plain go build
// must work as well, so we ask the build information.
func kubernetesVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("find version of the API server: the program has no build information")
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			return m.Version, nil
		}
	}
	return "", errors.New("find version of the API server: k8s.io/kubernetes is not in the build information")
}
