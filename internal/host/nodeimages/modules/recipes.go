// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"fmt"
	"path"
	"strings"

	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// program describes how a program is built.
type program struct {
	wrapper wrapper
	main    string
	flags   []string
	cgo     bool
}

// imageVersions returns the versions with which an image is built: etcd and coredns
// have their own versions, which kubeadm chooses, and which replace Kubernetes'
// there.
func imageVersions(v nodecomponents.Versions, image nodecomponents.Image) nodecomponents.Versions {
	switch image.Name {
	case "etcd":
		release, _, _ := strings.Cut(image.Tag, "-") // the rest counts builds of the image
		v.Kubernetes = "v" + strings.TrimPrefix(release, "v")
	case "coredns":
		v.Kubernetes = image.Tag
	}
	return v
}

// recipes returns how each program of a node and of its images is built.
func recipes(v nodecomponents.Versions) map[string]program {
	all := map[string]program{}
	k8s := wrapper{module: "k8s.io/kubernetes", version: v.Kubernetes, staging: stagingVersion(v.Kubernetes)}
	add(all, k8s, kubernetesFlags(v.Kubernetes), "cmd/kubeadm", "cmd/kubectl", "cmd/kubelet",
		"cmd/kube-apiserver", "cmd/kube-controller-manager", "cmd/kube-proxy", "cmd/kube-scheduler")
	containerd := wrapper{module: "github.com/containerd/containerd/v2", version: v.Containerd}
	add(all, containerd, []string{"-ldflags", "-s -w -X github.com/containerd/containerd/v2/version.Version=" + v.Containerd},
		"cmd/containerd", "cmd/containerd-shim-runc-v2", "cmd/ctr")
	add(all, wrapper{module: "github.com/containernetworking/plugins", version: v.Plugins}, stripped,
		"plugins/main/bridge", "plugins/ipam/host-local", "plugins/main/loopback", "plugins/meta/portmap", "plugins/main/ptp")
	add(all, wrapper{module: "github.com/coredns/coredns", version: v.Kubernetes}, stripped, "")
	etcd := wrapper{module: "go.etcd.io/etcd/server/v3", version: v.Kubernetes, packages: []string{"go.etcd.io/etcd/server/v3"}}
	all["etcd"] = program{wrapper: etcd, main: etcd.module, flags: stripped}
	// runc needs C to enter namespaces. It is linked statically, so that it does not
	// depend on the C library of the host on which it was built.
	runc := wrapper{module: "github.com/opencontainers/runc", version: v.Runc, packages: []string{"github.com/opencontainers/runc"}}
	all["runc"] = program{wrapper: runc, main: runc.module, cgo: true,
		flags: []string{"-tags", "seccomp netgo osusergo", "-ldflags", "-s -w -linkmode external -extldflags -static"}}
	return all
}

var stripped = []string{"-ldflags", "-s -w"}

// add adds the programs of a module under the last parts of their paths.
func add(all map[string]program, w wrapper, flags []string, paths ...string) {
	for _, p := range paths {
		w.packages = append(w.packages, path.Join(w.module, p))
	}
	for _, p := range w.packages {
		all[path.Base(p)] = program{wrapper: w, main: p, flags: flags}
	}
}

// kubernetesFlags set the version of Kubernetes programs, which they exchange: a
// kubelet without one is refused.
func kubernetesFlags(version string) []string {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	set := func(name, value string) string {
		return fmt.Sprintf(" -X k8s.io/component-base/version.%s=%s", name, value)
	}
	return []string{"-ldflags", "-s -w" + set("gitVersion", version) + set("gitMajor", numbers[0]) + set("gitMinor", numbers[1]) + set("gitTreeState", "clean")}
}
