// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// checkGolden compares a config with testdata/NAME, which UPDATE_GOLDEN=1 writes.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	builder.Golden(t, name, pretty.Bytes())
}

func TestRenderWritesEverySection(t *testing.T) {
	t.Parallel()
	d := Document{
		Files: []bootstrapv1.File{
			{Path: "/etc/a", Owner: "root:root", Permissions: "0640", Content: "one\ntwo\n"},
			{Path: "/etc/b", Encoding: bootstrapv1.Base64, Append: new(true), Owner: "1000:100", Content: "aGVs\nbG8="},
			{Path: "/etc/c", Encoding: bootstrapv1.GzipBase64, Content: "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA=="},
			{Path: "/etc/a", Append: new(true), Content: "three\n"},
			{Path: ConfigPath, Permissions: "0600", Content: "kind: InitConfiguration\n"},
		},
		Commands: []string{"true", "kubeadm init --config /etc/kubeadm.yml --v 5"},
	}
	d.Spec = bootstrapv1.KubeadmConfigSpec{
		NTP: bootstrapv1.NTP{Enabled: new(true), Servers: []string{"ntp1.example", "ntp2.example"}},
		Users: []bootstrapv1.User{
			{
				Name: "ops", Gecos: "Operators", Groups: "wheel, docker", HomeDir: "/home/ops", Shell: "/bin/sh", PrimaryGroup: "ops",
				Passwd: "$6$salt$hash", LockPassword: new(false), Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"},
			},
			{Name: "locked", Passwd: "$6$salt$hash", LockPassword: new(true), Sudo: "False"},
		},
		DiskSetup: bootstrapv1.DiskSetup{
			Partitions: []bootstrapv1.Partition{
				{Device: "/dev/sdb", Layout: new(true), Overwrite: new(true), TableType: "gpt"},
				{Device: "/dev/nvme1n1", DiskLayout: []bootstrapv1.PartitionSpec{{Percentage: 100, PartitionType: bootstrapv1.PartitionTypeLVM}}},
				{Device: "/dev/sdd", Layout: new(false), TableType: "mbr"},
			},
			Filesystems: []bootstrapv1.Filesystem{
				{Device: "/dev/sdb", Filesystem: "ext4", Label: "data", Partition: "auto", Overwrite: new(true), ExtraOpts: []string{"-E", "lazy_itable_init=1"}},
				{Device: "/dev/nvme1n1", Filesystem: "xfs", Partition: "1"},
				{Device: "/dev/disk/by-id/x", Filesystem: "btrfs", Partition: "2"},
				{Device: "/dev/sdd", Filesystem: "vfat", Partition: "any"},
			},
		},
		Mounts: []bootstrapv1.MountPoints{{"LABEL=data", "/var/lib/my-data"}, {"tmpfs", "/scratch", "tmpfs", "size=50%", "0", "0"}, {"sdd", "/mnt"}},
	}
	d.Spec.Ignition.ContainerLinuxConfig = bootstrapv1.ContainerLinuxConfig{Strict: new(true), AdditionalConfig: `
systemd:
  units:
  - {name: extra.service, enable: true, contents: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}
  - {name: kubeadm.service, dropins: [{name: 10-env.conf, contents: "[Service]\nEnvironment=A=b\n"}]}
networkd:
  units: [{name: 00-eth0.network, contents: "[Match]\nName=eth0\n"}]
storage:
  files:
  - {path: /opt/tool, filesystem: root, mode: 0755, contents: {remote: {url: "https://example.com/tool", verification: {hash: {function: sha512, sum: cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e}}}}}
  - {path: /etc/a, append: true, contents: {inline: four}}
  directories: [{path: /opt/data, mode: 0750, user: {name: ops}}]
  links: [{path: /opt/link, target: /opt/tool}]
  filesystems: [{name: cache, mount: {device: /dev/sde, format: ext4, label: cache, wipe_filesystem: true}}]
  disks: [{device: /dev/sdf, wipe_table: true, partitions: [{label: swap, number: 1, start: 1MiB, size: 2GiB, type_guid: swap_partition}, {label: rest, number: 2, size: 0}]}]
  raid: [{name: data, level: raid1, devices: [/dev/sdg, /dev/sdh], spares: 0}]
passwd:
  users: [{name: core, ssh_authorized_keys: [ssh-ed25519 BBBB core]}]
  groups: [{name: ops, gid: 900}]
`}
	got, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "everything.json", got)
}

// TestWhatProvidersAndOurBookUseRenders checks that the configs in providers' templates,
// and those in Capstan's book, are strict ones that Ignition accepts.
func TestWhatProvidersAndOurBookUseRenders(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	for _, path := range append(paths, "../../../docs/book/ignition.md") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(raw), "\n---\n")
		if filepath.Ext(path) == ".md" {
			blocks = nil
			for _, b := range strings.Split(string(raw), "```yaml\n")[1:] {
				b, _, _ = strings.Cut(b, "```")
				blocks = append(blocks, b)
			}
		}
		for i, b := range blocks {
			texts[fmt.Sprintf("%s %d", filepath.Base(path), i+1)] = b
		}
	}
	if len(texts) != 8 {
		t.Errorf("%d configs, want 8", len(texts))
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var in struct {
				bootstrapv1.KubeadmConfigSpec `json:",inline"`
				Of                            *bootstrapv1.KubeadmConfigSpec `json:"kubeadmConfigSpec"`
			}
			if err := yaml.UnmarshalStrict([]byte(text), &in); err != nil {
				t.Fatal(err)
			}
			spec := in.KubeadmConfigSpec
			if in.Of != nil {
				spec = *in.Of
			}
			spec.Ignition.ContainerLinuxConfig.Strict = new(true)
			commands := append(spec.PreKubeadmCommands, "kubeadm join")
			if _, err := Render(Document{Spec: spec, Files: spec.Files, Commands: commands}); err != nil || spec.Format != bootstrapv1.Ignition {
				t.Errorf("format %s: %v", spec.Format, err)
			}
		})
	}
}

func TestRenderWritesTheLeast(t *testing.T) {
	t.Parallel()
	got, err := Render(Document{Commands: []string{"kubeadm join"}, Spec: bootstrapv1.KubeadmConfigSpec{NTP: bootstrapv1.NTP{Enabled: new(false)}}})
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "least.json", got)
}

func TestCheckNamesTheFieldThatIgnitionCannotFollow(t *testing.T) {
	t.Parallel()
	additional := func(text string) bootstrapv1.KubeadmConfigSpec {
		return bootstrapv1.KubeadmConfigSpec{Ignition: bootstrapv1.IgnitionSpec{ContainerLinuxConfig: bootstrapv1.ContainerLinuxConfig{AdditionalConfig: text}}}
	}
	disk := func(p bootstrapv1.Partition) bootstrapv1.KubeadmConfigSpec {
		return bootstrapv1.KubeadmConfigSpec{DiskSetup: bootstrapv1.DiskSetup{Partitions: []bootstrapv1.Partition{p}}}
	}
	made := func(f bootstrapv1.Filesystem) bootstrapv1.KubeadmConfigSpec {
		return bootstrapv1.KubeadmConfigSpec{DiskSetup: bootstrapv1.DiskSetup{Filesystems: []bootstrapv1.Filesystem{f}}}
	}
	const config = "spec.ignition.containerLinuxConfig.additionalConfig: Forbidden: "
	tests := map[string]struct {
		spec bootstrapv1.KubeadmConfigSpec
		want string
	}{
		"nothing":              {bootstrapv1.KubeadmConfigSpec{}, ""},
		"boot commands":        {bootstrapv1.KubeadmConfigSpec{BootCommands: []string{"a"}}, "spec.bootCommands: Forbidden"},
		"a name of a template": {bootstrapv1.KubeadmConfigSpec{JoinConfiguration: bootstrapv1.JoinConfiguration{NodeRegistration: bootstrapv1.NodeRegistrationOptions{Name: "{{ ds.meta_data.local_hostname }}"}}}, `spec.joinConfiguration.nodeRegistration.name: Invalid value: "{{ ds.meta_data.local_hostname }}": only cloud-init`},
		"a flag of a template": {bootstrapv1.KubeadmConfigSpec{InitConfiguration: bootstrapv1.InitConfiguration{NodeRegistration: bootstrapv1.NodeRegistrationOptions{KubeletExtraArgs: []bootstrapv1.Arg{{Name: "a"}, {Name: "provider-id", Value: new("x:///{{ ds.meta_data.instance_id }}")}}}}}, `spec.initConfiguration.nodeRegistration.kubeletExtraArgs[1].value: Invalid value: "x:///{{ ds.meta_data.instance_id }}": only cloud-init`},
		"a file in /run":       {bootstrapv1.KubeadmConfigSpec{Files: []bootstrapv1.File{{Path: "/run/x"}}}, `spec.files[0].path: Invalid value: "/run/x": what lies there before`},
		"a file somewhere":     {bootstrapv1.KubeadmConfigSpec{Files: []bootstrapv1.File{{Path: "x"}}}, `spec.files[0].path: Invalid value: "x": must begin with /`},
		"permissions":          {bootstrapv1.KubeadmConfigSpec{Files: []bootstrapv1.File{{Path: "/x", Permissions: "rw"}}}, `spec.files[0].permissions: Invalid value: "rw": must be an octal number such as 0644`},
		"an inactive user":     {bootstrapv1.KubeadmConfigSpec{Users: []bootstrapv1.User{{Name: "a"}, {Name: "b", Inactive: new(true)}}}, "spec.users[1].inactive: Forbidden"},
		"sudo of two lines":    {bootstrapv1.KubeadmConfigSpec{Users: []bootstrapv1.User{{Name: "a", Sudo: "x\nroot ALL"}}}, "spec.users[0]: Invalid value"},
		"a server of two":      {bootstrapv1.KubeadmConfigSpec{NTP: bootstrapv1.NTP{Servers: []string{"a\nb"}}}, "spec.ntp.servers[0]: Invalid value"},
		"a table of mbr":       {disk(bootstrapv1.Partition{Device: "/dev/sdb", Layout: new(true), TableType: "mbr"}), `spec.diskSetup.partitions[0].tableType: Unsupported value: "mbr": supported values: "gpt"`},
		"shares of a disk":     {disk(bootstrapv1.Partition{Device: "/dev/sdb", DiskLayout: []bootstrapv1.PartitionSpec{{Percentage: 50}, {Percentage: 50}}}), "spec.diskSetup.partitions[0].diskLayout: Forbidden"},
		"half a disk":          {disk(bootstrapv1.Partition{Device: "/dev/sdb", DiskLayout: []bootstrapv1.PartitionSpec{{Percentage: 50}}}), "spec.diskSetup.partitions[0].diskLayout: Forbidden"},
		"replaceFS":            {made(bootstrapv1.Filesystem{Device: "/dev/sdb", Filesystem: "ext4", ReplaceFS: "ntfs"}), "spec.diskSetup.filesystems[0].replaceFS: Forbidden"},
		"a file system":        {made(bootstrapv1.Filesystem{Device: "/dev/sdb", Filesystem: "zfs"}), `spec.diskSetup.filesystems[0].filesystem: Unsupported value: "zfs"`},
		"a partition":          {made(bootstrapv1.Filesystem{Device: "/dev/sdb", Filesystem: "ext4", Partition: "first"}), `spec.diskSetup.filesystems[0].partition: Unsupported value: "first"`},
		"a device":             {made(bootstrapv1.Filesystem{Device: "", Filesystem: "ext4", Partition: "1"}), "spec.diskSetup.filesystems[0].device: Invalid value"},
		"half a mount":         {bootstrapv1.KubeadmConfigSpec{Mounts: []bootstrapv1.MountPoints{{"/dev/sdb"}}}, "spec.mounts[0]: Invalid value"},
		"swap":                 {bootstrapv1.KubeadmConfigSpec{Mounts: []bootstrapv1.MountPoints{{"/dev/sdb", "none", "swap"}}}, "spec.mounts[0]: Invalid value"},
		"a mount of lines":     {bootstrapv1.KubeadmConfigSpec{Mounts: []bootstrapv1.MountPoints{{"/dev/sdb\nx", "/a"}}}, "spec.mounts[0]: Invalid value"},
		"a former section":     {additional("etcd: {version: 3}"), config + "etcd has no counterpart in version 3 of Ignition's language"},
		"an unknown field":     {additional("systemd: {units: [{name: a, starts: yes}]}"), config + "starts has no counterpart in version 3 of Ignition's language"},
		"another type":         {additional("systemd: {units: hunter2}"), config + "systemd.units is of another type"},
		"text":                 {additional("hunter2"), config + "it is not a Container Linux Config"},
		"no YAML":              {additional("a:\n  - b: [\n"), config + "it is not YAML: see line"},
		"too many aliases":     {additional("a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]"), config + "it is YAML with aliases that make too much of it"},
		"a key twice":          {additional("systemd: {}\nsystemd: {}"), config + "systemd is there twice"},
		"half a MiB":           {additional("storage: {disks: [{device: /dev/sdb, partitions: [{number: 1, size: 1536KiB}]}]}"), config + "storage: disks: partition 1 of /dev/sdb: size and start must be whole MiB"},
		"sectors":              {additional("storage: {disks: [{device: /dev/sdb, partitions: [{number: 1, start: 2048}]}]}"), config + "storage: disks: partition 1 of /dev/sdb: size and start must be numbers with KiB"},
		"another filesystem":   {additional("storage: {files: [{path: /x, filesystem: oem}]}"), config + "storage: filesystem of /x: only root can be written to"},
		"a state of network":   {additional("networkd: {units: [{name: x, enabled: true}]}"), config + "networkd: unit x has no state to set"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if errs := Check(field.NewPath("spec"), &tc.spec); len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") || strings.Contains(got, "hunter2") {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if _, err := Render(Document{Spec: tc.spec}); (err != nil) != (tc.want != "") {
				t.Errorf("render: %v", err)
			}
		})
	}
}

func TestRenderReportsWhatIgnitionRefuses(t *testing.T) {
	t.Parallel()
	spec := bootstrapv1.KubeadmConfigSpec{}
	tests := map[string]struct {
		files  []bootstrapv1.File
		config string
		strict *bool
		want   string
	}{
		"a file that is no base64": {files: []bootstrapv1.File{{Path: "/a", Encoding: bootstrapv1.Base64, Content: "hunter2!"}}, want: "file /a: its content is not base64"},
		"a certificate in /run":    {files: []bootstrapv1.File{{Path: "/run/pki/ca.crt"}}, want: "file /run/pki/ca.crt: what lies there"},
		"a path that is none":      {config: "storage: {files: [{path: x, contents: {inline: y}}]}", want: "the config would be refused by Ignition: $.storage.files."},
		"a unit of no kind":        {config: "systemd: {units: [{name: x}]}", want: "the config would be refused by Ignition: $.systemd.units."},
		"a warning":                {config: "systemd: {units: [{name: x.service, enabled: true, contents: '[Service]'}]}"},
		"a warning that counts":    {config: "systemd: {units: [{name: x.service, enabled: true, contents: '[Service]'}]}", strict: new(true), want: "the config would be refused by Ignition: $.systemd.units."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := spec
			spec.Ignition.ContainerLinuxConfig = bootstrapv1.ContainerLinuxConfig{AdditionalConfig: tc.config, Strict: tc.strict}
			_, err := Render(Document{Files: tc.files, Spec: spec})
			if (err != nil) != (tc.want != "") || err != nil && (!strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
