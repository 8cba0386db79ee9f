// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
)

//go:embed files
var files embed.FS

// nodeRecipe is incremented when the same programs result in another layer for a reason
// that inputs does not include.
const nodeRecipe = "layer 1"

// nodeLayer turns a Debian into a node: it has the configuration of systemd, containerd,
// kubelet and cloud-init, and programs.
type nodeLayer struct {
	// Sandbox is the reference of the image that holds the namespaces of Pods.
	Sandbox string
	// Programs are installed in the path, Plugins in containerd's folder for CNI
	// plugins.
	Programs, Plugins []string
}

// folders are needed by later steps: machines add their own configuration to those
// of /etc.
var folders = []string{"etc/containerd/conf.d", "etc/capstan/kubelet.d", "etc/cni/net.d", "opt/cni/bin", "usr/local/bin", "usr/lib/modules"}

// enabled are the services that start with a machine.
var enabled = []string{"containerd.service", "kubelet.service"}

// masked are the units of Debian that are useless in a container: for hardware,
// disks and consoles that it does not have, and for clocks and packages, which are
// the host's.
var masked = strings.Fields(maskedList)

//go:embed masked.txt
var maskedList string

// inputs returns the inputs of a layer in addition to its programs.
func (c nodeLayer) inputs() ([]string, error) {
	inputs := []string{nodeRecipe, c.Sandbox}
	inputs = append(append(append(inputs, folders...), enabled...), masked...)
	err := fs.WalkDir(files, "files", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		inputs = append(inputs, name, string(text))
		return err
	})
	return inputs, err
}

// make creates the layer in an empty folder.
func (c nodeLayer) make(dir string) error {
	for _, d := range append(slices.Clone(folders), "etc/systemd/system/multi-user.target.wants") {
		if err := makeFolder(dir, d); err != nil {
			return err
		}
	}
	if err := c.config(dir); err != nil {
		return err
	}
	units := filepath.Join(dir, "etc/systemd/system")
	var errs []error
	for _, unit := range enabled {
		errs = append(errs, os.Symlink("../"+unit, filepath.Join(units, "multi-user.target.wants", unit)))
	}
	for _, unit := range masked {
		errs = append(errs, os.Symlink("/dev/null", filepath.Join(units, unit)))
	}
	for to, programs := range map[string][]string{"usr/local/bin": c.Programs, "opt/cni/bin": c.Plugins} {
		for _, p := range programs {
			errs = append(errs, layers.CopyFile(p, filepath.Join(dir, to, filepath.Base(p)), 0o755))
		}
	}
	// Each machine has its own identity; an empty file is filled by the program that
	// starts it.
	errs = append(errs, os.WriteFile(filepath.Join(dir, "etc/machine-id"), nil, 0o444))
	return errors.Join(errs...)
}

// makeFolder creates a folder and its parents with the usual permissions of system
// folders, regardless of the default permissions of new folders.
func makeFolder(dir, name string) error {
	err := os.MkdirAll(filepath.Join(dir, name), 0o755)
	for at := name; err == nil && at != "."; at = path.Dir(at) {
		err = os.Chmod(filepath.Join(dir, at), 0o755)
	}
	return errors.Join(err, os.Chmod(dir, 0o755))
}

// config writes the configuration files.
func (c nodeLayer) config(dir string) error {
	return fs.WalkDir(files, "files", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "files" {
			return err
		}
		inside := strings.TrimPrefix(name, "files/")
		if e.IsDir() {
			return makeFolder(dir, inside)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, inside)
		if err := os.WriteFile(to, []byte(strings.ReplaceAll(string(text), "@SANDBOX@", c.Sandbox)), 0o600); err != nil {
			return err
		}
		return os.Chmod(to, 0o644)
	})
}
