// SPDX-License-Identifier: Apache-2.0

// Package ignition renders the config that Ignition applies at the first boot of a
// machine: on Flatcar, Fedora CoreOS and any other system with Ignition 2.14 or later,
// which supports version 3.3 of the format.
//
// Ignition prepares disks, files, accounts and units before the system starts, and runs
// no commands. So the commands are in a script that a unit runs once.
package ignition

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	config "github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// Paths on a machine. /run cannot be written before the system starts, so the paths
// differ from those of cloud-init.
const (
	// ConfigPath is the path of kubeadm's configuration until kubeadm has run. Users'
	// commands can change it.
	ConfigPath = "/etc/kubeadm.yml"

	scriptPath = "/etc/kubeadm.sh"
	unitName   = "kubeadm.service"
)

// version is the version of the format.
const version = "3.3.0"

const service = `[Unit]
Description=Make this machine a Kubernetes node
# The script takes the file away, so that it runs once.
ConditionPathExists=` + ConfigPath + `
Wants=network-online.target
After=network-online.target containerd.service

[Service]
Type=oneshot
# Not the script itself: with SELinux nothing in /etc may be executed.
ExecStart=/bin/bash ` + scriptPath + `

[Install]
WantedBy=multi-user.target
`

// header starts the script. Flatcar has space for programs only in /opt.
const header = `#!/bin/bash
set -e
export PATH="$PATH:/opt/bin"

`

// Document is what a machine does at its first boot.
type Document struct {
	Files    []bootstrapv1.File            // with their content; contentFrom is ignored
	Commands []string                      // run in order, until one fails
	Spec     bootstrapv1.KubeadmConfigSpec // its users, with their passwd, disks, mounts, time and additional config
}

// Render renders the document. A feature that Ignition does not have is an error that
// names the field.
func Render(d Document) ([]byte, error) {
	if errs := Check(field.NewPath("spec"), &d.Spec); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	c := types.Config{Ignition: types.Ignition{Version: version}}
	var err error
	if c.Storage.Files, err = files(append(slices.Clip(d.Files), bootstrapv1.File{
		Path: scriptPath, Owner: "root:root", Permissions: "0700", Content: header + strings.Join(d.Commands, "\n") + "\n",
	})); err != nil {
		return nil, err
	}
	c.Systemd.Units = []types.Unit{{Name: unitName, Enabled: new(true), Contents: new(service)}}
	accounts(&c, d.Spec.Users)
	clock(&c, d.Spec.NTP)
	disks(&c, d.Spec.DiskSetup)
	for _, m := range d.Spec.Mounts {
		c.Systemd.Units = append(c.Systemd.Units, mount(m))
	}
	additional, err := parseAdditional(d.Spec.Ignition.ContainerLinuxConfig.AdditionalConfig)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", additionalPath, err)
	}
	return write(config.Merge(c, additional), ptr.Deref(d.Spec.Ignition.ContainerLinuxConfig.Strict, false))
}

// write validates the whole config with Ignition's own rules. With strict, its warnings
// are errors, too.
func write(c types.Config, strict bool) ([]byte, error) {
	out, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the Ignition config: %w", err)
	}
	_, report, err := config.Parse(out)
	var problems []string
	for _, e := range report.Entries {
		if e.Kind.IsFatal() || strict {
			problems = append(problems, fmt.Sprintf("%s: %s", e.Context, e.Message))
		}
	}
	switch {
	case len(problems) > 0:
		return nil, fmt.Errorf("the config would be refused by Ignition: %s", strings.Join(problems, "; "))
	case err != nil:
		return nil, fmt.Errorf("the config would be refused by Ignition: %w", err)
	}
	return out, nil
}

// files creates one entry for each path, as Ignition requires: of several files that
// replace, the last counts, followed by those that append.
func files(in []bootstrapv1.File) (out []types.File, _ error) {
	at := map[string]int{}
	for _, f := range in {
		if hidden(f.Path) {
			return nil, fmt.Errorf("file %s: %s", f.Path, hiddenWhy)
		}
		entry := types.File{Node: types.Node{Path: f.Path}}
		mode, err := permissions(f.Permissions)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", f.Path, err)
		}
		content, err := content(f)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", f.Path, err)
		}
		entry.Mode = &mode
		user, group, _ := strings.Cut(f.Owner, ":")
		entry.User.ID, entry.User.Name = idOrName(user)
		entry.Group.ID, entry.Group.Name = idOrName(group)
		i, known := at[f.Path]
		if !known {
			i = len(out)
			at[f.Path], out = i, append(out, entry)
		}
		if ptr.Deref(f.Append, false) {
			out[i].Append = append(out[i].Append, content)
			continue
		}
		entry.Contents, entry.Overwrite = content, new(true)
		out[i] = entry
	}
	return out, nil
}

// content is the content of a file as a data URL.
func content(f bootstrapv1.File) (r types.Resource, _ error) {
	raw := []byte(f.Content)
	if f.Encoding == bootstrapv1.Base64 || f.Encoding == bootstrapv1.GzipBase64 {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), "")); err != nil {
			return r, errors.New("its content is not base64")
		}
	}
	if f.Encoding == bootstrapv1.Gzip || f.Encoding == bootstrapv1.GzipBase64 {
		r.Compression = new("gzip")
	}
	r.Source = new("data:;base64," + base64.StdEncoding.EncodeToString(raw))
	return r, nil
}

const defaultPermissions = "0644"

func permissions(text string) (int, error) {
	text = cmp.Or(text, defaultPermissions)
	mode, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, fmt.Errorf("its permissions %q are not an octal number such as %s", text, defaultPermissions)
	}
	return int(mode), nil
}

// idOrName distinguishes a number from a name.
func idOrName(text string) (*int, *string) {
	if text == "" {
		return nil, nil
	}
	if id, err := strconv.Atoi(text); err == nil {
		return &id, nil
	}
	return nil, &text
}

// hidden reports whether a path is where the system mounts its own file system at start,
// so that files from Ignition are hidden.
func hidden(path string) bool {
	return slices.ContainsFunc([]string{"/run/", "/tmp/", "/proc/", "/sys/", "/dev/"}, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

const hiddenWhy = "what lies there before the system starts is hidden afterwards: choose another folder"

// text creates a file of this package.
func text(path string, mode int, content string) types.File {
	return types.File{
		Node:          types.Node{Path: path, Overwrite: new(true)},
		FileEmbedded1: types.FileEmbedded1{Mode: &mode, Contents: types.Resource{Source: new("data:;base64," + base64.StdEncoding.EncodeToString([]byte(content)))}},
	}
}
