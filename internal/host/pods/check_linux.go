// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Check creates a sandbox with a container that starts nothing, on the disk of a
// data directory, which need not exist yet, and reports what works. It leaves
// nothing behind.
func Check(ctx context.Context, dir string) Report {
	r := Report{Mode: Root}
	if os.Geteuid() != 0 {
		r = Report{Mode: Rootless, Missing: []Missing{{
			What:   "limits of memory and processors, supplemental groups, and user ids that keep Pods apart",
			Why:    "the plane does not run as root",
			Remedy: "run it as root if Pods need them; without, trust each provider with what the plane's user may do",
		}}}
	}
	dir, err := os.MkdirTemp(above(dir), "capstan-check-")
	if err != nil {
		return Report{Mode: None, Missing: []Missing{{What: "sandboxes of Pods", Why: err.Error(), Remedy: "choose a data directory that this user can write to"}}}
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing is in it
	if err := try(ctx, dir, nil); err != nil {
		why := strings.TrimSuffix(err.Error(), remedy(err))
		return Report{Mode: None, Missing: []Missing{{What: "sandboxes of Pods", Why: why, Remedy: remedyFor(err)}}}
	}
	if r.Mode == Root {
		for _, l := range []struct {
			what string
			set  func(*Spec)
		}{
			{"limits of memory", func(s *Spec) { s.Memory = 64 << 20 }},
			{"limits of processors", func(s *Spec) { s.MilliCPU = 500 }},
		} {
			if err := try(ctx, dir, l.set); err != nil {
				r.Missing = append(r.Missing, Missing{What: l.what, Why: err.Error(), Remedy: "give the plane's control group the controllers memory, cpu and pids, or leave the limits out"})
			}
		}
	}
	return r
}

// above returns a folder, or its nearest existing parent.
func above(dir string) string {
	for dir != "" && dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// try creates a sandbox and a container's root in a folder, and removes them.
func try(ctx context.Context, dir string, change func(*Spec)) (err error) {
	dir, err = os.MkdirTemp(dir, "try-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h, err := Open(dir+"/state", Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	root := dir + "/root"
	if err := errors.Join(os.Mkdir(root, 0o755), os.Chmod(root, 0o755)); err != nil {
		return err
	}
	spec := Spec{Name: "check", Hostname: "check", Address: netip.AddrFrom4([4]byte{10, 244, 0, 1})}
	if change != nil {
		change(&spec)
	}
	s, err := h.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(ctx, 0)) }()
	p, err := s.run(ctx, Container{Name: "check", Root: root, Args: []string{"check"}, User: 1, Group: 1}, true)
	if err != nil {
		return err
	}
	if e := p.Wait(); e.Code != 0 {
		return errors.New("a container that should have ended well did not: " + e.Message)
	}
	return nil
}

// remedy returns remedyFor as the end of an error's text.
func remedy(err error) string {
	if r := remedyFor(err); r != "" {
		return ": " + r
	}
	return ""
}

func remedyFor(err error) string {
	if _, ok := errors.AsType[*ownersError](err); ok {
		return "put the data directory on a file system that can, as ext4, xfs and btrfs can, or run the plane as a plain user"
	}
	switch {
	case strings.Contains(err.Error(), "nf_tables"):
		return "load the kernel's modules nf_tables, nft_chain_nat and nft_nat (modprobe), or use a kernel that has them"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return "raise the limits of namespaces: sysctl user.max_user_namespaces, user.max_net_namespaces and the like"
	case errors.Is(err, unix.EPERM), errors.Is(err, fs.ErrPermission):
		return "let users make user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), let them read and execute this program (chmod 755), and run the plane outside of containers that forbid namespaces; or run it as root"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "use Linux 5.12 or newer with user namespaces (CONFIG_USER_NS)"
	}
	return ""
}
