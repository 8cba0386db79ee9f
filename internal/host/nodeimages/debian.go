// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Debian selects the Debian of an image. The zero value is the one that is tested.
type Debian struct {
	// Suite is the release, by default bookworm.
	Suite string
	// Mirror is where its packages are fetched from, by default the default of the
	// tool, which verifies the signatures.
	Mirror string
	// Env is the environment of the tools, such as a proxy.
	Env []string
}

const defaultSuite = "bookworm"

// debianRecipe is incremented when the same options result in another root.
const debianRecipe = "debian 2"

// packages are what systemd, containerd, kubelet, kube-proxy and cloud-init need.
var packages = strings.Fields(`
	systemd systemd-sysv dbus udev
	iptables nftables conntrack ethtool socat kmod iproute2 iputils-ping
	ca-certificates procps mount util-linux libseccomp2 cloud-init
`)

// merged are the releases with a package whose only purpose is to declare that /usr
// is merged with /, which mmdebstrap ensures. Without it, a package that performs
// the merge is installed, with 50 MiB of Perl.
var merged = []string{"bookworm", "trixie"}

// unread are the files of packages that no program reads in a machine, but that
// programs would read to generate locales or to add hardware: devices and locales
// are the host's.
var unread = []string{"usr/share/i18n", "usr/lib/udev/hwdb.d", "usr/lib/udev/hwdb.bin"}

// unneeded are files that take space and that no program reads in a machine.
var unneeded = []string{"/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/bug/*", "/usr/share/lintian/*"}

// tools are the tools that can create a root, best first: mmdebstrap is several
// times faster, and can leave out unneeded files.
var tools = []string{"mmdebstrap", "debootstrap"}

// ErrNoTool means that the host has none of the tools.
var ErrNoTool = errors.New("neither mmdebstrap nor debootstrap is installed: install one, such as by \"apt-get install mmdebstrap\", or bring an image from another host with \"capstan image import\"")

// debianTool finds a tool with a function such as exec.LookPath.
func debianTool(look func(string) (string, error)) (name, path string, err error) {
	for _, name := range tools {
		if path, err := look(name); err == nil {
			return name, path, nil
		}
	}
	return "", "", ErrNoTool
}

// inputs returns the inputs of a root.
func (o Debian) inputs(tool string) []string {
	o = o.complete()
	return append([]string{debianRecipe, o.Suite, o.Mirror, tool, runtime.GOARCH}, o.include(tool)...)
}

// include returns the packages that a tool is asked to install; it adds their
// dependencies.
func (o Debian) include(tool string) []string {
	if tool == "mmdebstrap" && slices.Contains(merged, o.Suite) {
		return append(slices.Clone(packages), "usr-is-merged")
	}
	return packages
}

func (o Debian) complete() Debian {
	if o.Suite == "" {
		o.Suite = defaultSuite
	}
	return o
}

// arguments returns the arguments with which a tool creates a root in a folder.
func (o Debian) arguments(tool, dir string) []string {
	o = o.complete()
	args := []string{"--variant=minbase", "--include=" + strings.Join(o.include(tool), ",")}
	if tool == "mmdebstrap" {
		args = append(args, "--mode=root", "--format=directory")
		if slices.Contains(merged, o.Suite) {
			args = append(args, "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr")
		}
		for _, u := range unneeded {
			args = append(args, "--dpkgopt=path-exclude="+u)
		}
		// Images that are distributed must contain the copyright texts.
		args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright")
	}
	args = append(args, o.Suite, dir)
	if o.Mirror != "" {
		args = append(args, o.Mirror)
	}
	return args
}

// grace is the time limit for a stopped tool to undo its mounts.
const grace = 20 * time.Second

// maxOutput is how much of a failed tool's output is part of the error: its last
// lines.
const maxOutput = 2000

// make creates a root in an empty folder. It needs root.
func (o Debian) make(ctx context.Context, dir string) error {
	name, path, err := debianTool(exec.LookPath)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("a root with files of many owners is made by root alone: run it as root")
	}
	// debootstrap runs programs of the root, whose folder other users must be able to
	// enter; the store around it is not accessible to them.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, o.arguments(name, dir)...)
	cmd.Env = append(append([]string(nil), o.Env...), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if err := run(ctx, cmd); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return clean(dir)
}

// run runs a command. The error has the end of its output.
func run(ctx context.Context, cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out[max(0, len(out)-maxOutput):])))
	}
	return nil
}

// clean removes files of the build or of one machine: lists and caches of packages,
// logs, identities, devices, and the host's network configuration; and files that
// no machine reads.
func clean(root string) error {
	var errs []error
	for _, inside := range []string{"dev", "run", "tmp", "var/cache/apt", "var/cache/debconf", "var/lib/apt/lists", "var/log", "var/tmp"} {
		errs = append(errs, empty(filepath.Join(root, inside)))
	}
	for _, file := range []string{"etc/hostname", "etc/hosts", "etc/machine-id", "etc/resolv.conf", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed", "var/cache/ldconfig/aux-cache"} {
		if err := os.Remove(filepath.Join(root, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, inside := range unread {
		errs = append(errs, os.RemoveAll(filepath.Join(root, inside)))
	}
	return errors.Join(errs...)
}

// empty removes the content of a folder.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}
