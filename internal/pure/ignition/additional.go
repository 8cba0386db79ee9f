// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/coreos/ignition/v2/config/v3_3/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// additional lists the supported sections of a Container Linux Config: those with a
// counterpart in version 3 of Ignition's format. Its sections for services of former
// Container Linux (docker, etcd, flannel, locksmith, update) have none.
type additional struct {
	Passwd struct {
		Users  []additionalUser  `json:"users"`
		Groups []additionalGroup `json:"groups"`
	} `json:"passwd"`
	Storage struct {
		Disks       []additionalDisk       `json:"disks"`
		Raid        []additionalRaid       `json:"raid"`
		Files       []additionalFile       `json:"files"`
		Directories []additionalDirectory  `json:"directories"`
		Links       []additionalLink       `json:"links"`
		Filesystems []additionalFilesystem `json:"filesystems"`
	} `json:"storage"`
	Systemd struct {
		Units []additionalUnit `json:"units"`
	} `json:"systemd"`
	Networkd struct {
		Units []additionalUnit `json:"units"`
	} `json:"networkd"`
}

type additionalUser struct {
	Name              string                   `json:"name"`
	PasswordHash      *string                  `json:"password_hash"`
	SSHAuthorizedKeys []types.SSHAuthorizedKey `json:"ssh_authorized_keys"`
	UID               *int                     `json:"uid"`
	Gecos             *string                  `json:"gecos"`
	HomeDir           *string                  `json:"home_dir"`
	NoCreateHome      *bool                    `json:"no_create_home"`
	PrimaryGroup      *string                  `json:"primary_group"`
	Groups            []types.Group            `json:"groups"`
	NoUserGroup       *bool                    `json:"no_user_group"`
	System            *bool                    `json:"system"`
	NoLogInit         *bool                    `json:"no_log_init"`
	Shell             *string                  `json:"shell"`
}

type additionalGroup struct {
	Name         string  `json:"name"`
	GID          *int    `json:"gid"`
	PasswordHash *string `json:"password_hash"`
	System       *bool   `json:"system"`
}

// additionalNode is what files, folders and links have in common.
type additionalNode struct {
	Filesystem string          `json:"filesystem"`
	Path       string          `json:"path"`
	Overwrite  *bool           `json:"overwrite"`
	User       types.NodeUser  `json:"user"`
	Group      types.NodeGroup `json:"group"`
}

type additionalFile struct {
	additionalNode
	Mode     *int `json:"mode"`
	Append   bool `json:"append"`
	Contents struct {
		Inline *string `json:"inline"`
		Remote *struct {
			URL          string  `json:"url"`
			Compression  *string `json:"compression"`
			Verification struct {
				Hash *struct {
					Function string `json:"function"`
					Sum      string `json:"sum"`
				} `json:"hash"`
			} `json:"verification"`
		} `json:"remote"`
	} `json:"contents"`
}

type additionalDirectory struct {
	additionalNode
	Mode *int `json:"mode"`
}

type additionalLink struct {
	additionalNode
	Hard   *bool  `json:"hard"`
	Target string `json:"target"`
}

type additionalDisk struct {
	Device     string `json:"device"`
	WipeTable  *bool  `json:"wipe_table"`
	Partitions []struct {
		Label    *string            `json:"label"`
		Number   int                `json:"number"`
		Size     intstr.IntOrString `json:"size"`
		Start    intstr.IntOrString `json:"start"`
		TypeGUID string             `json:"type_guid"`
	} `json:"partitions"`
}

type additionalRaid struct {
	Name    string             `json:"name"`
	Level   string             `json:"level"`
	Devices []types.Device     `json:"devices"`
	Spares  *int               `json:"spares"`
	Options []types.RaidOption `json:"options"`
}

type additionalFilesystem struct {
	Name  string `json:"name"` // others refer to it; Ignition needs none any more
	Mount struct {
		Device         string                   `json:"device"`
		Format         string                   `json:"format"`
		WipeFilesystem *bool                    `json:"wipe_filesystem"`
		Label          *string                  `json:"label"`
		UUID           *string                  `json:"uuid"`
		Options        []types.FilesystemOption `json:"options"`
	} `json:"mount"`
}

type additionalUnit struct {
	Name     string         `json:"name"`
	Enable   *bool          `json:"enable"` // a former name of enabled
	Enabled  *bool          `json:"enabled"`
	Mask     *bool          `json:"mask"`
	Contents *string        `json:"contents"`
	Dropins  []types.Dropin `json:"dropins"`
}

var (
	unknownField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`unknown field "([^"]{1,80})"`) })
	badField     = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`into Go struct field [a-zA-Z]*\.([a-zA-Z_.]{1,80}) `)
	})
	repeated = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`key "([^"]{1,80})" already set`) })
	atLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`line \d+`) })
)

// parseAdditional reads a Container Linux Config as a part of an Ignition config.
func parseAdditional(text string) (types.Config, error) {
	var a additional
	if err := sanitize.CheckYAML([]byte(text)); err != nil {
		return types.Config{}, fmt.Errorf("it is %w", err)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &a); err != nil {
		return types.Config{}, translated(err)
	}
	c := types.Config{Ignition: types.Ignition{Version: version}}
	for _, u := range a.Passwd.Users {
		c.Passwd.Users = append(c.Passwd.Users, types.PasswdUser{
			Name: u.Name, PasswordHash: u.PasswordHash, SSHAuthorizedKeys: u.SSHAuthorizedKeys, UID: u.UID, Gecos: u.Gecos, HomeDir: u.HomeDir,
			NoCreateHome: u.NoCreateHome, PrimaryGroup: u.PrimaryGroup, Groups: u.Groups, NoUserGroup: u.NoUserGroup, System: u.System,
			NoLogInit: u.NoLogInit, Shell: u.Shell,
		})
	}
	for _, g := range a.Passwd.Groups {
		c.Passwd.Groups = append(c.Passwd.Groups, types.PasswdGroup{Name: g.Name, Gid: g.GID, PasswordHash: g.PasswordHash, System: g.System})
	}
	for _, f := range a.Storage.Filesystems {
		c.Storage.Filesystems = append(c.Storage.Filesystems, types.Filesystem{
			Device: f.Mount.Device, Format: optional(f.Mount.Format), Label: f.Mount.Label, UUID: f.Mount.UUID, WipeFilesystem: f.Mount.WipeFilesystem, Options: f.Mount.Options,
		})
	}
	for _, u := range a.Systemd.Units {
		enabled := cmp.Or(u.Enabled, u.Enable)
		c.Systemd.Units = append(c.Systemd.Units, types.Unit{Name: u.Name, Enabled: enabled, Mask: u.Mask, Contents: u.Contents, Dropins: u.Dropins})
	}
	for _, r := range a.Storage.Raid {
		c.Storage.Raid = append(c.Storage.Raid, types.Raid{Name: r.Name, Level: &r.Level, Devices: r.Devices, Spares: r.Spares, Options: r.Options})
	}
	return c, errors.Join(a.disks(&c), a.nodes(&c), a.network(&c))
}

// typeGUIDs are those that have a name in a Container Linux Config.
var typeGUIDs = map[string]string{
	"linux_filesystem_data": "0fc63daf-8483-4772-8e79-3d69d8477de4",
	"raid_containing_root":  "be9067b9-ea49-4f15-b4f6-f36f8c9e1818",
	"raid_partition":        "a19d880f-05fc-4d3b-a006-743f0f84911e",
	"swap_partition":        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f",
}

// disks adds disks with their partitions.
func (a additional) disks(c *types.Config) (err error) {
	for _, d := range a.Storage.Disks {
		made := types.Disk{Device: d.Device, WipeTable: d.WipeTable}
		for _, p := range d.Partitions {
			part := types.Partition{Label: p.Label, Number: p.Number, TypeGUID: optional(cmp.Or(typeGUIDs[p.TypeGUID], p.TypeGUID))}
			if part.SizeMiB, err = mebibytes(p.Size); err == nil {
				part.StartMiB, err = mebibytes(p.Start)
			}
			if err != nil {
				return fmt.Errorf("storage: disks: partition %d of %s: %w", p.Number, d.Device, err)
			}
			made.Partitions = append(made.Partitions, part)
		}
		c.Storage.Disks = append(c.Storage.Disks, made)
	}
	return nil
}

var sizes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,12})([KMGT]iB)$`) })

// mebibytes parses a size or a start, which version 3 supports only in MiB; nil for
// none.
func mebibytes(text intstr.IntOrString) (*int, error) {
	m := sizes().FindStringSubmatch(text.String())
	if m == nil {
		if text.String() == "0" {
			return nil, nil
		}
		return nil, errors.New("size and start must be numbers with KiB, MiB, GiB or TiB, or 0 for as much as there is")
	}
	n, err := strconv.Atoi(m[1])
	for range strings.Index("KMGT", m[2][:1]) {
		n = min(n, 1<<52) * 1024 // more than any disk has, and no overflow
	}
	if err != nil || n%1024 != 0 {
		return nil, errors.New("size and start must be whole MiB")
	}
	return new(n / 1024), nil
}

// nodes adds files, folders and links.
func (a additional) nodes(c *types.Config) error {
	for _, f := range a.Storage.Files {
		node, err := f.node()
		if err != nil {
			return err
		}
		made, from := types.File{Node: node, FileEmbedded1: types.FileEmbedded1{Mode: f.Mode}}, types.Resource{}
		switch {
		case f.Contents.Remote != nil:
			from = types.Resource{Source: &f.Contents.Remote.URL, Compression: f.Contents.Remote.Compression}
			if h := f.Contents.Remote.Verification.Hash; h != nil {
				from.Verification.Hash = new(h.Function + "-" + h.Sum)
			}
		case f.Contents.Inline != nil:
			from.Source = new("data:;base64," + base64.StdEncoding.EncodeToString([]byte(*f.Contents.Inline)))
		}
		if f.Append {
			made.Append = []types.Resource{from}
		} else if made.Contents = from; made.Overwrite == nil {
			made.Overwrite = new(true)
		}
		c.Storage.Files = append(c.Storage.Files, made)
	}
	for _, d := range a.Storage.Directories {
		node, err := d.node()
		if err != nil {
			return err
		}
		c.Storage.Directories = append(c.Storage.Directories, types.Directory{Node: node, DirectoryEmbedded1: types.DirectoryEmbedded1{Mode: d.Mode}})
	}
	for _, l := range a.Storage.Links {
		node, err := l.node()
		if err != nil {
			return err
		}
		c.Storage.Links = append(c.Storage.Links, types.Link{Node: node, LinkEmbedded1: types.LinkEmbedded1{Hard: l.Hard, Target: &l.Target}})
	}
	return nil
}

func (n additionalNode) node() (types.Node, error) {
	if n.Filesystem != "" && n.Filesystem != "root" {
		return types.Node{}, fmt.Errorf("storage: filesystem of %s: only root can be written to: mount others and give the whole path", n.Path)
	}
	return types.Node{Path: n.Path, Overwrite: n.Overwrite, User: n.User, Group: n.Group}, nil
}

// network adds the units of systemd-networkd, which are files.
func (a additional) network(c *types.Config) error {
	const dir = "/etc/systemd/network/"
	for _, u := range a.Networkd.Units {
		if u.Enable != nil || u.Enabled != nil || u.Mask != nil {
			return fmt.Errorf("networkd: unit %s has no state to set", u.Name)
		}
		if u.Contents != nil {
			c.Storage.Files = append(c.Storage.Files, text(dir+u.Name, 0o644, *u.Contents))
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				c.Storage.Files = append(c.Storage.Files, text(dir+u.Name+".d/"+d.Name, 0o644, *d.Contents))
			}
		}
	}
	return nil
}

// translated describes the invalid parts of a text, without its values.
func translated(err error) error {
	for _, why := range []struct {
		found []string
		say   string
	}{
		{unknownField().FindStringSubmatch(err.Error()), "%s has no counterpart in version 3 of Ignition's language"},
		{repeated().FindStringSubmatch(err.Error()), "%s is there twice"},
		{badField().FindStringSubmatch(err.Error()), "%s is of another type"},
	} {
		if why.found != nil {
			return fmt.Errorf(why.say, why.found[1])
		}
	}
	if where := atLine().FindString(err.Error()); where != "" {
		return fmt.Errorf("it is not YAML: see %s of it", where)
	}
	return errors.New("it is not a Container Linux Config")
}
