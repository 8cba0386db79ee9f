// SPDX-License-Identifier: Apache-2.0

// Package cloudinit renders the document that cloud-init reads on a machine.
//
// The document is a jinja template that yields a #cloud-config in YAML. So "{{
// ds.meta_data.local_hostname }}" in a file or command is replaced on the machine; text
// with such marks is written as a literal block, in which nothing is escaped.
package cloudinit

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

const (
	jinjaHeader = "## template: jinja"
	header      = "#cloud-config"
)

// Document is what a machine does at its first boot.
type Document struct {
	Files        []bootstrapv1.File // with their content; contentFrom is ignored
	BootCommands []string           // run first, at each boot
	RunCommands  []string           // run last
	NTP          bootstrapv1.NTP
	Users        []bootstrapv1.User // with their passwd; passwdFrom is ignored
	DiskSetup    bootstrapv1.DiskSetup
	Mounts       []bootstrapv1.MountPoints
}

// Render renders the document. Empty sections are omitted.
func Render(d Document) ([]byte, error) {
	root := mapping()
	root.list("write_files", each(d.Files, file))
	root.texts("bootcmd", d.BootCommands)
	root.texts("runcmd", d.RunCommands)
	root.sub("ntp", ntp(d.NTP))
	root.list("users", each(d.Users, user))
	root.sub("disk_setup", disks(d.DiskSetup.Partitions))
	root.list("fs_setup", each(d.DiskSetup.Filesystems, filesystem))
	root.list("mounts", each(d.Mounts, func(m bootstrapv1.MountPoints) *yaml.Node { return sequence(each(m, text)) }))

	var out bytes.Buffer
	out.WriteString(jinjaHeader + "\n" + header + "\n\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode((*yaml.Node)(root)); err != nil {
		return nil, fmt.Errorf("write cloud-config: %w", err)
	}
	return out.Bytes(), nil
}

func file(f bootstrapv1.File) *yaml.Node {
	m := mapping()
	m.text("path", f.Path)
	m.text("encoding", string(f.Encoding))
	m.text("owner", f.Owner)
	m.text("permissions", f.Permissions)
	m.boolean("append", f.Append)
	content := f.Content
	if f.Encoding == "" && content != "" && !strings.HasSuffix(content, "\n") {
		content += "\n" // as upstream: cron ignores an unterminated last line, and appended text would join it
	}
	m.add("content", literal(content))
	return (*yaml.Node)(m)
}

func ntp(n bootstrapv1.NTP) *section {
	m := mapping()
	m.boolean("enabled", n.Enabled)
	m.texts("servers", n.Servers)
	return m
}

func user(u bootstrapv1.User) *yaml.Node {
	m := mapping()
	m.text("name", u.Name)
	m.text("gecos", u.Gecos)
	m.text("groups", u.Groups)
	m.text("homedir", u.HomeDir)
	if u.Inactive != nil && *u.Inactive {
		// cloud-init's own "inactive" is the number of days after which a
		// password that has expired locks the account. An account whose last
		// day has passed is inactive.
		m.text("expiredate", "1970-01-02")
	}
	m.text("passwd", u.Passwd)
	m.text("primary_group", u.PrimaryGroup)
	m.boolean("lock_passwd", u.LockPassword)
	m.text("shell", u.Shell)
	m.text("sudo", u.Sudo)
	m.texts("ssh_authorized_keys", u.SSHAuthorizedKeys)
	return (*yaml.Node)(m)
}

func disks(partitions []bootstrapv1.Partition) *section {
	m := mapping()
	for _, p := range partitions {
		disk := mapping()
		disk.text("table_type", p.TableType)
		disk.boolean("layout", p.Layout)
		disk.list("layout", each(p.DiskLayout, func(s bootstrapv1.PartitionSpec) *yaml.Node { return share(p.TableType, s) }))
		disk.boolean("overwrite", p.Overwrite)
		m.sub(p.Device, disk)
	}
	return m
}

// share is one partition: its percentage, with its type if it is set.
func share(table string, s bootstrapv1.PartitionSpec) *yaml.Node {
	percentage := number(s.Percentage)
	if s.PartitionType == "" {
		return percentage
	}
	n := sequence([]*yaml.Node{percentage, quoted(partitionCode(table, s.PartitionType))})
	n.Style = yaml.FlowStyle
	return n
}

// partitionCode is a partition type in the form that cloud-init forwards: to sfdisk for
// the table type mbr, to sgdisk (which pads it with zeros) for gpt. A GUID is unchanged.
func partitionCode(table, partitionType string) string {
	codes := map[string]string{
		bootstrapv1.PartitionTypeLinux:         "83",
		bootstrapv1.PartitionTypeLinuxSwap:     "82",
		bootstrapv1.PartitionTypeLinuxRAID:     "fd",
		bootstrapv1.PartitionTypeLVM:           "8e",
		bootstrapv1.PartitionTypeFat32:         "0c",
		bootstrapv1.PartitionTypeNTFS:          "07",
		bootstrapv1.PartitionTypeLinuxExtended: "05",
	}
	if table == "gpt" {
		codes[bootstrapv1.PartitionTypeFat32] = "0700"         // sgdisk: Microsoft basic data
		codes[bootstrapv1.PartitionTypeLinuxExtended] = "8300" // GPT has no extended partitions
	}
	if code, ok := codes[partitionType]; ok {
		return code
	}
	return partitionType
}

func filesystem(f bootstrapv1.Filesystem) *yaml.Node {
	m := mapping()
	m.text("label", f.Label)
	m.text("filesystem", f.Filesystem)
	m.text("device", f.Device)
	m.text("partition", f.Partition)
	m.boolean("overwrite", f.Overwrite)
	m.text("replace_fs", f.ReplaceFS)
	m.texts("extra_opts", f.ExtraOpts)
	return (*yaml.Node)(m)
}

// section is a YAML mapping under construction. Empty values are omitted.
type section yaml.Node

func mapping() *section { return &section{Kind: yaml.MappingNode} }

func (m *section) add(key string, value *yaml.Node) {
	m.Content = append(m.Content, text(key), value)
}

func (m *section) text(key, value string) {
	if value != "" {
		m.add(key, text(value))
	}
}

func (m *section) boolean(key string, value *bool) {
	if value != nil {
		m.add(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(*value)})
	}
}

func (m *section) texts(key string, values []string) { m.list(key, each(values, text)) }

func (m *section) list(key string, values []*yaml.Node) {
	if len(values) > 0 {
		m.add(key, sequence(values))
	}
}

func (m *section) sub(key string, value *section) {
	if len(value.Content) > 0 {
		m.add(key, (*yaml.Node)(value))
	}
}

func sequence(values []*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: values}
}

func number(n int32) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(n)}
}

// text is any text: several lines or a jinja mark yield a literal block.
func text(s string) *yaml.Node {
	if strings.Contains(s, "\n") || strings.Contains(s, "{{") || strings.Contains(s, "{%") {
		return literal(s)
	}
	return scalar(s)
}

// scalar is text in quotes where it would otherwise be read as another type, also by a
// YAML 1.1 parser such as cloud-init's, for which yes is a boolean.
func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	if err := n.Encode(s); err != nil {
		return quoted(s)
	}
	return n
}

func quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

// literal is text in which no character is escaped, so that jinja reads it unchanged.
// Where YAML allows no literal, the encoder falls back to quotes. So does this function
// for text that starts with space, which parsers read differently.
func literal(s string) *yaml.Node {
	n := scalar(s)
	if n.Tag == "!!str" && s != "" && !strings.ContainsRune(" \t\n", rune(s[0])) {
		n.Style = yaml.LiteralStyle
	} else if n.Style == yaml.LiteralStyle {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func each[T any](in []T, f func(T) *yaml.Node) []*yaml.Node {
	out := make([]*yaml.Node, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}
