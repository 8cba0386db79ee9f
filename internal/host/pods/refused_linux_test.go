// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutVariable makes this program start a sandbox on a host that lacks
// something: one where no namespace can be created, or a folder on a file system
// without owners.
const withoutVariable = "CAPSTAN_TEST_PODS_WITHOUT"

// TestASandboxThatTheHostRefusesSaysWhatToDo checks the error of the first start,
// which is all that the user gets: nothing tries a sandbox before the first Pod.
func TestASandboxThatTheHostRefusesSaysWhatToDo(t *testing.T) {
	if os.Getenv(withoutVariable) != "" {
		// The limit is that of the user namespace of this process.
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		h, err := Open(filepath.Join(t.TempDir(), "state"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Start(soon(t), Spec{Name: "refused", Hostname: "refused", Address: address})
		if err == nil || strings.Count(err.Error(), "sysctl user.max_user_namespaces") != 1 {
			t.Errorf("the start says %v", err)
		}
		r := Check(soon(t), t.TempDir())
		if r.Mode != None || len(r.Missing) != 1 || strings.Contains(r.Missing[0].Why, "sysctl") || !strings.Contains(r.Missing[0].Remedy, "sysctl") {
			t.Errorf("the check says %+v", r)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	again(t, "1", &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	})
}

// again runs a test in another process, which receives the name of the missing
// feature.
func again(t *testing.T, without string, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), withoutVariable+"="+without, rootlessVariable+"="+probe)
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAFileSystemThatCannotMapOwnersIsNamed uses a file system on which a Pod would
// not own its own files.
func TestAFileSystemThatCannotMapOwnersIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root the files of a Pod are its own")
	}
	if dir := os.Getenv(withoutVariable); dir != "" {
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("ramfs", dir, "ramfs", 0, "")); err != nil {
			t.Fatal(err)
		}
		h := open(t, Options{})
		c := container(t, "sleep")
		root := filepath.Join(dir, "root")
		if err := os.CopyFS(root, os.DirFS(c.Root)); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]Container{
			"image": {Name: "a", Root: root, Args: c.Args}, "volume": {Name: "b", Root: c.Root, Args: c.Args, Mounts: []Mount{{Source: dir, Target: "/v"}}},
		} {
			_, err := start(t, h, func(s *Spec) { s.Name = name }).Run(soon(t), c)
			if err == nil || !strings.Contains(err.Error(), dir) || strings.Count(err.Error(), "as ext4") != 1 {
				t.Errorf("the %s: got %v, want the folder and a remedy", name, err)
			}
		}
		r := Check(soon(t), filepath.Join(dir, "is/not/there"))
		if r.Mode != None || len(r.Missing) != 1 || strings.Contains(r.Missing[0].Why, "as ext4") || !strings.Contains(r.Missing[0].Remedy, "as ext4") {
			t.Errorf("the check says %+v", r)
		}
		return
	}
	again(t, t.TempDir(), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
}
