// SPDX-License-Identifier: Apache-2.0

// Package planeoptions has the options of a management plane, with their flags. It does
// not link one: a client and its tests need no API server.
package planeoptions

import (
	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/app/manager"
	"github.com/capstan-dev/capstan/internal/kit/pki"
)

// Options define where a plane stores its data and what it runs. Only Dir is required.
type Options struct {
	manager.Config
	// Dir is the data directory.
	Dir string
	// Listen is the API server's address; port 0 takes a free one.
	Listen string
	// Etcd is an external etcd; without servers, the plane runs one.
	Etcd pki.Store
	// AwaitEtcd makes the start wait for an external etcd that does not answer.
	AwaitEtcd bool
	// PodsReachHost lets Pods connect to the addresses of this host's interfaces.
	PodsReachHost bool
	// Version is the version of the program that status reports.
	Version string
	// Flags are the command-line flags that the data directory stores, by name.
	Flags map[string]string
	// Fatal receives the errors for which a library would have ended the process.
	Fatal <-chan error
	// Progress receives the current step. Nil reports nothing.
	Progress func(string)
	// Log receives the logs of the controllers.
	Log logr.Logger
}

// AddFlags declares the flags of o, whose values are the defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	o.Config.AddFlags(f)
	f.StringVar(&o.Listen, "listen", o.Listen, "address of the API server; port 0 takes a free one")
	f.BoolVar(&o.PodsReachHost, "pods-reach-host", o.PodsReachHost, "let Pods connect to the addresses of this host's interfaces, except loopback and link-local addresses")
	f.StringSliceVar(&o.Etcd.Servers, "etcd-servers", o.Etcd.Servers, "URLs of an etcd to use instead of the embedded one; several planes may, see --join")
	f.StringVar(&o.Etcd.CAFile, "etcd-cafile", o.Etcd.CAFile, "certificate authority of --etcd-servers")
	f.StringVar(&o.Etcd.CertFile, "etcd-certfile", o.Etcd.CertFile, "client certificate for --etcd-servers")
	f.StringVar(&o.Etcd.KeyFile, "etcd-keyfile", o.Etcd.KeyFile, "key of --etcd-certfile")
	f.StringVar(&o.Etcd.Prefix, "etcd-prefix", o.Etcd.Prefix, "prefix of all keys in --etcd-servers (default /registry)")
}
