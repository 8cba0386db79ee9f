// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/controller/crdmigrator"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

// Config is what users choose for the controllers of a plane and of capstan-manager. Each
// field has a flag, which AddFlags declares.
type Config struct {
	// Providers are the providers to run; nil means all.
	Providers []string
	// FeatureGates are the enabled features.
	FeatureGates controllers.Gates
	// Sync selects more labels and annotations to copy from Machines to their
	// Nodes.
	Sync nodesync.Additional
	// SkipMigration are phases of the migration of CRDs to skip.
	SkipMigration crdmigrator.Phases
	// MetricsAddress and PprofAddress are host:port to listen on; "" means not at all.
	MetricsAddress, PprofAddress string
	// InsecureDiagnostics serves metrics and profiles in the clear and without
	// authentication.
	InsecureDiagnostics bool
	// SimulatedDir stores the state of simulated machines, for all processes of this
	// host. Required with Local.
	SimulatedDir string
	// ContainersDir stores container machines, which one process of this host runs
	// at a time; "" means that this one runs none.
	ContainersDir string
	// ContainerNamespaces are the namespaces in which container machines can be
	// created; "*" means all.
	ContainerNamespaces []string
	// UpdateInPlace changes the Kubernetes version of container machines in place,
	// not by replacement.
	UpdateInPlace bool
	// ExtensionClientCertFile and ExtensionClientKeyFile are presented to runtime
	// extensions that request a certificate, and read again when they change.
	ExtensionClientCertFile, ExtensionClientKeyFile string
	// TracingEndpoint receives spans of calls to runtime extensions by OTLP
	// over gRPC: host:port, or a URL; "" means not at all.
	TracingEndpoint string
}

// AddFlags declares the flags of c, whose values are the defaults.
func (c *Config) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.Providers, "providers", c.Providers, "providers whose controllers run")
	f.Var(&c.FeatureGates, "feature-gates", controllers.GatesUsage)
	f.Var(&c.Sync.Labels, "additional-sync-machine-labels", "regular expressions for more labels that go from a Machine to its Node")
	f.Var(&c.Sync.Annotations, "additional-sync-machine-annotations", "regular expressions for more annotations that go from a Machine to its Node")
	f.Var(&c.SkipMigration, "skip-crd-migration-phases", crdmigrator.Usage)
	f.StringVar(&c.MetricsAddress, "metrics-address", c.MetricsAddress, "host:port for Prometheus metrics; by TLS, with authentication by a token (default: none)")
	f.StringVar(&c.PprofAddress, "pprof-address", c.PprofAddress, "host:port for profiles; by TLS, with authentication by a token (default: none)")
	f.BoolVar(&c.InsecureDiagnostics, "insecure-diagnostics", c.InsecureDiagnostics, "serve metrics and profiles in the clear and without authentication")
	f.StringVar(&c.SimulatedDir, "simulated-dir", c.SimulatedDir, "folder that keeps simulated machines, for all planes of this host: a cluster can move between those that share it (default of capstan-manager: a temporary one)")
	f.StringVar(&c.ContainersDir, "containers-dir", c.ContainersDir, "folder that keeps container machines and node images; root alone can run such machines, and one process at a time those of a folder (default of capstan-manager: none run)")
	f.StringSliceVar(&c.ContainerNamespaces, "container-namespaces", c.ContainerNamespaces, "namespaces in which container machines can be created, \"*\" for all, or \"none\": users who can create them there can take over this host")
	f.BoolVar(&c.UpdateInPlace, "update-in-place", c.UpdateInPlace, "upgrade the Kubernetes of container machines where they are, as far as kubeadm can, and replace none for it")
	f.StringVar(&c.ExtensionClientCertFile, "runtime-extension-client-cert-file", c.ExtensionClientCertFile, "client certificate for runtime extensions; read again when it changes")
	f.StringVar(&c.ExtensionClientKeyFile, "runtime-extension-client-key-file", c.ExtensionClientKeyFile, "key of --runtime-extension-client-cert-file")
	f.StringVar(&c.TracingEndpoint, "tracing-endpoint", c.TracingEndpoint, "host:port, or URL, to send traces to by OTLP over gRPC (default: none)")
}
