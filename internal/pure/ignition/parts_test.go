// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"

	config "github.com/coreos/ignition/v2/config/v3_3"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// rendered returns a document as Ignition reads it.
func rendered(t *testing.T, d Document) types.Config {
	t.Helper()
	raw, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	c, report, err := config.Parse(raw)
	if err != nil || report.IsFatal() {
		t.Fatalf("%v: %s", err, report.String())
	}
	return c
}

// written returns the text that Ignition writes for a resource.
func written(t *testing.T, r types.Resource) string {
	t.Helper()
	encoded, ok := strings.CutPrefix(ptr.Deref(r.Source, ""), "data:;base64,")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		t.Fatalf("source %q: %v", ptr.Deref(r.Source, ""), err)
	}
	if ptr.Deref(r.Compression, "") != "gzip" {
		return string(raw)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRenderWritesFilesInOrder: of one path the last that replaces counts, and those
// that append after it.
func TestRenderWritesFilesInOrder(t *testing.T) {
	t.Parallel()
	file := func(path, content string, change ...func(*bootstrapv1.File)) bootstrapv1.File {
		f := bootstrapv1.File{Path: path, Content: content}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	more := func(f *bootstrapv1.File) { f.Append = new(true) }
	mode := func(m string) func(*bootstrapv1.File) { return func(f *bootstrapv1.File) { f.Permissions = m } }
	by := func(owner string) func(*bootstrapv1.File) { return func(f *bootstrapv1.File) { f.Owner = owner } }
	encoded := func(e bootstrapv1.Encoding) func(*bootstrapv1.File) {
		return func(f *bootstrapv1.File) { f.Encoding = e }
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, "zipped"); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		files []bootstrapv1.File
		want  string // content of /f, then what is appended, each after a bar
		mode  int
		owner string
	}{
		"one":                             {[]bootstrapv1.File{file("/f", "a")}, "a", 0o644, ""},
		"an empty one":                    {[]bootstrapv1.File{file("/f", "")}, "", 0o644, ""},
		"the last that replaces":          {[]bootstrapv1.File{file("/f", "a"), file("/f", "b", mode("0600"))}, "b", 0o600, ""},
		"and those that append":           {[]bootstrapv1.File{file("/f", "a"), file("/f", "b", more), file("/f", "c", more)}, "a|b|c", 0o644, ""},
		"what was appended before it":     {[]bootstrapv1.File{file("/f", "a", more), file("/f", "b")}, "b", 0o644, ""},
		"to a file of the system":         {[]bootstrapv1.File{file("/f", "a", more)}, "|a", 0o644, ""},
		"append of false":                 {[]bootstrapv1.File{file("/f", "a"), file("/f", "b", func(f *bootstrapv1.File) { f.Append = new(false) })}, "b", 0o644, ""},
		"a mode of four digits":           {[]bootstrapv1.File{file("/f", "a", mode("4755"))}, "a", 0o4755, ""},
		"an owner and a group":            {[]bootstrapv1.File{file("/f", "a", by("etcd:etcd"))}, "a", 0o644, "etcd:etcd"},
		"numbers of both":                 {[]bootstrapv1.File{file("/f", "a", by("0:1000"))}, "a", 0o644, "#0:#1000"},
		"an owner alone":                  {[]bootstrapv1.File{file("/f", "a", by("etcd"))}, "a", 0o644, "etcd:"},
		"base64 of several lines":         {[]bootstrapv1.File{file("/f", "aGVs\n bG8=\n", encoded(bootstrapv1.Base64))}, "hello", 0o644, ""},
		"zipped, in base64":               {[]bootstrapv1.File{file("/f", base64.StdEncoding.EncodeToString(zipped.Bytes()), encoded(bootstrapv1.GzipBase64))}, "zipped", 0o644, ""},
		"zipped":                          {[]bootstrapv1.File{file("/f", zipped.String(), encoded(bootstrapv1.Gzip))}, "zipped", 0o644, ""},
		"text that looks like a variable": {[]bootstrapv1.File{file("/f", "${A} %h {{ b }}\x00\xff")}, "${A} %h {{ b }}\x00\xff", 0o644, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range rendered(t, Document{Files: tc.files}).Storage.Files {
				if f.Path != "/f" {
					continue
				}
				got := ""
				if f.Contents.Source != nil {
					got = written(t, f.Contents)
				}
				for _, a := range f.Append {
					got += "|" + written(t, a)
				}
				owner := ""
				if f.User != (types.NodeUser{}) || f.Group != (types.NodeGroup{}) {
					owner = named(f.User.ID, f.User.Name) + ":" + named(f.Group.ID, f.Group.Name)
				}
				if got != tc.want || *f.Mode != tc.mode || owner != tc.owner {
					t.Errorf("%q, mode %o of %q, want %q, %o of %q", got, *f.Mode, owner, tc.want, tc.mode, tc.owner)
				}
				if replaces := f.Contents.Source != nil; ptr.Deref(f.Overwrite, false) != replaces {
					t.Errorf("overwrite %v", f.Overwrite)
				}
				return
			}
			t.Error("the file is not written")
		})
	}
}

func named(id *int, name *string) string {
	if id != nil {
		return "#" + strconv.Itoa(*id)
	}
	return ptr.Deref(name, "")
}

func TestRenderRunsCommandsOnce(t *testing.T) {
	t.Parallel()
	files := make([]bootstrapv1.File, 1, 4)
	files[0] = bootstrapv1.File{Path: ConfigPath, Content: "x"}
	c := rendered(t, Document{Files: files, Commands: []string{"first", "second | third && fourth"}})
	if rest := files[:2][1]; rest.Path != "" {
		t.Errorf("the list of the caller has %s now", rest.Path)
	}
	var script *types.File
	for i, f := range c.Storage.Files {
		if f.Path == scriptPath {
			script = &c.Storage.Files[i]
		}
	}
	if script == nil || *script.Mode != 0o700 || *script.User.Name != "root" {
		t.Fatalf("script %+v", script)
	}
	if text := written(t, script.Contents); !strings.HasPrefix(text, "#!/bin/bash\nset -e\n") || !strings.HasSuffix(text, "\nfirst\nsecond | third && fourth\n") {
		t.Errorf("script %q", text)
	}
	unit := c.Systemd.Units[0]
	if unit.Name != "kubeadm.service" || !*unit.Enabled {
		t.Errorf("unit %s, enabled %v", unit.Name, unit.Enabled)
	}
	for _, line := range []string{"ConditionPathExists=/etc/kubeadm.yml\n", "ExecStart=/bin/bash /etc/kubeadm.sh\n", "Type=oneshot\n", "WantedBy=multi-user.target\n"} {
		if !strings.Contains(*unit.Contents, line) {
			t.Errorf("the unit lacks %q", line)
		}
	}
}

// TestMountsFollowOptionsOfFstab: systemd reads nofail and _netdev in fstab only, and
// ignores them in a unit.
func TestMountsFollowOptionsOfFstab(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mount bootstrapv1.MountPoints
		name  string
		want  []string // lines
	}{
		"device and folder":       {bootstrapv1.MountPoints{"/dev/sdb1", "/var/lib/etcd"}, "var-lib-etcd.mount", []string{"What=/dev/sdb1", "Where=/var/lib/etcd", "Before=local-fs.target", "RequiredBy=local-fs.target"}},
		"type and options":        {bootstrapv1.MountPoints{"tmpfs", "/x", "tmpfs", "size=50%,noatime"}, "x.mount", []string{"Type=tmpfs", "Options=size=50%%,noatime", "RequiredBy=local-fs.target"}},
		"one that may be missing": {bootstrapv1.MountPoints{"/dev/sdb", "/x", "ext4", "defaults,nofail"}, "x.mount", []string{"Options=defaults,nofail", "Before=local-fs.target", "WantedBy=local-fs.target"}},
		"one of the network":      {bootstrapv1.MountPoints{"host:/x", "/x", "nfs", "_netdev,ro"}, "x.mount", []string{"What=host:/x", "Before=remote-fs.target", "RequiredBy=remote-fs.target"}},
		"both":                    {bootstrapv1.MountPoints{"host:/x", "/x", "nfs", "nofail,_netdev", "0", "0"}, "x.mount", []string{"Before=remote-fs.target", "WantedBy=remote-fs.target"}},
		"an option like it":       {bootstrapv1.MountPoints{"/dev/sdb", "/x", "ext4", "x-nofail"}, "x.mount", []string{"RequiredBy=local-fs.target"}},
		"a name to be escaped":    {bootstrapv1.MountPoints{"/dev/sdb", "/var/lib/my-data"}, `var-lib-my\x2ddata.mount`, []string{"Where=/var/lib/my-data"}},
		"the root":                {bootstrapv1.MountPoints{"/dev/sdb", "/"}, "-.mount", []string{"Where=/"}},
		"a percent sign":          {bootstrapv1.MountPoints{"/dev/a%b", "/x%n"}, `x\x25n.mount`, []string{"What=/dev/a%%b", "Where=/x%%n"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			units := rendered(t, Document{Spec: bootstrapv1.KubeadmConfigSpec{Mounts: []bootstrapv1.MountPoints{tc.mount}}}).Systemd.Units
			got := units[len(units)-1]
			if got.Name != tc.name || !*got.Enabled {
				t.Errorf("unit %s, want %s", got.Name, tc.name)
			}
			lines := strings.Split(*got.Contents, "\n")
			for _, want := range tc.want {
				if n := count(lines, want); n != 1 {
					t.Errorf("%q is there %d times in:\n%s", want, n, *got.Contents)
				}
			}
		})
	}
}

func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

func TestSourceIsDeviceOfUnit(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/dev/sdb1": "/dev/sdb1", "LABEL=data": "/dev/disk/by-label/data", "UUID=1-2": "/dev/disk/by-uuid/1-2", "PARTLABEL=my data": `/dev/disk/by-partlabel/my\x20data`,
		"PARTUUID=x": "/dev/disk/by-partuuid/x", "sdb": "/dev/sdb", "nvme1n1p1": "/dev/nvme1n1p1", "xvdf": "/dev/xvdf", "vdb": "/dev/vdb", "tmpfs": "tmpfs",
		"sda:/export": "sda:/export", "ID=x": "ID=x", "": "",
	} {
		if got := source(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestPartitionHasSuffixOfKernel(t *testing.T) {
	t.Parallel()
	whole := []bootstrapv1.Partition{{Device: "/dev/sdb", Layout: new(true)}, {Device: "/dev/nvme1n1", DiskLayout: []bootstrapv1.PartitionSpec{{Percentage: 100}}}, {Device: "/dev/sdd", Layout: new(false)}}
	for name, tc := range map[string]struct{ device, partition, want string }{
		"no partition":                   {"/dev/sdb", "", ""},
		"explicitly none":                {"/dev/sdb", "none", ""},
		"the one that is made":           {"/dev/sdb", "auto", "1"},
		"or any":                         {"/dev/sdb", "any", "1"},
		"of a disk that ends in a digit": {"/dev/nvme1n1", "auto", "p1"},
		"of a disk without one":          {"/dev/sdd", "auto", ""},
		"of a disk that is not listed":   {"/dev/sde", "any", ""},
		"by number":                      {"/dev/sde", "3", "3"},
		"by number, after a digit":       {"/dev/mmcblk0", "2", "p2"},
		"below /dev/disk":                {"/dev/disk/by-id/x1", "2", "-part2"},
	} {
		if got := partitionSuffix(bootstrapv1.Filesystem{Device: tc.device, Partition: tc.partition}, whole); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestSizesAreWholeMebibytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*int{
		"0": nil, "1MiB": new(1), "1024KiB": new(1), "2GiB": new(2048), "3TiB": new(3 << 20), "0MiB": new(0),
		"999999999999TiB": new(1 << 52), // saturates: Ignition refuses what the disk does not have
	} {
		got, err := mebibytes(intstr.FromString(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if got, err := mebibytes(intstr.FromInt32(0)); got != nil || err != nil {
		t.Errorf("the number 0: %v, %v", got, err)
	}
	for _, text := range []string{"", "1", "-1MiB", "1MB", "1 MiB", "1KiB", "1025KiB", "1000000000000MiB", "MiB", "0x1MiB"} {
		if got, err := mebibytes(intstr.FromString(text)); err == nil {
			t.Errorf("%q is %d MiB", text, *got)
		}
	}
}

func TestAccountsLockPasswords(t *testing.T) {
	t.Parallel()
	users := []bootstrapv1.User{
		{Name: "open", Passwd: "hash", LockPassword: new(false)},
		{Name: "locked", Passwd: "hash", LockPassword: new(true)},
		{Name: "default", Passwd: "hash", Groups: "a,b c,,d"},
		{Name: "none", LockPassword: new(true), Sudo: "false"},
		{Name: "admin", Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 A a", "ssh-ed25519 B b"}},
	}
	c := rendered(t, Document{Spec: bootstrapv1.KubeadmConfigSpec{Users: users}})
	hashes, files := map[string]string{}, map[string]string{}
	for _, u := range c.Passwd.Users {
		hashes[u.Name] = ptr.Deref(u.PasswordHash, "-")
	}
	for _, f := range c.Storage.Files {
		files[f.Path] = written(t, f.Contents)
	}
	if diff := cmp.Diff(map[string]string{"open": "hash", "locked": "!hash", "default": "hash", "none": "-", "admin": "-"}, hashes); diff != "" {
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]types.Group{"a", "b", "c", "d"}, c.Passwd.Users[2].Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if n := len(c.Passwd.Users[4].SSHAuthorizedKeys); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	if got, want := files["/etc/sudoers.d/90-users"], "admin ALL=(ALL) NOPASSWD:ALL\n"; got != want {
		t.Errorf("sudoers %q, want %q", got, want)
	}
	if got, want := files["/etc/ssh/sshd_config.d/10-password.conf"], "Match User open\n  PasswordAuthentication yes\n"; got != want {
		t.Errorf("sshd %q, want %q", got, want)
	}
}

func TestCheckReportsInSameOrder(t *testing.T) {
	t.Parallel()
	name := bootstrapv1.NodeRegistrationOptions{Name: "{{ ds.meta_data.local_hostname }}"}
	spec := &bootstrapv1.KubeadmConfigSpec{
		InitConfiguration: bootstrapv1.InitConfiguration{NodeRegistration: name}, JoinConfiguration: bootstrapv1.JoinConfiguration{NodeRegistration: name},
	}
	for range 30 { // Go visits a map in another order each time
		errs := Check(field.NewPath("spec"), spec)
		if len(errs) != 2 || errs[0].Field != "spec.initConfiguration.nodeRegistration.name" || errs[1].Field != "spec.joinConfiguration.nodeRegistration.name" {
			t.Fatalf("%v", errs)
		}
	}
}

func FuzzAdditionalConfig(f *testing.F) {
	for _, seed := range []string{
		"systemd: {units: [{name: a.service, dropins: [{name: b.conf, contents: c}]}]}", "storage: {files: [{path: /a, mode: 0644, contents: {inline: b}}], disks: [{device: /dev/a, partitions: [{number: 1, size: 1GiB}]}]}",
		"passwd: {users: [{name: a, groups: [b]}]}", "networkd: {units: [{name: a, contents: b}]}", "- 1", "{",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec := bootstrapv1.KubeadmConfigSpec{}
		spec.Ignition.ContainerLinuxConfig.AdditionalConfig = text
		refused := Check(field.NewPath("spec"), &spec)
		out, err := Render(Document{Spec: spec})
		if err == nil && (len(refused) > 0 || !json.Valid(out)) {
			t.Errorf("refused %v, and yet it is rendered: %s", refused, out)
		}
	})
}
