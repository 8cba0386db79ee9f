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
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// Options define where a plane stores its data and where it answers. Only Dir is
// required.
type Options struct {
	// Dir is the data directory; it is created if needed.
	Dir string
	// Listen is the API server's address, 127.0.0.1:6443 if empty. Port 0 takes a
	// free one; Plane.Addr returns it.
	Listen string
	// Etcd uses an external etcd instead of the embedded one.
	Etcd ExternalEtcd
	// Version is the version of the program, recorded in the lock of the data
	// directory.
	Version string
	// Providers are the running controllers, recorded in the lock, and Flags the
	// recorded command-line flags.
	Providers []string
	Flags     map[string]string
	// Fatal receives the errors for which a library would have ended the process;
	// see CatchExits. Nil receives nothing.
	Fatal <-chan error
	// Definitions returns the initial definitions of a new embedded etcd, as an API
	// server would have stored them. Nil returns none.
	Definitions func(now time.Time) ([]*apiextensionsv1.CustomResourceDefinition, error)
	// Conversion converts objects of definitions that name conversion.InProcessURL.
	// Nil converts none.
	Conversion *conversion.Converter
	// Stored receives the number of keys in an embedded etcd that is not new,
	// before an API server reads them. Nil is not called.
	Stored func(keys int64)
	// Install is called when the API server answers, before its own controllers
	// start: a garbage collector that has all kinds from its start need not request
	// the owners it has not seen from the API server. Nil installs nothing.
	Install func(context.Context, *rest.Config) error
	// Handlers are served by the API server, each at its path, and below it if that ends
	// in a slash, for clients that are allowed to use the path as a nonResourceURL.
	Handlers map[string]http.Handler
	// Lasting are those of their paths that limit the time of a request themselves.
	Lasting []string
	// Dial connects the API server to addresses in the cluster. Nil dials from the
	// host, which cannot reach the addresses of Services and Pods.
	Dial Dial
	// DialURL connects the API server to the host and port of a webhook's URL. Nil
	// dials from the host.
	DialURL Dial
	// Workloads runs the controllers of Deployments, ReplicaSets and the endpoints
	// of Services, once there is one of the first two or a Pod. It does not bind or
	// run the Pods.
	Workloads bool
	// Kubelets are the names and addresses by which the API server dials the
	// kubelet of this plane; see Plane.KubeletFiles. If empty, no certificate is
	// created.
	Kubelets []string
	// Progress receives the current step, in a few words. Nil reports nothing.
	Progress func(string)
}

// ExternalEtcd is an etcd that this plane does not run. The zero value means none.
type ExternalEtcd struct {
	// Store names its servers, by URLs, and the files for https servers that request a
	// client certificate. Its prefix of all keys is /registry if empty: planes with the same
	// prefix share a store, and one of them leads at a time; unrelated planes need another.
	pki.Store
	// Await makes a start wait for servers that do not answer, as long as its
	// context lasts. Otherwise the start fails, because the user may have named the
	// wrong servers.
	Await bool
}

// completed are validated options with all defaults set. Only it can run.
type completed struct {
	Options
	dir  datadir.Dir
	host string
	// hosts are the names and addresses in the serving certificate.
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

// servingHosts lists the names of the server for clients; the kubeconfig uses the
// first.
func servingHosts(host string) ([]string, error) {
	always := []string{"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", podspec.APIService}
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

// kubernetesVersion is the version of the k8s.io/kubernetes module in this program.
// Upstream stamps it at link time; without the stamp the version of a server is
// v0.0.0-master, which kubectl cannot parse. A program built by plain go build must
// work as well, so the version is read from the build information.
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
