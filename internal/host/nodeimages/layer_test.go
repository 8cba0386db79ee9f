// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

func makeLayer(t *testing.T) string {
	t.Helper()
	programs, dir := t.TempDir(), t.TempDir()
	c := nodeLayer{Sandbox: "registry.k8s.io/pause:3.10.2"}
	for _, name := range []string{"kubelet", "ptp"} {
		file := filepath.Join(programs, name)
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Programs, c.Plugins = []string{filepath.Join(programs, "kubelet")}, []string{filepath.Join(programs, "ptp")}
	if err := c.make(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatIsInALayerCanBeReadByItsServices(t *testing.T) {
	t.Parallel()
	dir := makeLayer(t)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		want := fs.FileMode(0o644)
		switch {
		case e.Type() == fs.ModeSymlink:
			return nil
		case e.IsDir(), strings.Contains(name, "/bin/"):
			want = 0o755
		case name == "/etc/machine-id":
			want = 0o444
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s is %v, want %v", name, info.Mode(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usr/local/bin/kubelet", "opt/cni/bin/ptp"} {
		if got := string(read(t, dir, name)); got != filepath.Base(name) {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestContainerdConfigMatchesKubeadm(t *testing.T) {
	t.Parallel()
	var c struct {
		Version int
		Imports []string
		Plugins map[string]map[string]any
	}
	if err := toml.Unmarshal(read(t, makeLayer(t), "etc/containerd/config.toml"), &c); err != nil {
		t.Fatal(err)
	}
	pinned := c.Plugins["io.containerd.cri.v1.images"]["pinned_images"].(map[string]any)
	runtimes := c.Plugins["io.containerd.cri.v1.runtime"]["containerd"].(map[string]any)["runtimes"].(map[string]any)
	options := runtimes["runc"].(map[string]any)["options"].(map[string]any)
	if pinned["sandbox"] != "registry.k8s.io/pause:3.10.2" || options["SystemdCgroup"] != true {
		t.Errorf("the sandbox is %v, and runc's options are %v", pinned, options)
	}
	if c.Version != 3 || !slices.Equal(c.Imports, []string{"/etc/containerd/conf.d/*.toml"}) {
		t.Errorf("version %d imports %v", c.Version, c.Imports)
	}
}

func TestCloudInitHasWhatBootstrapDataUses(t *testing.T) {
	t.Parallel()
	var c struct {
		Datasources  []string `yaml:"datasource_list"`
		Init         []string `yaml:"cloud_init_modules"`
		Config       []string `yaml:"cloud_config_modules"`
		Final        []string `yaml:"cloud_final_modules"`
		Network      map[string]string
		KeepHostname bool `yaml:"preserve_hostname"`
	}
	if err := yaml.Unmarshal(read(t, makeLayer(t), "etc/cloud/cloud.cfg"), &c); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Datasources, []string{"NoCloud"}) || c.Network["config"] != "disabled" || !c.KeepHostname {
		t.Errorf("datasources %v, network %v, keeps its name %v", c.Datasources, c.Network, c.KeepHostname)
	}
	all := slices.Concat(c.Init, c.Config, c.Final)
	// The modules that internal/pure/cloudinit writes.
	for _, module := range []string{"bootcmd", "write_files", "disk_setup", "mounts", "users_groups", "ntp", "runcmd", "scripts_user"} {
		if !slices.Contains(all, module) {
			t.Errorf("module %s is missing", module)
		}
	}
}

func TestServicesAreEnabledOrMasked(t *testing.T) {
	t.Parallel()
	units := filepath.Join(makeLayer(t), "etc/systemd/system")
	for _, unit := range enabled {
		if _, err := os.Stat(filepath.Join(units, "multi-user.target.wants", unit)); err != nil {
			t.Errorf("%s is enabled, and is not there: %v", unit, err)
		}
	}
	for _, unit := range masked {
		if to, err := os.Readlink(filepath.Join(units, unit)); err != nil || to != "/dev/null" {
			t.Errorf("%s leads to %q, %v; want that it is masked", unit, to, err)
		}
	}
	for _, unit := range []string{"dbus.service", "systemd-journald.service", "systemd-sysctl.service", "cloud-init.service", "cloud-final.service"} {
		if slices.Contains(masked, unit) {
			t.Errorf("%s is masked, which machines need", unit)
		}
	}
}

func TestInputsDistinguishLayers(t *testing.T) {
	t.Parallel()
	a, errA := nodeLayer{Sandbox: "a"}.inputs()
	b, errB := nodeLayer{Sandbox: "b"}.inputs()
	if errA != nil || errB != nil || slices.Equal(a, b) {
		t.Errorf("the inputs are the same: %v, %v", errA, errB)
	}
	if !slices.ContainsFunc(a, func(s string) bool { return strings.Contains(s, "SystemdCgroup = true") }) {
		t.Error("the configuration of containerd is no input")
	}
}
