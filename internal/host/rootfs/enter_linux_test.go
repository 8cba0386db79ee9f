// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// attempt is what a process does in a new root: it writes to files, reads some, and
// reports.
type attempt struct {
	Root        Root
	Write, Read []string
}

const nameOfAttempts = "rootfs-attempt"

func TestMain(m *testing.M) {
	if os.Args[0] == nameOfAttempts {
		if err := runAttempt(); err != nil {
			fmt.Print("failed: ", err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runAttempt() error {
	var a attempt
	if err := json.NewDecoder(os.Stdin).Decode(&a); err != nil {
		return err
	}
	unix.Umask(0o077) // of the plane; a root does not depend on it
	if err := a.Root.Enter(); err != nil {
		return err
	}
	for _, file := range a.Write {
		if err := os.WriteFile(file, []byte("1"), 0o644); err != nil {
			fmt.Println("write:", err)
		}
	}
	for _, file := range a.Read {
		text, err := os.ReadFile(file)
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(filepath.Dir(file)); err == nil {
				fmt.Println("read:", file, string(bytes.TrimSpace(text)), info.Mode().Perm())
			}
		}
		if err != nil {
			fmt.Println("read:", err)
		}
	}
	return nil
}

// enter runs an attempt in new namespaces, and returns what it reports.
func enter(t *testing.T, a attempt) string {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args, cmd.Stdin = []string{nameOfAttempts}, bytes.NewReader(text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestEnterIsSafeFromTheImage: the author of the image, or of the earlier content of
// a machine's root, chose its links.
func TestEnterIsSafeFromTheImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creates mounts")
	}
	pod := func(dir string) Pod { return Pod{Image: Step{Source: dir}, Scratch: 1 << 20} }
	bind := func(dir, target string, flags uint64) Step {
		return Step{Op: Bind, Source: dir + "-given", Target: target, Flags: flags}
	}
	for name, tc := range map[string]struct {
		links       map[string]string // of the image
		root        func(dir string) Root
		write, read []string
		want        string // in what it reports
	}{
		"a mount is read-only": {
			root:  func(d string) Root { p := pod(d); p.Mounts = []Step{bind(d, "/a/b", RO)}; return p.Root() },
			write: []string{"/a/b/x"}, read: []string{"/a/b/file"}, want: "read-only file system\nread: /a/b/file given -rwxr-xr-x\n",
		},
		"a link leads a mount out of a Pod": {
			links: map[string]string{"v": "../../../../.."},
			root:  func(d string) Root { p := pod(d); p.Mounts = []Step{bind(d, "/v/etc", 0)}; return p.Root() },
			want:  "failed: mount /v/etc: a link leads out of the root",
		},
		"an absolute link leads a mount out of a Pod": {
			links: map[string]string{"v": "/tmp"},
			root:  func(d string) Root { p := pod(d); p.Mounts = []Step{bind(d, "/v", 0)}; return p.Root() },
			want:  "failed: mount /v: a link leads out of the root",
		},
		"/proc of a Pod's image is a link": {
			links: map[string]string{"proc": "etc"},
			root:  func(d string) Root { return pod(d).Root() }, want: "failed: mount /proc: it is no folder of the image",
		},
		"/dev of a Pod's image is a link": {
			links: map[string]string{"dev": "../.."},
			root:  func(d string) Root { return pod(d).Root() }, want: "failed: mount /dev: it is no folder of the image",
		},
		"/proc of a machine is a link": {
			links: map[string]string{"proc": "/etc"},
			root: func(d string) Root {
				return Machine{Top: d + "-top", Layers: []string{d}, Upper: d + "-upper", Work: d + "-work"}.Root()
			},
			want: "failed: mount /proc: it is no folder of the image",
		},
		"a file of a Pod replaces a link": {
			links: map[string]string{"etc/hosts": "/proc/1/environ"},
			root: func(d string) Root {
				p := pod(d)
				p.Files = map[string][]byte{"/etc/hosts": []byte("h"), "/new/f": []byte("f")}
				return p.Root()
			},
			read: []string{"/etc/hosts", "/new/f"}, want: "read: /etc/hosts h -rwxr-xr-x\nread: /new/f f -rwxr-xr-x\n",
		},
		"the folder of a Pod's file leads out": {
			links: map[string]string{"new": "../../.."},
			root: func(d string) Root {
				p := pod(d)
				p.Files = map[string][]byte{"/new/f": []byte("f")}
				return p.Root()
			},
			want: "failed: file /new/f: a link leads out of the root",
		},
		"a path below a source leads out of it": {
			root: func(d string) Root {
				p := pod(d)
				p.Mounts = []Step{{Op: Bind, Source: d + "-given", SubPath: "away", Target: "/v"}}
				return p.Root()
			},
			want: "failed: mount /v: open away below",
		},
		"settings of the kernel are frozen in a Pod": {
			root:  func(d string) Root { return pod(d).Root() },
			write: []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/panic"},
			read:  []string{"/proc/keys"},
			want:  strings.Repeat("read-only file system\n#", 2) + "read: /proc/keys  -r-xr-xr-x\n",
		},
		"the network's are a machine's own": {
			root: func(d string) Root {
				return Machine{Top: d + "-top", Layers: []string{d}, Upper: d + "-upper", Work: d + "-work", Unified: true, Devices: []string{"null"}}.Root()
			},
			write: []string{"/proc/sys/kernel/panic", "/proc/sys/net/ipv4/ip_forward", "/sys/kernel/uevent_seqnum"},
			want:  "panic: read-only file system\nwrite: open /sys/kernel/uevent_seqnum: read-only file system\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "image")
			err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755)
			for _, suffix := range []string{"-given", "-top", "-upper", "-work"} {
				err = errors.Join(err, os.Mkdir(dir+suffix, 0o755))
			}
			err = errors.Join(err, os.WriteFile(dir+"-given/file", []byte("given"), 0o644), os.Symlink("/etc", dir+"-given/away"))
			for link, to := range tc.links {
				err = errors.Join(err, os.Symlink(to, filepath.Join(dir, link)))
			}
			if err != nil {
				t.Fatal(err)
			}
			got := enter(t, attempt{tc.root(dir), tc.write, tc.read})
			rest := got
			for part := range strings.SplitSeq(tc.want, "#") {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("got %q, want %q", got, tc.want)
				}
				rest = after
			}
			if all, err := os.ReadDir(dir + "-given"); err != nil || len(all) != 2 {
				t.Errorf("the folder of the host has %v, %v", all, err)
			}
		})
	}
}
