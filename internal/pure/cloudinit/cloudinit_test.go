// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

func TestRenderWritesEverySection(t *testing.T) {
	t.Parallel()
	doc := Document{
		Files: []bootstrapv1.File{
			{Path: "/a", Owner: "root:root", Permissions: "0640", Content: "one\ntwo\n"},
			{Path: "/b", Encoding: bootstrapv1.Base64, Append: new(true), Content: "aGVsbG8="},
			{Path: "/c", Content: `name: {{ ds.meta_data["local_hostname"] }}`},
		},
		BootCommands: []string{"echo 'early': \"yes\""},
		RunCommands:  []string{"true", "for i in 1 2; do\n  echo $i\ndone", "hostname {{ ds.meta_data.local_hostname }}"},
		NTP:          bootstrapv1.NTP{Enabled: new(true), Servers: []string{"ntp.example", "yes"}},
		Users: []bootstrapv1.User{{
			Name: "ops", Gecos: "Operators: all", Groups: "wheel,docker", HomeDir: "/home/ops", Inactive: new(true), Shell: "/bin/sh",
			Passwd: "$6$salt$hash", PrimaryGroup: "ops", LockPassword: new(false), Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"},
		}},
		DiskSetup: bootstrapv1.DiskSetup{
			Partitions: []bootstrapv1.Partition{
				{Device: "/dev/sdb", Layout: new(true), Overwrite: new(false), TableType: "gpt"},
				{Device: "/dev/sdc", TableType: "gpt", DiskLayout: []bootstrapv1.PartitionSpec{
					{Percentage: 40}, {Percentage: 30, PartitionType: "LinuxSwap"}, {Percentage: 20, PartitionType: "Fat32"},
					{Percentage: 10, PartitionType: "0FC63DAF-8483-4772-8E79-3D69D8477DE4"},
				}},
			},
			Filesystems: []bootstrapv1.Filesystem{{
				Device: "/dev/sdb", Filesystem: "ext4", Label: "data", Partition: "auto", Overwrite: new(true), ReplaceFS: "ntfs", ExtraOpts: []string{"-E", "lazy_itable_init=1"},
			}},
		},
		Mounts: []bootstrapv1.MountPoints{{"LABEL=data", "/var/lib/data"}, {"tmpfs", "/scratch", "tmpfs", "size=1g", "0", "0"}},
	}
	const want = `## template: jinja
#cloud-config

write_files:
  - path: /a
    owner: root:root
    permissions: "0640"
    content: |
      one
      two
  - path: /b
    encoding: base64
    append: true
    content: |-
      aGVsbG8=
  - path: /c
    content: |
      name: {{ ds.meta_data["local_hostname"] }}
bootcmd:
  - 'echo ''early'': "yes"'
runcmd:
  - "true"
  - |-
    for i in 1 2; do
      echo $i
    done
  - |-
    hostname {{ ds.meta_data.local_hostname }}
ntp:
  enabled: true
  servers:
    - ntp.example
    - "yes"
users:
  - name: ops
    gecos: 'Operators: all'
    groups: wheel,docker
    homedir: /home/ops
    expiredate: "1970-01-02"
    passwd: $6$salt$hash
    primary_group: ops
    lock_passwd: false
    shell: /bin/sh
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys:
      - ssh-ed25519 AAAA ops
disk_setup:
  /dev/sdb:
    table_type: gpt
    layout: true
    overwrite: false
  /dev/sdc:
    table_type: gpt
    layout:
      - 40
      - [30, "82"]
      - [20, "0700"]
      - [10, "0FC63DAF-8483-4772-8E79-3D69D8477DE4"]
fs_setup:
  - label: data
    filesystem: ext4
    device: /dev/sdb
    partition: auto
    overwrite: true
    replace_fs: ntfs
    extra_opts:
      - -E
      - lazy_itable_init=1
mounts:
  - - LABEL=data
    - /var/lib/data
  - - tmpfs
    - /scratch
    - tmpfs
    - size=1g
    - "0"
    - "0"
`
	got, err := Render(doc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartitionCodeDependsOnTheTable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ table, in, want string }{
		"linux":           {"gpt", "Linux", "83"},
		"fat on mbr":      {"mbr", "Fat32", "0c"},
		"fat on gpt":      {"gpt", "Fat32", "0700"},
		"extended on mbr": {"", "LinuxExtended", "05"},
		"extended on gpt": {"gpt", "LinuxExtended", "8300"},
		"a GUID":          {"gpt", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"},
	}
	for name, tc := range tests {
		if got := partitionCode(tc.table, tc.in); got != tc.want {
			t.Errorf("%s: partitionCode(%q, %q) = %q, want %q", name, tc.table, tc.in, got, tc.want)
		}
	}
}

// FuzzContent writes any text as a file and a command, and reads it back.
func FuzzContent(f *testing.F) {
	for _, s := range []string{"", "\n", " \n a", "a\n\n\n", "\tx", "'\"{}[]#: ", "yes", "0640", "- a", "a: b\r\nc", "\x00\x7f", "é\u2028", "  lead\n x", "x \n y", "{{", "#cloud-config", "---\n...\n", "\n\n  x\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.Contains(s, "{") && strings.ToValidUTF8(s, "") == s {
			raw, err := Render(Document{Files: []bootstrapv1.File{{Path: "/f", Content: s}}, RunCommands: []string{s}})
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Files    []struct{ Content string } `json:"write_files"`
				Commands []string                   `json:"runcmd"`
			}
			if err := yaml.Unmarshal(raw, &got); err != nil {
				t.Fatalf("%v in\n%s", err, raw)
			}
			want := s
			if s != "" && !strings.HasSuffix(s, "\n") {
				want += "\n"
			}
			if got.Files[0].Content != want || got.Commands[0] != s {
				t.Errorf("wrote %q, read file %q and command %q from\n%s", s, got.Files[0].Content, got.Commands[0], raw)
			}
		}
	})
}
