// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

const (
	// maxDocument bounds a document: a Secret holds at most 1 MiB.
	maxDocument = 2 << 20
	// maxFile bounds one file after decompression.
	maxFile = 16 << 20
)

// Parse reads what a machine is told to do: files with their content decoded,
// and commands. metadata is what the machine's data source knows, such as
// local_hostname. The errors do not repeat the content.
func Parse(data []byte, metadata map[string]string) (*Document, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("the document is larger than %d MiB", maxDocument>>20)
	}
	if rest, ok := bytes.CutPrefix(data, []byte(jinjaHeader+"\n")); ok {
		var err error
		if data, err = substitute(rest, metadata); err != nil {
			return nil, err
		}
	}
	if !bytes.HasPrefix(data, []byte(header)) {
		return nil, errors.New("the document does not begin with " + header)
	}
	var in struct {
		Files []struct {
			Path        string `yaml:"path"`
			Owner       string `yaml:"owner"`
			Permissions string `yaml:"permissions"`
			Encoding    string `yaml:"encoding"`
			Append      bool   `yaml:"append"`
			Content     string `yaml:"content"`
		} `yaml:"write_files"`
		BootCommands []command `yaml:"bootcmd"`
		RunCommands  []command `yaml:"runcmd"`
	}
	if err := yaml.Unmarshal(data, &in); err != nil {
		return nil, errors.New("the document is not a valid cloud-config in YAML")
	}
	doc := &Document{}
	for _, f := range in.Files {
		content, err := decode(f.Encoding, f.Content)
		if err != nil {
			return nil, fmt.Errorf("write_files: %s: %w", f.Path, err)
		}
		doc.write(bootstrapv1.File{Path: f.Path, Owner: f.Owner, Permissions: f.Permissions, Content: content}, f.Append)
	}
	for _, c := range in.BootCommands {
		doc.BootCommands = append(doc.BootCommands, string(c))
	}
	for _, c := range in.RunCommands {
		doc.RunCommands = append(doc.RunCommands, string(c))
	}
	return doc, nil
}

// write puts a file where a machine would have it: a later one of the same
// path replaces or extends an earlier one.
func (d *Document) write(f bootstrapv1.File, extend bool) {
	i := slices.IndexFunc(d.Files, func(have bootstrapv1.File) bool { return have.Path == f.Path })
	switch {
	case i < 0:
		d.Files = append(d.Files, f)
	case extend:
		d.Files[i].Content += f.Content
	default:
		d.Files[i] = f
	}
}

// File returns the file of that path, or nil.
func (d *Document) File(path string) *bootstrapv1.File {
	for i := range d.Files {
		if d.Files[i].Path == path {
			return &d.Files[i]
		}
	}
	return nil
}

// command is a shell line, or a list of arguments.
type command string

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *command) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*c = command(n.Value)
		return nil
	}
	var args []string
	if err := n.Decode(&args); err != nil {
		return err
	}
	*c = command(strings.Join(args, " "))
	return nil
}

var expression = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)

// variable is how a template names a datum: ds.meta_data.x, ds.meta_data["x"]
// or v1.x.
var variable = regexp.MustCompile(`^(?:ds\.meta_data|v1)(?:\.(\w+)|\[["'](\w+)["']\])$`)

// substitute replaces the variables of a jinja template. Anything else that
// jinja could do is refused.
func substitute(template []byte, metadata map[string]string) ([]byte, error) {
	if bytes.Contains(template, []byte("{%")) {
		return nil, errors.New("jinja statements ({% %}) are not supported here")
	}
	var failed error
	out := expression.ReplaceAllFunc(template, func(match []byte) []byte {
		name := string(expression.FindSubmatch(match)[1])
		parts := variable.FindStringSubmatch(name)
		if parts == nil {
			failed = fmt.Errorf("the jinja expression %q is not supported here: use ds.meta_data.NAME", name)
			return match
		}
		value, ok := metadata[parts[1]+parts[2]]
		if !ok {
			failed = fmt.Errorf("the machine's metadata has no %q", parts[1]+parts[2])
			return match
		}
		return []byte(value)
	})
	return out, failed
}

// decode undoes an encoding, by any of the names cloud-init knows for it.
func decode(encoding, content string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "text/plain":
		return content, nil
	case "b64", "base64":
		return unbase64(content)
	case "gz", "gzip":
		return gunzip(content)
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		packed, err := unbase64(content)
		if err != nil {
			return "", err
		}
		return gunzip(packed)
	}
	return "", fmt.Errorf("encoding %q is not known", encoding)
}

func unbase64(s string) (string, error) {
	out, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		return "", errors.New("the content is not base64")
	}
	return string(out), nil
}

func gunzip(s string) (string, error) {
	r, err := gzip.NewReader(strings.NewReader(s))
	if err != nil {
		return "", errors.New("the content is not compressed by gzip")
	}
	out, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return "", errors.New("the content is not compressed by gzip")
	}
	if len(out) > maxFile {
		return "", fmt.Errorf("the content is larger than %d MiB", maxFile>>20)
	}
	return string(out), nil
}
