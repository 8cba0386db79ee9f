// SPDX-License-Identifier: Apache-2.0

// Package bootstrap simulates kubeadm and the kubelet on a machine: it reads the
// machine's user data, refuses what kubeadm would refuse, in kubeadm's words and
// with the cause, and creates the objects that a machine leaves in its cluster. It
// starts nothing and keeps no time.
//
// It reads user data as cloud-init or Ignition on a machine would, as far as that
// decides whether kubeadm runs: the jinja header, the files to write, and the commands
// to run. Nothing is written or run. Errors never repeat what the user data holds, for
// it holds keys.
package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// Run is a call of kubeadm on a machine, read and found to be complete.
type Run struct {
	docs     *kubeadm.Documents
	files    map[string][]byte
	hostname string
}

// Read finds kubeadm's call in user data, and reads the configuration it names.
func Read(data []byte, format, hostname string) (*Run, error) {
	c, err := read(data, format, hostname)
	if err != nil {
		return nil, fmt.Errorf("read the user data: %w", err)
	}
	cmd, ok := c.Kubeadm()
	if !ok {
		return nil, errors.New("the user data runs neither kubeadm init nor kubeadm join")
	}
	if cmd.ConfigPath == "" {
		return nil, fmt.Errorf("kubeadm %s is called without --config", cmd.Verb)
	}
	content, ok := c.Files[path.Clean(cmd.ConfigPath)]
	if !ok {
		return nil, fmt.Errorf("kubeadm %s: unable to read config from %q: open %s: no such file or directory", cmd.Verb, cmd.ConfigPath, cmd.ConfigPath)
	}
	docs, err := kubeadm.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("kubeadm %s: read %s: %w", cmd.Verb, cmd.ConfigPath, err)
	}
	r := &Run{docs: docs, files: c.Files, hostname: hostname}
	switch {
	case cmd.Verb == "init" && docs.Join != nil:
		return nil, fmt.Errorf("kubeadm init: %s holds a JoinConfiguration", cmd.ConfigPath)
	case cmd.Verb == "init":
		if docs.Cluster == nil {
			docs.Cluster = &bootstrapv1.ClusterConfiguration{}
		}
		if docs.Init == nil {
			docs.Init = &bootstrapv1.InitConfiguration{}
		}
	case docs.Join == nil:
		return nil, fmt.Errorf("kubeadm join: no JoinConfiguration in %s", cmd.ConfigPath)
	}
	if errs := validation.IsDNS1123Subdomain(r.NodeName()); len(errs) > 0 {
		return nil, fmt.Errorf("kubeadm %s: nodeRegistration.name: Invalid value: %q: %s", cmd.Verb, r.NodeName(), strings.Join(errs, "; "))
	}
	return r, nil
}

func read(data []byte, format, hostname string) (*Config, error) {
	switch bootstrapv1.Format(format) {
	case "", bootstrapv1.CloudConfig:
		return Parse(data, hostname)
	case bootstrapv1.Ignition:
		return ParseIgnition(data)
	}
	return nil, fmt.Errorf("simulated machines know no format %q: use cloud-config or ignition", format)
}

// IsInit reports whether the machine runs kubeadm init, not kubeadm join.
func (r *Run) IsInit() bool { return r.docs.Join == nil }

// IsControlPlane reports whether the machine becomes a control plane node.
func (r *Run) IsControlPlane() bool { return r.IsInit() || r.docs.Join.ControlPlane != nil }

// KubernetesVersion is the version in the configuration of kubeadm init; empty for
// a join.
func (r *Run) KubernetesVersion() string { return r.docs.Data.KubernetesVersion }

// APIServerPort is where the machine's API server must listen; zero for kubeadm's
// choice, and on a worker.
func (r *Run) APIServerPort() int32 {
	switch {
	case r.IsInit():
		return r.docs.Init.LocalAPIEndpoint.BindPort
	case r.docs.Join.ControlPlane != nil:
		return r.docs.Join.ControlPlane.LocalAPIEndpoint.BindPort
	}
	return 0
}

// NodeName is the name under which the machine's Node appears.
func (r *Run) NodeName() string {
	if name := r.registration().Name; name != "" {
		return name
	}
	return strings.ToLower(r.hostname)
}

// ExternalEtcd reports whether the configuration of kubeadm init names an external
// etcd.
func (r *Run) ExternalEtcd() bool {
	return r.docs.Cluster != nil && len(r.docs.Cluster.Etcd.External.Endpoints) > 0
}

func (r *Run) registration() bootstrapv1.NodeRegistrationOptions {
	if r.docs.Join != nil {
		return r.docs.Join.NodeRegistration
	}
	return r.docs.Init.NodeRegistration
}

// kubeletArg is the value of a flag the kubelet is started with.
func (r *Run) kubeletArg(name string) string {
	for _, a := range r.registration().KubeletExtraArgs {
		if a.Name == name && a.Value != nil {
			return *a.Value
		}
	}
	return ""
}

// CheckInit is the part of kubeadm init's preflight that the configuration
// alone decides. Endpoint is where the cluster is reached.
func (r *Run) CheckInit(endpoint string) error {
	got := r.docs.Data.ControlPlaneEndpoint
	if got == "" {
		return fmt.Errorf("kubeadm init: controlPlaneEndpoint is not set: other machines reach the cluster at %s", endpoint)
	}
	if !SameEndpoint(got, endpoint) {
		return fmt.Errorf("kubeadm init: error execution phase wait-control-plane: controlPlaneEndpoint is %s, where no API server of this cluster answers: it is reached at %s", got, endpoint)
	}
	if r.KubernetesVersion() == "" {
		return errors.New("kubeadm init: kubernetesVersion is not set, and there is no internet to look for the latest one")
	}
	return nil
}

// SameEndpoint compares two of the form host:port, in which the port may be
// left out where it is 6443.
func SameEndpoint(a, b string) bool { return normal(a) == normal(b) }

func normal(endpoint string) string {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "https://"))
	if err != nil {
		host, port = strings.Trim(endpoint, "[]"), "6443"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return strings.ToLower(net.JoinHostPort(host, port))
}
