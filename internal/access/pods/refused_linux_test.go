// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// withoutVariable has this program start a sandbox where no namespace can be made.
const withoutVariable = "CAPSTAN_TEST_PODS_WITHOUT"

// TestASandboxThatTheHostRefusesSaysWhatToDo: nothing tries one before the first Pod,
// so the error of its start is all that its owner is told.
func TestASandboxThatTheHostRefusesSaysWhatToDo(t *testing.T) {
	if os.Getenv(withoutVariable) != "" {
		// The limit is that of the user namespace which this process is in.
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
		r := Check(soon(t))
		if r.Mode != None || len(r.Missing) != 1 || strings.Contains(r.Missing[0].Why, "sysctl") || !strings.Contains(r.Missing[0].Remedy, "sysctl") {
			t.Errorf("the check says %+v", r)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), withoutVariable+"=1", rootlessVariable+"="+probe)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
