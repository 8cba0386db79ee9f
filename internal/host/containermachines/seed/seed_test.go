// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"encoding/json"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var machine = Machine{
	Instance: "m0-1234", Name: "m0", ProviderID: "local://ns/demo/m0", FailureDomain: "a", Address: netip.MustParseAddr("10.208.0.2"),
	MachineID: strings.Repeat("ab", 16), BootID: "11111111-2222-3333-4444-555555555555",
}

func TestSeedConfiguresMissingHostFeatures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host       Host
		want       map[string]any // of kubelet
		containerd bool
	}{
		"nothing":                {Host{LowersOOMScores: true, MaxOpenFiles: 1 << 20}, map[string]any{}, false},
		"cgroups of version 2":   {Host{LowersOOMScores: true, CgroupV1: true}, map[string]any{"failCgroupV1": false}, false},
		"open files":             {Host{LowersOOMScores: true, MaxOpenFiles: 20000}, map[string]any{"maxOpenFiles": 20000.0}, false},
		"the right to be spared": {Host{}, map[string]any{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := Root(tc.host, machine)
			got := map[string]any{}
			if err := yaml.Unmarshal(files["etc/capstan/kubelet.d/10-machine.conf"].Data, &got); err != nil {
				t.Fatal(err)
			}
			for _, same := range []string{"apiVersion", "kind", "failSwapOn", "imageGCHighThresholdPercent", "evictionHard"} {
				delete(got, same)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kubelet (-want +got):\n%s", diff)
			}
			if _, has := files["etc/containerd/conf.d/10-machine.toml"]; has != tc.containerd {
				t.Errorf("containerd: %v", has)
			}
		})
	}
}

// TestSeedConfiguresKubeadmForHost runs the script, with a kubeadm
// that prints its arguments.
func TestSeedConfiguresKubeadmForHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeadm.yaml")
	if err := os.WriteFile(config, []byte("kind: InitConfiguration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own.yaml")
	if err := os.WriteFile(own, []byte("kind: KubeProxyConfiguration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(h Host, args ...string) string {
		t.Helper()
		bin := filepath.Join(t.TempDir(), "bin")
		script := kubeadm(h)
		for from, to := range map[string]string{"/usr/local/bin/kubeadm /usr/bin/kubeadm": bin, "/run/capstan": dir + "/run", "/etc/capstan/kube-proxy.yaml": dir + "/kube-proxy.yaml"} {
			if !strings.Contains(script, from) {
				t.Fatalf("the script does not name %s", from)
			}
			script = strings.ReplaceAll(script, from, to)
		}
		if err := Write(filepath.Dir(bin), map[string]File{"x/kubeadm": {[]byte(script), 0o755}, "x/../bin": {[]byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755}}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kube-proxy.yaml"), []byte(kubeProxy), 0o600); err != nil {
			t.Error(err)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(bin), "x/kubeadm"), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.ReplaceAll(string(out), dir, "DIR")
	}
	const ignore = "<--ignore-preflight-errors=SystemVerification>"
	old := Host{CgroupV1: true}
	for name, tc := range map[string]struct {
		host Host
		args []string
		want string
	}{
		"init":                        {Host{}, []string{"init", "--config", config}, "<init><--config><DIR/run/kubeadm.yaml>"},
		"init, in one word":           {Host{}, []string{"init", "--config=" + config, "-v", "2"}, "<init><--config=DIR/run/kubeadm.yaml><-v><2>"},
		"init, of an old host":        {old, []string{"init", "--config", config}, "<init><--config><DIR/run/kubeadm.yaml>" + ignore},
		"init, with a kube-proxy":     {Host{}, []string{"init", "--config", own}, "<init><--config><DIR/own.yaml>"},
		"join":                        {Host{}, []string{"join", "--config", config}, "<join><--config><DIR/kubeadm.yaml>"},
		"join, of an old host":        {old, []string{"join", "--config", config, "a b"}, "<join><--config><DIR/kubeadm.yaml><a b>" + ignore},
		"a phase":                     {old, []string{"init", "phase", "certs", "all"}, "<init><phase><certs><all>"},
		"something else, on any host": {old, []string{"version"}, "<version>"},
	} {
		if got := run(tc.host, tc.args...); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	joined, err := os.ReadFile(filepath.Join(dir, "run/kubeadm.yaml"))
	if err != nil || string(joined) != "kind: InitConfiguration\n"+kubeProxy {
		t.Errorf("configuration %q, %v", joined, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run/kubeadm.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info, err)
	}
}

func TestBootstrapDataIsPassedOnUnchangedAndClosed(t *testing.T) {
	t.Parallel()
	data := []byte("## template: jinja\n#cloud-config\n\x00secret\n")
	files, err := NoCloud(machine, data)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Write(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files); err != nil {
		t.Errorf("second call: %v", err)
	}
	at := filepath.Join(dir, "lib/cloud/seed/nocloud")
	got, err := os.ReadFile(filepath.Join(at, "user-data"))
	if err != nil || string(got) != string(data) {
		t.Errorf("user-data %q, %v", got, err)
	}
	text, err := os.ReadFile(filepath.Join(at, "meta-data"))
	meta := map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	want := map[string]string{"instance-id": "m0-1234", "local-hostname": "m0", "local_ipv4": "10.208.0.2", "provider_id": "local://ns/demo/m0", "availability_zone": "a"}
	if diff := cmp.Diff(want, meta); diff != "" || err != nil {
		t.Errorf("%v, meta-data (-want +got):\n%s", err, diff)
	}
	for name, mode := range map[string]fs.FileMode{"": 0o700, "user-data": 0o600, "meta-data": 0o600} {
		if info, err := os.Stat(filepath.Join(at, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s/%s: %v, %v, want %v", at, name, info.Mode(), err, mode)
		}
	}
}

func TestAMachineDoesNotAskItselfForNames(t *testing.T) {
	t.Parallel()
	const host = "nameserver 127.0.0.53\nnameserver 10.0.0.2\noptions edns0\nsearch lan\nnameserver ::1"
	if got, want := resolvConf(host), "nameserver 10.0.0.2\noptions edns0\nsearch lan\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAMachineWithALimitSeesThatMuchMemory(t *testing.T) {
	t.Parallel()
	limited := machine
	limited.Memory = 2 << 30
	h := Host{MemInfo: "MemTotal:       16384000 kB\nMemFree:         1024000 kB\nBuffers:             100 kB\n"}
	want := "MemTotal:        2097152 kB\nMemFree:         2097152 kB\nBuffers:             100 kB\n"
	if diff := cmp.Diff(want, string(Shadows(h, limited)["/proc/meminfo"])); diff != "" {
		t.Errorf("meminfo (-want +got):\n%s", diff)
	}
	if _, has := Shadows(h, machine)["/proc/meminfo"]; has {
		t.Error("one without a limit has another meminfo")
	}
}
