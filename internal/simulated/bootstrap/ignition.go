// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	config "github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/utils/ptr"
)

// ParseIgnition reads user data of the format ignition as Ignition and systemd on a
// machine would, as far as it decides whether kubeadm runs: the files to write, and what
// the units that are enabled run. Nothing is written or run. Errors never repeat the user
// data, which has keys.
func ParseIgnition(data []byte) (*Config, error) {
	if len(data) > maxContent {
		return nil, fmt.Errorf("the user data is larger than %d MiB", maxContent>>20)
	}
	in, report, err := config.ParseCompatibleVersion(data)
	if err != nil && json.Valid(data) {
		for _, e := range report.Entries {
			if e.Kind.IsFatal() {
				message, _, _ := strings.Cut(e.Message, `"`) // what it quotes is user data
				return nil, fmt.Errorf("Ignition refuses the user data: %s: %s", e.Context, strings.TrimSpace(message))
			}
		}
	}
	if err != nil {
		return nil, errors.New("the user data is not an Ignition config of a version from 3.0 to 3.3")
	}
	c, left := &Config{Files: map[string][]byte{}}, maxContent
	for _, f := range in.Storage.Files {
		var whole []byte
		for _, r := range append([]types.Resource{f.Contents}, f.Append...) {
			content, err := content(r)
			if err != nil {
				return nil, fmt.Errorf("storage.files %s: %w", f.Path, err)
			}
			if left -= len(content); left < 0 {
				return nil, errFiles
			}
			whole = append(whole, content...)
		}
		c.Files[path.Clean(f.Path)] = whole
	}
	for _, u := range in.Systemd.Units {
		c.Commands = append(c.Commands, starts(c, u)...)
	}
	return c, nil
}

// content reads a data URL. Others are not fetched: a simulated machine has no
// network.
func content(r types.Resource) ([]byte, error) {
	if ptr.Deref(r.Source, "") == "" {
		return nil, nil
	}
	if !strings.HasPrefix(*r.Source, "data:") {
		return nil, errors.New("its content is elsewhere, which simulated machines do not fetch")
	}
	url, err := dataurl.DecodeString(*r.Source)
	if err != nil {
		return nil, errors.New("its content is not a data URL")
	}
	if ptr.Deref(r.Compression, "") != "gzip" {
		return url.Data, nil
	}
	return unpack(url.Data)
}

var (
	unitCondition = regexp.MustCompile(`(?m)^ConditionPathExists=(!?)(\S+)$`)
	command       = regexp.MustCompile(`(?m)^ExecStart(?:Pre|Post)?=[-@:+!]*(.*)$`)
)

// starts returns the commands of a unit that is enabled and whose conditions are
// met when the machine boots.
func starts(c *Config, u types.Unit) (commands []string) {
	text := ptr.Deref(u.Contents, "")
	if !ptr.Deref(u.Enabled, false) || ptr.Deref(u.Mask, false) || !strings.HasSuffix(u.Name, ".service") {
		return nil
	}
	for _, met := range unitCondition.FindAllStringSubmatch(text, -1) {
		if _, there := c.Files[path.Clean(met[2])]; there == (met[1] == "!") {
			return nil
		}
	}
	for _, found := range command.FindAllStringSubmatch(text, -1) {
		commands = append(commands, found[1])
	}
	return slices.Clip(commands)
}
