// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// accounts adds users, with their rules for sudo, and permits password login over SSH
// for those whose password is not locked.
func accounts(c *types.Config, users []bootstrapv1.User) {
	var rules, byPassword []string
	for _, u := range users {
		made := types.PasswdUser{
			Name: u.Name, Gecos: optional(u.Gecos), HomeDir: optional(u.HomeDir), Shell: optional(u.Shell), PrimaryGroup: optional(u.PrimaryGroup),
		}
		if made.PasswordHash = optional(u.Passwd); made.PasswordHash != nil && ptr.Deref(u.LockPassword, false) {
			made.PasswordHash = new("!" + u.Passwd) // as usermod --lock does
		}
		for _, g := range strings.FieldsFunc(u.Groups, func(r rune) bool { return r == ',' || r == ' ' }) {
			made.Groups = append(made.Groups, types.Group(g))
		}
		for _, key := range u.SSHAuthorizedKeys {
			made.SSHAuthorizedKeys = append(made.SSHAuthorizedKeys, types.SSHAuthorizedKey(key))
		}
		c.Passwd.Users = append(c.Passwd.Users, made)
		if u.Sudo != "" && !strings.EqualFold(u.Sudo, "false") {
			rules = append(rules, u.Name+" "+u.Sudo)
		}
		if u.LockPassword != nil && !*u.LockPassword {
			byPassword = append(byPassword, u.Name)
		}
	}
	if len(rules) > 0 {
		c.Storage.Files = append(c.Storage.Files, text("/etc/sudoers.d/90-users", 0o440, strings.Join(rules, "\n")+"\n"))
	}
	if len(byPassword) > 0 {
		c.Storage.Files = append(c.Storage.Files, text("/etc/ssh/sshd_config.d/10-password.conf", 0o600,
			"Match User "+strings.Join(byPassword, ",")+"\n  PasswordAuthentication yes\n"))
	}
}

// clock configures the time servers: for systemd-timesyncd, which Flatcar has, and for
// chrony, which Fedora CoreOS has.
func clock(c *types.Config, ntp bootstrapv1.NTP) {
	if ntp.Enabled != nil && !*ntp.Enabled {
		for _, name := range []string{"systemd-timesyncd.service", "chronyd.service", "ntpd.service"} {
			c.Systemd.Units = append(c.Systemd.Units, types.Unit{Name: name, Mask: new(true)})
		}
		return
	}
	if len(ntp.Servers) == 0 {
		return
	}
	var chrony strings.Builder
	for _, s := range ntp.Servers {
		fmt.Fprintf(&chrony, "server %s iburst\n", s)
	}
	chrony.WriteString("driftfile /var/lib/chrony/drift\nmakestep 1.0 3\nrtcsync\n")
	c.Storage.Files = append(c.Storage.Files,
		text("/etc/systemd/timesyncd.conf.d/10-servers.conf", 0o644, "[Time]\nNTP="+strings.Join(ntp.Servers, " ")+"\n"),
		text("/etc/chrony.conf", 0o644, chrony.String()))
}

// disks adds partitions and file systems; Check has refused what Ignition cannot
// do.
func disks(c *types.Config, setup bootstrapv1.DiskSetup) {
	for _, p := range setup.Partitions {
		if !partitioned(p) {
			continue
		}
		only := types.Partition{Number: 1}
		if len(p.DiskLayout) == 1 {
			only.TypeGUID = optional(partitionType(p.DiskLayout[0].PartitionType))
		}
		c.Storage.Disks = append(c.Storage.Disks, types.Disk{Device: p.Device, WipeTable: p.Overwrite, Partitions: []types.Partition{only}})
	}
	for _, f := range setup.Filesystems {
		made := types.Filesystem{
			Device: f.Device + partitionSuffix(f, setup.Partitions), Format: &f.Filesystem, Label: optional(f.Label), WipeFilesystem: f.Overwrite,
		}
		for _, o := range f.ExtraOpts {
			made.Options = append(made.Options, types.FilesystemOption(o))
		}
		c.Storage.Filesystems = append(c.Storage.Filesystems, made)
	}
}

// partitioned reports whether a disk gets its one partition.
func partitioned(p bootstrapv1.Partition) bool {
	return ptr.Deref(p.Layout, false) || len(p.DiskLayout) > 0
}

// partitionSuffix is the kernel's suffix of a disk name for the selected partition.
// Without a number it is the partition that is created here, if there is one.
func partitionSuffix(f bootstrapv1.Filesystem, disks []bootstrapv1.Partition) string {
	number := f.Partition
	switch number {
	case "", "none":
		return ""
	case "auto", "any":
		number = ""
		for _, p := range disks {
			if p.Device == f.Device && partitioned(p) {
				number = "1"
			}
		}
		if number == "" {
			return ""
		}
	}
	switch last := f.Device[len(f.Device)-1]; {
	case strings.HasPrefix(f.Device, "/dev/disk/"):
		return "-part" + number
	case '0' <= last && last <= '9':
		return "p" + number
	}
	return number
}

// partitionType is the GUID of a type; a GUID is unchanged.
func partitionType(name string) string {
	guids := map[string]string{
		bootstrapv1.PartitionTypeLinux:         "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
		bootstrapv1.PartitionTypeLinuxExtended: "0FC63DAF-8483-4772-8E79-3D69D8477DE4", // GPT has no extended partitions
		bootstrapv1.PartitionTypeLinuxSwap:     "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F",
		bootstrapv1.PartitionTypeLinuxRAID:     "A19D880F-05FC-4D3B-A006-743F0F84911E",
		bootstrapv1.PartitionTypeLVM:           "E6D6D379-F507-44C2-A23C-238F2A3DF928",
		bootstrapv1.PartitionTypeFat32:         "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7",
		bootstrapv1.PartitionTypeNTFS:          "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7",
	}
	if guid, ok := guids[name]; ok {
		return guid
	}
	return name
}

// mount is the unit of a line of fstab.
func mount(m bootstrapv1.MountPoints) types.Unit {
	var b strings.Builder
	target, needs := "local-fs.target", "RequiredBy"
	if len(m) > 3 { // systemd reads these options in fstab only
		options := strings.Split(m[3], ",")
		if slices.Contains(options, "_netdev") {
			target = "remote-fs.target"
		}
		if slices.Contains(options, "nofail") {
			needs = "WantedBy"
		}
	}
	fmt.Fprintf(&b, "[Unit]\nBefore=%s\n\n[Mount]\nWhat=%s\nWhere=%s\n", target, specifiers(source(m[0])), specifiers(m[1]))
	for i, option := range []string{"Type", "Options"} {
		if len(m) > i+2 && m[i+2] != "" {
			fmt.Fprintf(&b, "%s=%s\n", option, specifiers(m[i+2]))
		}
	}
	fmt.Fprintf(&b, "\n[Install]\n%s=%s\n", needs, target)
	return types.Unit{Name: unit.UnitNamePathEscape(m[1]) + ".mount", Enabled: new(true), Contents: new(b.String())}
}

// source is the mounted device in the form for a unit: fstab's tags are links below
// /dev/disk, and disks can be named without their directory.
func source(device string) string {
	tag, value, tagged := strings.Cut(device, "=")
	by := map[string]string{"LABEL": "label", "UUID": "uuid", "PARTLABEL": "partlabel", "PARTUUID": "partuuid"}[tag]
	if tagged && by != "" {
		return "/dev/disk/by-" + by + "/" + strings.ReplaceAll(value, " ", `\x20`)
	}
	for _, disk := range []string{"sd", "vd", "xvd", "nvme"} {
		if strings.HasPrefix(device, disk) && !strings.ContainsAny(device, ":/") {
			return "/dev/" + device
		}
	}
	return device
}

// specifiers keeps systemd from reading percent signs.
func specifiers(text string) string { return strings.ReplaceAll(text, "%", "%%") }

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
