// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file; those of users have some kilobytes.
const maxFile = 1 << 20

// base is the name of the file of a user's home, without its format.
const base = "clusterctl"

// formats are the endings of files that can be read, in the order in which they
// are looked for, with their parsers.
var formats = []struct {
	ending string
	parse  func([]byte) (values, error)
}{
	{".json", parseJSON}, {".toml", parseTOML}, {".yaml", parseYAML}, {".yml", parseYAML},
}

// foreign are the endings of formats that upstream's library once read.
var foreign = []string{".dotenv", ".env", ".hcl", ".ini", ".prop", ".properties", ".props", ".tfvars"}

// read finds the file and reads it.
func (c *Config) read(o Options) error {
	if strings.HasPrefix(o.File, "https://") || strings.HasPrefix(o.File, "http://") {
		if o.Fetch == nil {
			return fmt.Errorf("configuration file %s: give a local file", o.File)
		}
		raw, err := o.Fetch(o.File)
		if err != nil {
			return err
		}
		at, err := url.Parse(o.File)
		if err != nil {
			return fmt.Errorf("configuration file: %w", err)
		}
		return c.parse(at.Redacted(), raw)
	}
	if o.File != "" {
		return c.readFile(o.File)
	}
	for _, folder := range c.folders() {
		for _, f := range formats {
			err := c.readFile(filepath.Join(folder, base+f.ending))
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func (c *Config) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read configuration file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return fmt.Errorf("configuration file %s is a directory: name a file", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read configuration file: %w", err)
	}
	return c.parse(path, raw)
}

// parse parses the content of a file, in the format of its extension.
func (c *Config) parse(path string, raw []byte) error {
	if len(raw) > maxFile {
		return fmt.Errorf("configuration file %s is larger than 1 MiB: is it the right file?", path)
	}
	parse, ending := parseYAML, strings.ToLower(filepath.Ext(path))
	if slices.Contains(foreign, ending) {
		return fmt.Errorf("configuration file %s: %s is not read: write it as YAML, JSON or TOML", path, ending)
	}
	for _, f := range formats {
		if f.ending == ending {
			parse = f.parse
		}
	}
	v, err := parse(bytes.TrimPrefix(raw, []byte("\ufeff")))
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	c.file, c.values = path, v
	return nil
}

// values are the keys of a file: texts as they are written, and what else there is.
type values struct {
	texts map[string]string
	other map[string]any
}

// get returns the value of a key, ignoring its case.
func (v values) get(key string) (any, bool) {
	return insensitive(v.other, key)
}

// text returns the value of a key as a text.
func (v values) text(key string) (string, bool) { return insensitive(v.texts, key) }

func insensitive[V any](m map[string]V, key string) (V, bool) {
	if v, ok := m[key]; ok {
		return v, true
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if strings.EqualFold(k, key) {
			return m[k], true
		}
	}
	var none V
	return none, false
}

func parseJSON(raw []byte) (values, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return values{}, fmt.Errorf("it is not valid JSON: %w", err)
	}
	return valuesOf(all)
}

func parseTOML(raw []byte) (values, error) {
	var all map[string]any
	if err := toml.Unmarshal(raw, &all); err != nil {
		return values{}, fmt.Errorf("it is not valid TOML: %w", err)
	}
	return valuesOf(all)
}

// parseYAML keeps numbers as they are written: a version 1.30 is none.
func parseYAML(raw []byte) (values, error) {
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return values{}, fmt.Errorf("it is not valid YAML: %w", err)
	}
	asWritten(&doc)
	var all map[string]any
	if err := doc.Decode(&all); err != nil {
		return values{}, fmt.Errorf("it is not a YAML map: %w", err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return values{}, errors.New("it has more than one YAML document: keep one")
	}
	return valuesOf(all)
}

// asWritten turns the numbers and times in a document into text.
func asWritten(n *yaml.Node) {
	if tag := n.ShortTag(); n.Kind == yaml.ScalarNode && (tag == "!!int" || tag == "!!float" || tag == "!!timestamp") {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		asWritten(child)
	}
}

// valuesOf turns the values that are not null into text.
func valuesOf(all map[string]any) (values, error) {
	v := values{map[string]string{}, all}
	for key, value := range all {
		switch value := value.(type) {
		case nil:
		case string:
			v.texts[key] = value
		default:
			text, err := json.Marshal(value)
			if err != nil {
				return v, fmt.Errorf("%s: %w", key, err)
			}
			v.texts[key] = string(text)
		}
	}
	return v, nil
}
