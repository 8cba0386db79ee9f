// SPDX-License-Identifier: Apache-2.0

// Package nodecomponents lists the parts of a node in addition to its operating system: its
// programs and container images, with their versions.
package nodecomponents

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
)

// Versions are the versions of the parts of a node.
type Versions struct {
	Kubernetes string `json:"kubernetes"` // v1.36.3
	Containerd string `json:"containerd"` // v2.3.7
	Runc       string `json:"runc"`
	Plugins    string `json:"cni-plugins"`
}

// The versions of the parts that Kubernetes does not choose. They work with every
// version of Kubernetes that Capstan supports.
const (
	containerdVersion = "v2.3.7"
	runcVersion       = "v1.5.2"
	pluginsVersion    = "v1.9.1"
)

// oldest is the first version of Kubernetes with node images: since then kubelet
// reads a configuration folder without a feature gate, which machines need.
var oldest = semver.MustParse("1.30.0")

// Defaults returns the versions of the parts for a version of Kubernetes, such as
// v1.36.3.
func Defaults(kubernetes string) (Versions, error) {
	v, err := ParseVersion(kubernetes)
	if err != nil {
		return Versions{}, err
	}
	if v.Major != 1 || v.LT(oldest) {
		return Versions{}, fmt.Errorf("node images of Kubernetes %s cannot be made: v%s is the oldest", kubernetes, oldest)
	}
	return Versions{Kubernetes: kubernetes, Containerd: containerdVersion, Runc: runcVersion, Plugins: pluginsVersion}, nil
}

// ParseVersion parses a full version of Kubernetes.
func ParseVersion(text string) (semver.Version, error) {
	v, err := semver.Parse(strings.TrimPrefix(text, "v"))
	if err != nil || !strings.HasPrefix(text, "v") || len(v.Build) > 0 {
		return semver.Version{}, fmt.Errorf("%q is no version of Kubernetes: write it as v1.36.3", text)
	}
	return v, nil
}

// programs are the executables in the path of a node.
var programs = []string{"kubeadm", "kubelet", "kubectl", "containerd", "ctr", "containerd-shim-runc-v2", "runc"}

// Programs returns the names of the executables in the path of a node.
func Programs() []string { return append([]string(nil), programs...) }

// Plugins returns the names of the CNI plugins of a node: those that Capstan's
// network uses, and bridge, which most tutorials use.
func Plugins() []string { return []string{"bridge", "host-local", "loopback", "portmap", "ptp"} }

// Image is a reference to a container image, such as
// registry.k8s.io/coredns/coredns:v1.14.2.
type Image struct{ Ref, Name, Tag string }

// ParseImage parses a reference that has a tag. Name is the last part of its path.
func ParseImage(ref string) (Image, error) {
	slash := strings.LastIndex(ref, "/")
	name, tag, ok := strings.Cut(ref[slash+1:], ":")
	if !ok || name == "" || tag == "" || slash < 1 || strings.ContainsAny(ref, " @\t") {
		return Image{}, fmt.Errorf("%q is no reference to an image with a tag", ref)
	}
	return Image{ref, name, tag}, nil
}

// ParseImages parses the output of "kubeadm config images list".
func ParseImages(text string) ([]Image, error) {
	var images []Image
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		i, err := ParseImage(line)
		if err != nil {
			return nil, fmt.Errorf("list of kubeadm's images: %w", err)
		}
		images = append(images, i)
	}
	return images, nil
}

// Sandbox returns, from a list of images, the one that holds the namespaces of a
// Pod.
func Sandbox(images []Image) (Image, error) {
	for _, i := range images {
		if i.Name == "pause" {
			return i, nil
		}
	}
	return Image{}, fmt.Errorf("kubeadm names no image %q, without which containerd starts no Pod", "pause")
}

// NetworkImage is the reference of the image of Capstan's own network, as in its
// add-on.
const NetworkImage = "capstan.dev/network:v1"
