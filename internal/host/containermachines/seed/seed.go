// SPDX-License-Identifier: Apache-2.0

// Package seed lists the files with which a machine starts: its bootstrap data as
// the seed of cloud-init's datasource NoCloud, and what this host and this machine
// need of Kubernetes, so that bootstrap data can be independent of both.
package seed

import (
	"bytes"
	_ "embed" // for kubeadm.sh
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Host is what machines of a host share.
type Host struct {
	// CgroupV1 means that the host has no unified hierarchy of control groups.
	CgroupV1 bool
	// MaxOpenFiles is how many files a process may have open at most.
	MaxOpenFiles uint64
	// LowersOOMScores means that processes may be spared when memory runs out,
	// which requires CAP_SYS_RESOURCE.
	LowersOOMScores bool
	// ResolvConf is the host's resolv.conf.
	ResolvConf string
	// MemInfo is the host's /proc/meminfo.
	MemInfo string
}

// Machine is what distinguishes a machine from others.
type Machine struct {
	Instance      string // by which cloud-init recognizes a new machine
	Name          string
	ProviderID    string
	FailureDomain string // "" is none
	Address       netip.Addr
	MachineID     string // 32 hexadecimal digits
	BootID        string // a UUID
	Memory        int64  // bytes, 0 is all of the host's
}

// File is one with which a machine starts.
type File struct {
	Data []byte
	Mode os.FileMode
}

// openFiles is what kubelet requests by default.
const openFiles = 1_000_000

// Root are the files of its root file system that are the machine's own, by path.
func Root(h Host, m Machine) map[string]File {
	files := map[string]File{
		"etc/hostname":                          {[]byte(m.Name + "\n"), 0o644},
		"etc/hosts":                             {fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", m.Address, m.Name), 0o644},
		"etc/machine-id":                        {[]byte(m.MachineID + "\n"), 0o444},
		"etc/resolv.conf":                       {[]byte(resolvConf(h.ResolvConf)), 0o644},
		"etc/capstan/kubelet.d/10-machine.conf": {[]byte(kubelet(h)), 0o644},
		"etc/capstan/kube-proxy.yaml":           {[]byte(kubeProxy), 0o644},
		"usr/local/sbin/kubeadm":                {[]byte(kubeadm(h)), 0o755},
	}
	if !h.LowersOOMScores {
		files["etc/containerd/conf.d/10-machine.toml"] = File{[]byte(containerd), 0o644}
	}
	return files
}

const containerd = `version = 3

[plugins.'io.containerd.cri.v1.runtime']
  # This host protects no process when memory runs out.
  restrict_oom_score_adj = true
`

// kubelet is a drop-in of kubelet's configuration.
func kubelet(h Host) string {
	var b strings.Builder
	b.WriteString(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# Swap and disk are the host's: a machine cannot correct either.
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 100Mi
  nodefs.available: 0%
  nodefs.inodesFree: 0%
  imagefs.available: 0%
  imagefs.inodesFree: 0%
`)
	if h.CgroupV1 {
		b.WriteString("failCgroupV1: false\n")
	}
	if h.MaxOpenFiles > 0 && h.MaxOpenFiles < openFiles {
		fmt.Fprintf(&b, "maxOpenFiles: %d\n", h.MaxOpenFiles)
	}
	return b.String()
}

// kubeProxy leaves alone what the kernel has one of for all machines.
const kubeProxy = `---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
conntrack:
  maxPerCore: 0
  min: 0
`

//go:embed kubeadm.sh
var kubeadmScript string

// kubeadm is found before the real one in the path: bootstrap data calls it by
// name. It passes to the real one what this host lacks and, where the configuration
// has none, how kube-proxy must be configured. kubeadm has drop-ins for neither.
func kubeadm(h Host) string {
	ignore := ""
	if h.CgroupV1 {
		ignore = " --ignore-preflight-errors=SystemVerification"
	}
	return strings.ReplaceAll(kubeadmScript, "@IGNORE@", ignore)
}

// resolvConf is what a machine can reach of the host's: not its loopback.
func resolvConf(of string) string {
	var out strings.Builder
	for line := range strings.Lines(of) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			if a, err := netip.ParseAddr(fields[1]); err != nil || a.IsLoopback() {
				continue
			}
		}
		out.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

// NoCloud are the files of the seed, by path below /var. Data is passed on as it
// is, and is for root alone.
func NoCloud(m Machine, data []byte) (map[string]File, error) {
	meta := map[string]string{
		"instance-id": m.Instance, "local-hostname": m.Name, "local_ipv4": m.Address.String(), "provider_id": m.ProviderID,
	}
	if m.FailureDomain != "" {
		meta["availability_zone"] = m.FailureDomain
	}
	text, err := json.Marshal(meta) // which is YAML
	if err != nil {
		return nil, fmt.Errorf("write the metadata of machine %s: %w", m.Name, err)
	}
	const dir = "lib/cloud/seed/nocloud/"
	return map[string]File{dir + "meta-data": {text, 0o600}, dir + "user-data": {bytes.Clone(data), 0o600}}, nil
}

// Shadows are files of /proc that a machine sees otherwise than the host.
func Shadows(h Host, m Machine) map[string][]byte {
	shadows := map[string][]byte{
		// kubelet insists on these, and does not write those with the desired
		// value.
		"/proc/sys/vm/overcommit_memory":  []byte("1\n"),
		"/proc/sys/kernel/panic":          []byte("10\n"),
		"/proc/sys/kernel/panic_on_oops":  []byte("1\n"),
		"/proc/sys/kernel/random/boot_id": []byte(m.BootID + "\n"),
	}
	if m.Memory > 0 && h.MemInfo != "" {
		shadows["/proc/meminfo"] = []byte(memInfo(h.MemInfo, m.Memory>>10))
	}
	return shadows
}

// memInfo has a limit in it in place of what the host has.
func memInfo(of string, kib int64) string {
	var out strings.Builder
	for line := range strings.Lines(of) {
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "MemTotal", "MemFree", "MemAvailable":
			fmt.Fprintf(&out, "%-16s%8d kB\n", name+":", kib)
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

// Write writes files below a folder. Each replaces what is there.
func Write(dir string, files map[string]File) error {
	var errs []error
	for name, f := range files {
		if err := write(dir, name, f); err != nil {
			errs = append(errs, fmt.Errorf("write %s of a machine: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// write writes one file. Folders are readable for all in the machine, unless the
// file is not, which is closed from its beginning.
func write(dir, name string, f File) error {
	at, mode := dir, os.FileMode(0o755)
	parts := strings.Split(filepath.Dir(name), "/")
	for i, part := range parts {
		at = filepath.Join(at, part)
		if i == len(parts)-1 && f.Mode&0o077 == 0 {
			mode = 0o700
		}
		if err := os.Mkdir(at, mode); err == nil {
			err = os.Chmod(at, mode) // independent of the umask
			if err != nil {
				return err
			}
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	to := filepath.Join(dir, name)
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(to, f.Data, 0o600); err != nil {
		return err
	}
	return os.Chmod(to, f.Mode)
}
