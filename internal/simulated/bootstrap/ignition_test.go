// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

func TestParseReadsWhatIsRendered(t *testing.T) {
	t.Parallel()
	boot := kubeadm.Boot{Verb: kubeadm.Join, Config: []byte("kind: JoinConfiguration\n")}
	boot.Spec = bootstrapv1.KubeadmConfigSpec{
		Format: bootstrapv1.Ignition, Verbosity: new(int32(5)), PreKubeadmCommands: []string{"hostname"}, PostKubeadmCommands: []string{"true"},
		Files: []bootstrapv1.File{
			{Path: "/etc/a", Content: "one"}, {Path: "/etc/a", Append: new(true), Content: "two"},
			{Path: "/etc/c", Encoding: bootstrapv1.GzipBase64, Content: "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA=="},
		},
	}
	data, err := boot.Data()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseIgnition(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Kubeadm(); !ok || got != (Command{Verb: "join", ConfigPath: "/etc/kubeadm.yml"}) {
		t.Errorf("kubeadm is called as %+v (%t)", got, ok)
	}
	for path, want := range map[string]string{
		"/etc/kubeadm.yml": "kind: JoinConfiguration\n", "/etc/a": "onetwo", "/etc/c": "hello",
		"/etc/kubeadm.sh": "#!/bin/bash\nset -e\nexport PATH=\"$PATH:/opt/bin\"\n\nhostname\nmkdir -p /run/cluster-api\n" +
			"kubeadm join --config /etc/kubeadm.yml --v 5 && echo success > /run/cluster-api/bootstrap-success.complete\nmv /etc/kubeadm.yml /tmp/\ntrue\n",
	} {
		if diff := cmp.Diff(want, string(c.Files[path])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestOnlyUnitsThatStartRunCommands(t *testing.T) {
	t.Parallel()
	const file = `{"path": "/etc/there", "contents": {"source": "data:,x"}}`
	for name, tc := range map[string]struct {
		unit string
		want string
	}{
		"enabled":               {`{"name": "a.service", "enabled": true, "contents": "[Service]\nExecStart=-/bin/a b\nExecStartPost=/bin/c\n"}`, "/bin/a b, /bin/c"},
		"not enabled":           {`{"name": "a.service", "contents": "[Service]\nExecStart=/bin/a\n"}`, ""},
		"masked":                {`{"name": "a.service", "enabled": true, "mask": true, "contents": "[Service]\nExecStart=/bin/a\n"}`, ""},
		"no service":            {`{"name": "a.mount", "enabled": true, "contents": "[Mount]\nExecStart=/bin/a\n"}`, ""},
		"a condition":           {`{"name": "a.service", "enabled": true, "contents": "[Unit]\nConditionPathExists=/etc/there\n[Service]\nExecStart=/bin/a\n"}`, "/bin/a"},
		"a condition not met":   {`{"name": "a.service", "enabled": true, "contents": "[Unit]\nConditionPathExists=/etc/none\n[Service]\nExecStart=/bin/a\n"}`, ""},
		"a condition to be not": {`{"name": "a.service", "enabled": true, "contents": "[Unit]\nConditionPathExists=!/etc/there\n[Service]\nExecStart=/bin/a\n"}`, ""},
	} {
		c, err := ParseIgnition([]byte(fmt.Sprintf(`{"ignition": {"version": "3.3.0"}, "storage": {"files": [%s]}, "systemd": {"units": [%s]}}`, file, tc.unit)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(c.Commands, ", "); got != tc.want {
			t.Errorf("%s: runs %q, want %q", name, got, tc.want)
		}
	}
}

func TestWhatIgnitionRefusesIsRefused(t *testing.T) {
	t.Parallel()
	config := func(file string) string {
		return `{"ignition": {"version": "3.3.0"}, "storage": {"files": [` + file + `]}}`
	}
	for name, tc := range map[string]struct{ data, want string }{
		"cloud-config":       {"#cloud-config\npassword: hunter2", "the user data is not an Ignition config of a version from 3.0 to 3.3"},
		"half a config":      {`{"ignition": {"version": "3.3.0"}, "hunter2": [`, "the user data is not an Ignition config of a version from 3.0 to 3.3"},
		"an old version":     {`{"ignition": {"version": "2.3.0"}}`, "the user data is not an Ignition config of a version from 3.0 to 3.3"},
		"a path that is not": {config(`{"path": "hunter2"}`), "Ignition refuses the user data: $.storage.files.0.path: path not absolute"},
		"content elsewhere":  {config(`{"path": "/a", "contents": {"source": "https://hunter2/"}}`), "storage.files /a: its content is elsewhere, which simulated machines do not fetch"},
		"a unit that is none": {`{"ignition": {"version": "3.3.0"}, "systemd": {"units": [{"name": "a.service", "contents": "[Service] hunter2\n"}]}}`,
			"Ignition refuses the user data: $.systemd.units.0.contents: invalid unit content: found garbage after section name :"},
		"no gzip":  {config(`{"path": "/a", "contents": {"source": "data:,hunter2", "compression": "gzip"}}`), "storage.files /a: the content is not gzip"},
		"too much": {strings.Repeat(" ", maxContent+1), "the user data is larger than 4 MiB"},
	} {
		if _, err := ParseIgnition([]byte(tc.data)); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// TestIgnitionFilesAreLimited: what is packed can grow without end.
func TestIgnitionFilesAreLimited(t *testing.T) {
	t.Parallel()
	file := func(name, text string) string {
		return `{"path": "` + name + `", "contents": {"source": "data:;base64,` + packed(t, text) + `", "compression": "gzip"}}`
	}
	half, whole := strings.Repeat("x", maxContent/2), strings.Repeat("x", maxContent)
	for name, tc := range map[string]struct {
		files []string
		want  string
	}{
		"as much as is allowed":      {[]string{file("/a", half), file("/b", half)}, ""},
		"a file with too much":       {[]string{file("/a", whole+"x")}, "storage.files /a: the content is larger than 4 MiB"},
		"files with too much":        {[]string{file("/a", half), file("/b", half), file("/c", "x")}, "the files in the user data are larger than 4 MiB"},
		"a file that is cut":         {[]string{strings.Replace(file("/a", half), "AAAA", "", 1)}, "storage.files /a: "},
		"a file without any content": {[]string{`{"path": "/a"}`}, ""},
	} {
		c, err := ParseIgnition([]byte(`{"ignition": {"version": "3.3.0"}, "storage": {"files": [` + strings.Join(tc.files, ", ") + `]}}`))
		wantError(t, err, tc.want)
		if err == nil && len(c.Files) != len(tc.files) {
			t.Errorf("%s: got %d files, want %d", name, len(c.Files), len(tc.files))
		}
	}
}
