// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/cloudinit"
	"github.com/capstan-dev/capstan/internal/pure/ignition"
)

// Paths on a machine.
const (
	InitConfigPath = "/run/kubeadm/kubeadm.yaml"
	JoinConfigPath = "/run/kubeadm/kubeadm-join-config.yaml"

	// SentinelPath exists once kubeadm has succeeded. Part of the bootstrap contract:
	// infrastructure providers wait for it.
	SentinelPath = "/run/cluster-api/bootstrap-success.complete"

	// DefaultCertificatesDir is kubeadm's own.
	DefaultCertificatesDir = "/etc/kubernetes/pki"

	placeholderPath = "/run/cluster-api/placeholder"
	placeholder     = "This file is here so that its folder is: the sentinel file of a finished bootstrap goes into it."
)

// The kubeadm commands of a machine.
const (
	Init = "init"
	Join = "join"
)

// Boot is everything that turns a machine into a node.
type Boot struct {
	Verb   string                        // Init or Join
	Config []byte                        // of RenderInit or RenderJoin
	Certs  []bootstrapv1.File            // of CertificateFiles; none for a worker
	Spec   bootstrapv1.KubeadmConfigSpec // files and users with their content resolved
}

// CheckFormat returns the fields of a spec that its format does not support.
func CheckFormat(spec bootstrapv1.KubeadmConfigSpec) error {
	if spec.Format != bootstrapv1.Ignition {
		return nil
	}
	return ignition.Check(field.NewPath("spec"), &spec).ToAggregate()
}

// Data is the data that the machine reads at boot, in the format of the spec.
func (b Boot) Data() ([]byte, error) {
	if b.Spec.Format == bootstrapv1.Ignition {
		return b.ignition()
	}
	return b.cloudConfig()
}

func (b Boot) cloudConfig() ([]byte, error) {
	own := bootstrapv1.File{Path: b.configPath(), Owner: "root:root", Permissions: "0640", Content: string(b.Config)}
	folder := bootstrapv1.File{Path: placeholderPath, Owner: "root:root", Permissions: "0640", Content: placeholder}
	return cloudinit.Render(cloudinit.Document{
		Files:        slices.Concat(b.Certs, b.Spec.Files, []bootstrapv1.File{own, folder}),
		BootCommands: b.Spec.BootCommands,
		RunCommands:  slices.Concat(b.Spec.PreKubeadmCommands, []string{b.command()}, b.Spec.PostKubeadmCommands),
		NTP:          b.Spec.NTP,
		Users:        b.Spec.Users,
		DiskSetup:    b.Spec.DiskSetup,
		Mounts:       b.Spec.Mounts,
	})
}

// ignition moves the configuration away after use: its presence means that kubeadm has
// not run yet.
func (b Boot) ignition() ([]byte, error) {
	own := bootstrapv1.File{Path: ignition.ConfigPath, Owner: "root:root", Permissions: "0600", Content: string(b.Config)}
	return ignition.Render(ignition.Document{
		Files: slices.Concat(b.Certs, b.Spec.Files, []bootstrapv1.File{own}),
		Commands: slices.Concat(b.Spec.PreKubeadmCommands, []string{
			"mkdir -p " + path.Dir(SentinelPath), b.command(), "mv " + ignition.ConfigPath + " /tmp/",
		}, b.Spec.PostKubeadmCommands),
		Spec: b.Spec,
	})
}

func (b Boot) configPath() string {
	if b.Spec.Format == bootstrapv1.Ignition {
		return ignition.ConfigPath
	}
	if b.Verb == Init {
		return InitConfigPath
	}
	return JoinConfigPath
}

func (b Boot) command() string {
	c := "kubeadm " + b.Verb + " --config " + b.configPath()
	if b.Spec.Verbosity != nil {
		c += fmt.Sprintf(" --v %d", *b.Spec.Verbosity)
	}
	return c + " && echo success > " + SentinelPath
}

// CertificateFiles are the files of a control plane machine. Each pair is at the path
// where kubeadm reads it; with an external etcd that path is in the config. A pair
// without content is omitted.
func CertificateFiles(c bootstrapv1.ClusterConfiguration, pairs Pairs) []bootstrapv1.File {
	dir := cmp.Or(c.CertificatesDir, DefaultCertificatesDir)
	files := certFiles(path.Join(dir, "ca.crt"), path.Join(dir, "ca.key"), pairs.CA)
	if external := c.Etcd.External; len(external.Endpoints) > 0 {
		files = append(files, certFiles(external.CAFile, "", pairs.Etcd)...)
		files = append(files, certFiles(external.CertFile, external.KeyFile, pairs.APIServerEtcdClient)...)
	} else {
		files = append(files, certFiles(path.Join(dir, "etcd/ca.crt"), path.Join(dir, "etcd/ca.key"), pairs.Etcd)...)
	}
	files = append(files, certFiles(path.Join(dir, "front-proxy-ca.crt"), path.Join(dir, "front-proxy-ca.key"), pairs.FrontProxy)...)
	return append(files, certFiles(path.Join(dir, "sa.pub"), path.Join(dir, "sa.key"), pairs.ServiceAccount)...)
}

// Pairs are the certificates and keys of a cluster, in PEM.
type Pairs struct {
	CA, Etcd, FrontProxy, ServiceAccount, APIServerEtcdClient Pair
}

// Pair is a certificate (or public key) and its private key, in PEM.
type Pair struct {
	Cert, Key []byte
}

// String keeps keys out of logs.
func (p Pair) String() string { return "certificate pair" }

// GoString keeps keys out of logs.
func (p Pair) GoString() string { return "kubeadm.Pair{…}" }

// certFiles returns files in which the certificate is readable by the group of root, the
// key only by root.
func certFiles(certPath, keyPath string, p Pair) (files []bootstrapv1.File) {
	if len(p.Cert) > 0 && certPath != "" {
		files = append(files, bootstrapv1.File{Path: certPath, Owner: "root:root", Permissions: "0640", Content: string(p.Cert)})
	}
	if len(p.Key) > 0 && keyPath != "" {
		files = append(files, bootstrapv1.File{Path: keyPath, Owner: "root:root", Permissions: "0600", Content: string(p.Key)})
	}
	return files
}
