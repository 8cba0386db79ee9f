// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// maxContent bounds the user data, and what its files hold together; real ones are a
// few tens of KiB, and clouds take far less than this.
const maxContent = 4 << 20

var errFiles = fmt.Errorf("the files in the user data are larger than %d MiB", maxContent>>20)

// Config is what a machine would have done.
type Config struct {
	// Files maps an absolute path to what would be there.
	Files map[string][]byte
	// Commands are those of runcmd, in order, each as one shell command line.
	Commands []string
}

// Command is a call of kubeadm.
type Command struct {
	Verb       string // init or join
	ConfigPath string // of --config; empty if it was not given
}

type wire struct {
	WriteFiles []fileWire        `json:"write_files"`
	RunCommand []json.RawMessage `json:"runcmd"`
}

type fileWire struct {
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	Append   bool   `json:"append"`
}

// Parse reads user data for a machine of that hostname.
func Parse(data []byte, hostname string) (*Config, error) {
	if len(data) > maxContent {
		return nil, fmt.Errorf("the user data is larger than %d MiB", maxContent>>20)
	}
	text, err := render(string(data), hostname)
	if err != nil {
		return nil, err
	}
	var w wire
	if err := sanitize.CheckYAML([]byte(text)); err != nil {
		return nil, fmt.Errorf("the cloud-config is %w", err)
	}
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return nil, fmt.Errorf("the cloud-config is not valid YAML%s", lineOf(err))
	}
	c, left := &Config{Files: map[string][]byte{}}, maxContent
	for i, f := range w.WriteFiles {
		if !path.IsAbs(f.Path) {
			return nil, fmt.Errorf("write_files[%d]: the path is not absolute", i)
		}
		content, err := decode(f)
		if err != nil {
			return nil, fmt.Errorf("write_files[%d] %s: %w", i, f.Path, err)
		}
		if left -= len(content); left < 0 {
			return nil, errFiles
		}
		name := path.Clean(f.Path)
		if f.Append {
			content = append(c.Files[name], content...)
		}
		c.Files[name] = content
	}
	for i, raw := range w.RunCommand {
		line, err := commandLine(raw)
		if err != nil {
			return nil, fmt.Errorf("runcmd[%d]: %w", i, err)
		}
		c.Commands = append(c.Commands, line)
	}
	return c, nil
}

const (
	jinjaHeader = "## template: jinja"
	configFirst = "#cloud-config"
)

// expression is {{ … }}, or a part in which jinja leaves everything alone.
var expression = regexp.MustCompile(`(?s)\{%-?\s*raw\s*-?%\}.*?\{%-?\s*endraw\s*-?%\}|\{\{-?\s*(.*?)\s*-?\}\}`)

var rawMark = regexp.MustCompile(`\{%-?\s*(end)?raw\s*-?%\}`)

// render checks the headers and puts in what is known of the instance.
func render(text, hostname string) (string, error) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimSpace(first) != jinjaHeader {
		if strings.TrimSpace(first) != configFirst {
			return "", fmt.Errorf("the user data does not start with %q or %q: cloud-init passes it over", configFirst, jinjaHeader)
		}
		return text, nil
	}
	second, _, _ := strings.Cut(rest, "\n")
	if strings.TrimSpace(second) != configFirst {
		return "", fmt.Errorf("the user data has no line %q after %q: cloud-init passes it over", configFirst, jinjaHeader)
	}
	open := false
	for _, mark := range rawMark.FindAllStringSubmatch(rest, -1) {
		open = mark[1] == ""
	}
	if open { // the search for its end would begin at each of them
		return "", errors.New("the user data has {% raw %} without {% endraw %}: cloud-init passes it over")
	}
	return expression.ReplaceAllStringFunc(rest, func(m string) string {
		if strings.HasPrefix(m, "{%") {
			return rawMark.ReplaceAllString(m, "")
		}
		name := expression.FindStringSubmatch(m)[1]
		switch strings.NewReplacer("['", ".", "']", "", `["`, ".", `"]`, "").Replace(name) {
		case "ds.meta_data.local_hostname", "ds.meta_data.hostname", "v1.local_hostname", "local_hostname",
			"ds.meta_data.instance_id", "v1.instance_id", "instance_id":
			return hostname
		}
		return "CI_MISSING_JINJA_VAR/" + name // as cloud-init does
	}), nil
}

// decode gives a file's content, by the names cloud-init has for encodings.
func decode(f fileWire) ([]byte, error) {
	content := []byte(f.Content)
	packed, coded := false, false
	switch strings.ToLower(strings.TrimSpace(f.Encoding)) {
	case "", "text/plain":
	case "b64", "base64":
		coded = true
	case "gz", "gzip":
		packed = true
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		packed, coded = true, true
	default:
		return nil, fmt.Errorf("unknown encoding %q", f.Encoding)
	}
	if coded {
		plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(f.Content), ""))
		if err != nil {
			return nil, errors.New("the content is not base64")
		}
		content = plain
	}
	if !packed {
		return content, nil
	}
	return unpack(content)
}

// unpack reads gzip, as much of it as a file can have.
func unpack(content []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, errors.New("the content is not gzip")
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil {
		return nil, errors.New("the content is not gzip to its end")
	}
	if len(plain) > maxContent {
		return nil, fmt.Errorf("the content is larger than %d MiB", maxContent>>20)
	}
	return plain, nil
}

// commandLine takes a command as a line, or as a list of arguments.
func commandLine(raw json.RawMessage) (string, error) {
	var line string
	if json.Unmarshal(raw, &line) == nil {
		return line, nil
	}
	var words []any
	if json.Unmarshal(raw, &words) != nil {
		return "", errors.New("a command is a string or a list of strings")
	}
	list := make([]string, 0, len(words))
	for _, w := range words {
		list = append(list, fmt.Sprint(w))
	}
	// sh -c 'line' means the line.
	if len(list) == 3 && path.Base(list[0]) != "kubeadm" && list[1] == "-c" {
		return list[2], nil
	}
	return strings.Join(list, " "), nil
}

// maxArgs is more than a call of kubeadm has: others are not searched over and over.
const maxArgs = 100

var separators = regexp.MustCompile(`&&|\|\||[;|&\n()]`)

// Kubeadm finds the first kubeadm init or join among the commands, and in
// scripts of Files that they run.
func (c *Config) Kubeadm() (Command, bool) {
	read := map[string]bool{}
	for _, line := range c.Commands {
		if cmd, ok := c.kubeadm(line, read); ok {
			return cmd, true
		}
	}
	return Command{}, false
}

// kubeadm finds it in a script. It reads each of the files that the script names once, and
// none if read is nil.
func (c *Config) kubeadm(script string, read map[string]bool) (Command, bool) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	for _, part := range separators.Split(script, -1) {
		words := strings.Fields(part)
		for i, w := range words {
			if strings.HasPrefix(w, "#") {
				break
			}
			w = strings.Trim(w, `"'`)
			if path.Base(w) == "kubeadm" {
				if cmd, ok := kubeadmCall(words[i+1 : min(len(words), i+1+maxArgs)]); ok {
					return cmd, true
				}
			}
			if read == nil || !path.IsAbs(w) {
				continue
			}
			name := path.Clean(w)
			if content, ok := c.Files[name]; ok && !read[name] {
				read[name] = true
				if cmd, ok := c.kubeadm(string(content), nil); ok {
					return cmd, true
				}
			}
		}
	}
	return Command{}, false
}

func kubeadmCall(args []string) (cmd Command, ok bool) {
	for i := 0; i < len(args); i++ {
		arg := strings.Trim(args[i], `"'`)
		switch {
		case (arg == "init" || arg == "join") && cmd.Verb == "":
			cmd.Verb = arg
		case arg == "--config" && i+1 < len(args):
			i++
			cmd.ConfigPath = strings.Trim(args[i], `"'`)
		case strings.HasPrefix(arg, "--config="):
			cmd.ConfigPath = strings.Trim(strings.TrimPrefix(arg, "--config="), `"'`)
		case cmd.Verb == "" && !strings.HasPrefix(arg, "-"):
			return Command{}, false // kubeadm version, kubeadm token …
		}
	}
	return cmd, cmd.Verb != ""
}

var lineNumber = regexp.MustCompile(`line \d+`)

// lineOf keeps of a parser's error only where it happened.
func lineOf(err error) string {
	if l := lineNumber.FindString(err.Error()); l != "" {
		return ": " + l
	}
	return ""
}
