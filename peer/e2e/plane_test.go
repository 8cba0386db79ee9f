// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// plane is a management plane that this suite started.
type plane struct{ dir string }

func (p plane) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// capstan runs a command of the program under test for the plane.
func (p plane) capstan(args ...string) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, flags.capstan, args...)
	// The last two are variables of the components of upstream's dev provider.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig(), "CLUSTER_TOPOLOGY=true", "CAPI_INSECURE_DIAGNOSTICS=true")
	session, err := gexec.Start(cmd, GinkgoWriter, GinkgoWriter)
	Expect(err).ToNot(HaveOccurred())
	Eventually(session, 5*time.Minute).Should(gexec.Exit(0), "capstan "+strings.Join(args, " "))
}

func startPlane(setup, dir string) plane {
	GinkgoHelper()
	p := plane{dir: dir}
	args := []string{"up", "--detach", "--data-dir", dir, "--listen", "127.0.0.1:0", "--simulated-dir", filepath.Join(dir, "simulated"), "--containers-dir", filepath.Join(dir, "containers")}
	if setup == inMemory {
		args = append(args, "--providers", "core,kubeadm,certificates")
	}
	p.capstan(args...)
	return p
}

func (p plane) stop() { p.capstan("down", "--data-dir", p.dir) }

// installUpstream installs upstream's dev provider and test extension, which run as Pods,
// from the repository of the framework.
func (p plane) installUpstream(clusterctlConfig string) {
	GinkgoHelper()
	for _, image := range []string{"capd-manager", "test-extension"} {
		p.capstan("image", "import", filepath.Join(flags.images, image), "--data-dir", p.dir)
	}
	p.capstan("init", "--config", clusterctlConfig, "--infrastructure", "docker", "--runtime-extension", "test-extension",
		"--wait-providers", "--wait-provider-timeout", "300")
}

// writeComponents writes the components of upstream's dev provider and test extension from
// its manifests. What only its Docker backend needs is left out: the socket, and Pods with
// privileges.
func writeComponents(upstream, folder string) error {
	for name, source := range map[string]string{"docker": "infrastructure/docker/config/default", "test-extension": "extension/config/default"} {
		text, err := build(filepath.Join(upstream, source))
		if err != nil {
			return err
		}
		objects, err := (&kio.ByteReader{Reader: strings.NewReader(text), OmitReaderAnnotations: true}).Read()
		if err != nil {
			return err
		}
		var all []string
		for _, o := range objects {
			if o.GetKind() == "Deployment" {
				if err := withoutDocker(o); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			text, err := o.String()
			if err != nil {
				return err
			}
			all = append(all, text)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.Join(all, "---\n")), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func withoutDocker(deployment *yaml.RNode) error {
	spec, err := deployment.Pipe(yaml.Lookup("spec", "template", "spec"))
	if err != nil {
		return err
	}
	const socket = "dockersock"
	if err := spec.PipeE(yaml.Lookup("volumes"), yaml.ElementSetter{Keys: []string{"name"}, Values: []string{socket}}); err != nil {
		return err
	}
	container, err := spec.Pipe(yaml.Lookup("containers", "0"))
	if err != nil {
		return err
	}
	if err := container.PipeE(yaml.Lookup("volumeMounts"), yaml.ElementSetter{Keys: []string{"name"}, Values: []string{socket}}); err != nil {
		return err
	}
	if err := set(container, "imagePullPolicy", "IfNotPresent"); err != nil {
		return err
	}
	return set(container, "securityContext", "{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}")
}
