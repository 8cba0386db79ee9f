// SPDX-License-Identifier: Apache-2.0

// Package layer makes a node of a Debian: the configuration of systemd, containerd,
// kubelet and cloud-init, and the programs.
package layer

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed files
var files embed.FS

// Recipe is counted up when the same programs give another layer for a reason that
// Digest does not see.
const Recipe = "layer 1"

// Contents are what a layer has besides its configuration.
type Contents struct {
	// Sandbox is the reference of the image that holds the namespaces of Pods.
	Sandbox string
	// Programs go into the path, Plugins where containerd looks for those of CNI.
	Programs, Plugins []string
}

// folders are needed by what comes later: machines put configuration of their own
// into those of /etc.
var folders = []string{"etc/containerd/conf.d", "etc/capstan/kubelet.d", "etc/cni/net.d", "opt/cni/bin", "usr/local/bin", "usr/lib/modules"}

// enabled are the services that start with a machine.
var enabled = []string{"containerd.service", "kubelet.service"}

// masked are the units of Debian that make no sense in a container: hardware, disks
// and consoles that it has not, clocks and packages that are the host's.
var masked = strings.Fields(`
	apt-daily-upgrade.service apt-daily-upgrade.timer apt-daily.service apt-daily.timer
	console-getty.service container-getty@.service getty@.service getty.target serial-getty@.service autovt@.service
	cloud-init-hotplugd.service cloud-init-hotplugd.socket
	dev-hugepages.mount dev-mqueue.mount
	dpkg-db-backup.service dpkg-db-backup.timer
	e2scrub_all.service e2scrub_all.timer e2scrub_reap.service fstrim.service fstrim.timer
	kmod-static-nodes.service modprobe@.service systemd-modules-load.service
	man-db.service man-db.timer
	netfilter-persistent.service nftables.service
	proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount systemd-binfmt.service
	sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
	systemd-ask-password-console.path systemd-ask-password-wall.path
	systemd-boot-check-no-failures.service systemd-firstboot.service systemd-machine-id-commit.service
	systemd-hwdb-update.service systemd-initctl.socket systemd-logind.service
	systemd-network-generator.service systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service
	systemd-pstore.service systemd-random-seed.service systemd-remount-fs.service systemd-rfkill.service systemd-rfkill.socket
	systemd-resolved.service systemd-timesyncd.service systemd-udev-settle.service systemd-udev-trigger.service
	systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udevd.service systemd-update-utmp.service
	systemd-update-utmp-runlevel.service systemd-journal-flush.service systemd-journald-audit.socket tmp.mount
`)

// Inputs are what a layer depends on besides its contents.
func Inputs(c Contents) ([]string, error) {
	inputs := []string{Recipe, c.Sandbox}
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

// Make makes the layer in an empty folder.
func Make(dir string, c Contents) error {
	for _, d := range append(slices.Clone(folders), "etc/systemd/system/multi-user.target.wants") {
		if err := makeFolder(dir, d); err != nil {
			return err
		}
	}
	if err := config(dir, c); err != nil {
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
			errs = append(errs, install(p, filepath.Join(dir, to, filepath.Base(p))))
		}
	}
	// Machines have an identity each; an empty one is given by whoever starts them.
	errs = append(errs, os.WriteFile(filepath.Join(dir, "etc/machine-id"), nil, 0o444))
	return errors.Join(errs...)
}

// makeFolder makes one with those above it, as folders of a system are, whatever the
// permissions are that new folders get here.
func makeFolder(dir, name string) error {
	for at := range parents(name) {
		full := filepath.Join(dir, at)
		if err := os.Mkdir(full, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(full, 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}

// parents yields a, a/b and a/b/c for a/b/c.
func parents(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		at := ""
		for part := range strings.SplitSeq(name, "/") {
			if at = path.Join(at, part); !yield(at) {
				return
			}
		}
	}
}

// config writes the files of configuration.
func config(dir string, c Contents) error {
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

// install puts a program into place. It is copied, not linked: a layer is an
// outcome of its own, with permissions of its own.
func install(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("install %s: %w", filepath.Base(to), err)
	}
	return out.Chmod(0o755)
}
