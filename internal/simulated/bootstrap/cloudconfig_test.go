// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

const jinja = "## template: jinja\n#cloud-config\n"

func TestFilesAreReadAsCloudInitWritesThem(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data string
		want string // of /f
	}{
		"plain text":                        {"#cloud-config\nwrite_files:\n- {path: /f, content: hello}\n", "hello"},
		"a block with indentation":          {"#cloud-config\nwrite_files:\n- path: /f\n  content: |\n    a:\n      b\n", "a:\n  b\n"},
		"base64":                            {"#cloud-config\nwrite_files:\n- {path: /f, encoding: base64, content: aGVsbG8=}\n", "hello"},
		"base64 over lines":                 {"#cloud-config\nwrite_files:\n- path: /f\n  encoding: b64\n  content: |\n    aGVs\n    bG8=\n", "hello"},
		"gzip in base64":                    {"#cloud-config\nwrite_files:\n- {path: /f, encoding: gzip+base64, content: " + packed(t, "hello") + "}\n", "hello"},
		"appended":                          {"#cloud-config\nwrite_files:\n- {path: /f, content: one}\n- {path: /f, append: true, content: two}\n", "onetwo"},
		"the last of two":                   {"#cloud-config\nwrite_files:\n- {path: /f, content: one}\n- {path: //f, content: two}\n", "two"},
		"the hostname, with the header":     {jinja + "write_files:\n- {path: /f, content: 'n: {{ ds.meta_data.local_hostname }}'}\n", "n: m1"},
		"the hostname in brackets":          {jinja + "write_files:\n- {path: /f, content: \"{{ds.meta_data['local_hostname']}}\"}\n", "m1"},
		"the hostname, not without header":  {"#cloud-config\nwrite_files:\n- {path: /f, content: '{{ ds.meta_data.local_hostname }}'}\n", "{{ ds.meta_data.local_hostname }}"},
		"something jinja does not know":     {jinja + "write_files:\n- {path: /f, content: '{{ ds.meta_data.zone }}'}\n", "CI_MISSING_JINJA_VAR/ds.meta_data.zone"},
		"something jinja should not touch":  {jinja + "write_files:\n- {path: /f, content: '{% raw %}{{ .x }}{% endraw %}'}\n", "{{ .x }}"},
		"raw text in raw text":              {jinja + "write_files:\n- {path: /f, content: '{% raw %}{{ .x }}{% raw %}{{ .y }}{% endraw %}'}\n", "{{ .x }}{{ .y }}"},
		"base64 is not searched for braces": {jinja + "write_files:\n- {path: /f, encoding: b64, content: e3sgeCB9fQ==}\n", "{{ x }}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse([]byte(tc.data), "m1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(c.Files["/f"])); diff != "" {
				t.Errorf("/f (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadUserDataIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ data, want string }{
		"no header":                 {"write_files: []\n", "does not start with"},
		"nothing":                   {"", "does not start with"},
		"a shell script":            {"#!/bin/sh\nkubeadm init\n", "does not start with"},
		"jinja of something else":   {"## template: jinja\n#!/bin/sh\n", "has no line"},
		"broken YAML":               {"#cloud-config\nwrite_files: [SECRET\n", "not valid YAML"},
		"a file without path":       {"#cloud-config\nwrite_files:\n- {content: SECRET}\n", "write_files[0]: the path is not absolute"},
		"an unknown encoding":       {"#cloud-config\nwrite_files:\n- {path: /f, encoding: rot13, content: SECRET}\n", `write_files[0] /f: unknown encoding "rot13"`},
		"rubbish for base64":        {"#cloud-config\nwrite_files:\n- {path: /f, encoding: b64, content: 'SECRET!'}\n", "not base64"},
		"rubbish for gzip":          {"#cloud-config\nwrite_files:\n- {path: /f, encoding: gz+b64, content: U0VDUkVU}\n", "not gzip"},
		"a command that is a map":   {"#cloud-config\nruncmd:\n- {a: SECRET}\n", "runcmd[0]: a command is"},
		"a file that is a number":   {"#cloud-config\nwrite_files: 7\n", "not valid YAML"},
		"raw text that has no end":  {jinja + strings.Repeat("{% raw %}{{ SECRET }}", maxContent/24), "has {% raw %} without {% endraw %}"}, // hours
		"too much of it":            {"#cloud-config\n" + strings.Repeat("#", maxContent), "larger than 4 MiB"},
		"aliases of a long text":    {"#cloud-config\n" + "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]", "aliases that make too much"},
		"files that grow to much":   {"#cloud-config\nwrite_files:\n" + strings.Repeat("- {path: /f, append: true, encoding: gz+b64, content: "+packed(t, strings.Repeat("x", maxContent/2))+"}\n", 3), "larger than 4 MiB"},
		"a file that grows to much": {"#cloud-config\nwrite_files:\n- {path: /f, encoding: gz+b64, content: " + packed(t, strings.Repeat("x", maxContent+1)) + "}\n", "larger than 4 MiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tc.data), "m1")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the error repeats the content: %v", err)
			}
		})
	}
}

func TestKubeadmIsFoundAmongTheCommands(t *testing.T) {
	t.Parallel()
	const f = "/run/kubeadm/kubeadm.yaml"
	tests := map[string]struct {
		commands string
		want     Command
		found    bool
	}{
		"as rendered":                 {"- 'kubeadm init --config " + f + "  && echo success > /run/cluster-api/bootstrap-success.complete'", Command{"init", f}, true},
		"with verbosity":              {"- kubeadm join --config " + f + " --v 5 && echo x", Command{"join", f}, true},
		"with the flag's other form":  {"- kubeadm join --config=" + f, Command{"join", f}, true},
		"with flags before":           {"- kubeadm --v=5 init --config '" + f + "'", Command{"init", f}, true},
		"by its path":                 {"- /opt/bin/kubeadm init --config " + f, Command{"init", f}, true},
		"as a list":                   {"- [kubeadm, init, --config, " + f + "]", Command{"init", f}, true},
		"by a shell":                  {"- [sh, -c, 'kubeadm join --config " + f + " && true']", Command{"join", f}, true},
		"after other commands":        {"- echo kubeadm\n- kubeadm version\n- kubeadm config images pull; kubeadm init --config " + f, Command{"init", f}, true},
		"with an environment":         {"- FOO=bar sudo -E kubeadm init --config " + f, Command{"init", f}, true},
		"in a script":                 {"- /usr/local/bin/bootstrap.sh", Command{"join", f}, true},
		"in a script run by a shell":  {"- bash -x /usr/local/bin/bootstrap.sh", Command{"join", f}, true},
		"without a config":            {"- kubeadm init --skip-phases=addon", Command{"init", ""}, true},
		"not in a comment":            {"- '# kubeadm init --config " + f + "'", Command{}, false},
		"not where there is none":     {"- echo hello", Command{}, false},
		"not where another verb runs": {"- kubeadm reset --config " + f, Command{}, false},
	}
	script := "#!/bin/sh\nset -e\nkubeadm join \\\n  --config " + f + "\n"
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := "#cloud-config\nwrite_files:\n- path: /usr/local/bin/bootstrap.sh\n  encoding: b64\n  content: " +
				base64.StdEncoding.EncodeToString([]byte(script)) + "\nruncmd:\n" + tc.commands + "\n"
			c, err := Parse([]byte(data), "m1")
			if err != nil {
				t.Fatal(err)
			}
			got, found := c.Kubeadm()
			if got != tc.want || found != tc.found {
				t.Errorf("got %+v, %v, want %+v, %v", got, found, tc.want, tc.found)
			}
		})
	}
}

// TestKubeadmReadsEachWordOnce would take minutes otherwise.
func TestKubeadmReadsEachWordOnce(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"/a": []byte(strings.Repeat("true; ", maxContent/8)), "/b": []byte(strings.Repeat("kubeadm --config ", maxContent/20)), "/c": []byte("kubeadm init\n"),
	}
	c := &Config{Files: files, Commands: []string{strings.Repeat("/a ", 10_000) + "/b /c"}}
	if cmd, ok := c.Kubeadm(); !ok || cmd.Verb != "init" {
		t.Errorf("got %+v, %v", cmd, ok)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(jinja + "write_files:\n- {path: /f, content: '{{ x }}'}\nruncmd:\n- [kubeadm, init]\n")
	f.Add("#cloud-config\nwrite_files:\n- {path: /f, encoding: gz+b64, content: H4sIAAAA}\n")
	f.Fuzz(func(t *testing.T, data string) {
		if c, err := Parse([]byte(data), "m1"); err == nil {
			c.Kubeadm()
		}
	})
}
