// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDebianTool(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		has  []string
		want string
	}{
		"both":           {[]string{"debootstrap", "mmdebstrap"}, "mmdebstrap"},
		"the slower one": {[]string{"debootstrap"}, "debootstrap"},
		"none":           {nil, ""},
	} {
		got, _, err := debianTool(func(n string) (string, error) {
			if slices.Contains(tc.has, n) {
				return "/usr/bin/" + n, nil
			}
			return "", exec.ErrNotFound
		})
		if got != tc.want || errors.Is(err, ErrNoTool) != (tc.want == "") {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tc.want)
		}
	}
	if !strings.Contains(ErrNoTool.Error(), "apt-get install mmdebstrap") {
		t.Errorf("%q names no remedy", ErrNoTool)
	}
}

func TestDebianArguments(t *testing.T) {
	t.Parallel()
	fast := Debian{}.arguments("mmdebstrap", "/root")
	if got := fast[len(fast)-2:]; !slices.Equal(got, []string{"bookworm", "/root"}) {
		t.Errorf("mmdebstrap gets %v in the end", got)
	}
	if !slices.Contains(fast, "--dpkgopt=path-exclude=/usr/share/man/*") {
		t.Errorf("mmdebstrap gets %v", fast)
	}
	slow := Debian{Suite: "trixie", Mirror: "http://mirror"}.arguments("debootstrap", "/root")
	if got := slow[len(slow)-3:]; !slices.Equal(got, []string{"trixie", "/root", "http://mirror"}) || len(slow) != 5 {
		t.Errorf("debootstrap gets %v", slow)
	}
	for _, args := range [][]string{fast, slow} {
		i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--include=") })
		for _, p := range []string{"systemd-sysv", "cloud-init", "conntrack", "libseccomp2"} {
			if !slices.Contains(strings.Split(strings.TrimPrefix(args[i], "--include="), ","), p) {
				t.Errorf("package %s is missing in %v", p, args)
			}
		}
	}
}

// TestNoPackageComesForTheLayoutOfUsr checks that a release is created with the
// merged layout, instead of being changed by a package that needs all of Perl.
func TestNoPackageComesForTheLayoutOfUsr(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		suite, tool string
		want        bool
	}{
		"the default":               {"", "mmdebstrap", true},
		"one that came after it":    {"trixie", "mmdebstrap", true},
		"one that knows no package": {"bullseye", "mmdebstrap", false},
		"the tool that does it":     {"", "debootstrap", false},
	} {
		args := strings.Join(Debian{Suite: tc.suite}.arguments(tc.tool, "/root"), " ")
		if strings.Contains(args, ",usr-is-merged ") != tc.want || strings.Contains(args, "hooks/merged-usr") != tc.want {
			t.Errorf("%s: %s", name, args)
		}
	}
}

func TestInputsDistinguishRoots(t *testing.T) {
	t.Parallel()
	one := Debian{}.inputs("mmdebstrap")
	if !slices.Equal(one, Debian{Suite: defaultSuite, Env: []string{"A=b"}}.inputs("mmdebstrap")) {
		t.Error("the defaults, written out, are another root")
	}
	for name, other := range map[string][]string{
		"suite": Debian{Suite: "trixie"}.inputs("mmdebstrap"), "mirror": Debian{Mirror: "http://m"}.inputs("mmdebstrap"), "tool": Debian{}.inputs("debootstrap"),
	} {
		if slices.Equal(one, other) {
			t.Errorf("another %s is the same root", name)
		}
	}
}

func TestWhatBelongsToOneMachineIsTakenAway(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files := map[string]bool{ // whether the file stays
		"dev/null": false, "etc/machine-id": false, "etc/resolv.conf": false, "var/log/dpkg.log": false, "var/lib/apt/lists/all": false, "var/cache/apt/archives/a.deb": false,
		"usr/share/i18n/locales/C": false, "usr/lib/udev/hwdb.bin": false, "usr/lib/udev/hwdb.d/60-keyboard.hwdb": false, "usr/lib/udev/rules.d/a": true,
		"etc/passwd": true, "var/lib/dpkg/status": true, "usr/bin/bash": true,
	}
	for name := range files {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := clean(root); err != nil {
		t.Fatal(err)
	}
	for name, stays := range files {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != stays || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, stays: want %v", name, err, stays)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "var/log")); err != nil {
		t.Error(err)
	}
}

func TestTheEndOfWhatAToolWroteIsKept(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), exec.Command("/bin/sh", "-c", "yes beginning | head -c 9000; echo; echo end; exit 3"))
	if err == nil || !strings.HasPrefix(err.Error(), "exit status 3: ") || !strings.HasSuffix(err.Error(), "\nend") || len(err.Error()) > maxOutput+20 {
		t.Errorf("got %v", err)
	}
}
