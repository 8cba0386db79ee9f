// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/clusterctl/template"
)

// Options define the source of the configuration.
type Options struct {
	// File is a path or an http(s) URL, and must be there. Empty means the file
	// of the user's home, if there is one.
	File string
	// Lookup reads a variable of the environment, which may be empty; nil means
	// that there are none.
	Lookup func(name string) (string, bool)
	// Fetch reads File if it is a URL; nil means that it must not be one.
	Fetch func(url string) ([]byte, error)
}

// Config is the content of a user's file and environment. The zero value is that
// of a user without either.
type Config struct {
	lookup func(string) (string, bool)
	file   string
	values values
}

// Load reads the configuration.
func Load(o Options) (*Config, error) {
	c := &Config{lookup: o.Lookup}
	err := c.read(o)
	return c, err
}

// File is where the file was found; empty if there is none.
func (c *Config) File() string { return c.file }

// where names the source of settings that are not built in, for errors.
func (c *Config) where() string { return "configuration file " + c.file }

// Variable returns the value of a variable: of the environment first, under its
// own name and then under that name in capitals with '_' for each '-', or that
// of the file.
func (c *Config) Variable(name string) (string, bool) {
	for _, n := range []string{name, strings.ToUpper(strings.ReplaceAll(name, "-", "_"))} {
		if v, ok := c.environment(n); ok {
			return v, true
		}
	}
	return c.values.text(name)
}

func (c *Config) environment(name string) (string, bool) {
	if c.lookup == nil {
		return "", false
	}
	return c.lookup(name)
}

// fill puts the environment's variables into a text of the file.
func (c *Config) fill(text string) (string, error) {
	out, err := template.Envsubst{}.Process([]byte(text), c.environment)
	return string(out), err
}

// decode reads a section of the file into out, which is unchanged if the file has
// none.
func (c *Config) decode(section string, out any) error {
	v, ok := c.values.get(section)
	if !ok || v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.where(), section, err)
	}
	return nil
}

// folders are where the files of a user's home are looked for.
func (c *Config) folders() (folders []string) {
	home, _ := c.environment("HOME")
	xdg, _ := c.environment("XDG_CONFIG_HOME")
	if xdg == "" && home != "" {
		xdg = filepath.Join(home, ".config")
	}
	if filepath.IsAbs(xdg) {
		folders = append(folders, filepath.Join(xdg, "cluster-api"))
	}
	if home != "" {
		folders = append(folders, filepath.Join(home, ".cluster-api"))
	}
	return folders
}

// first is a path in the first of the folders that there is; in the first of them
// if there is none.
func (c *Config) first(name string) string {
	folders := c.folders()
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
	}
	if len(folders) == 0 {
		return ""
	}
	return filepath.Join(folders[0], name)
}
