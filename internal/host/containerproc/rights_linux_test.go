// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const nameOfDrop = "containerproc-drop"

// TestMain runs this program as a process that gives up rights, and reports what it
// has.
func TestMain(m *testing.M) {
	if os.Args[0] != nameOfDrop {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	var r Rights
	err := ReadPlan(os.Stdin, &r)
	var d *drop
	if err == nil {
		d, err = newDrop(r)
	}
	// It is opened before the user changes, and read afterwards.
	status, oerr := os.Open("/proc/thread-self/status")
	if err == nil && oerr == nil {
		err = stepError(d.run())
	}
	if err != nil || oerr != nil {
		fmt.Print(err, oerr)
		os.Exit(1)
	}
	b := make([]byte, 16<<10)
	n, _ := unix.Read(int(status.Fd()), b)
	_, _ = unix.Write(1, b[:n])
	dumpable, _, _ := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0)
	_, _ = unix.Write(1, []byte("Dumpable:\t"+strconv.Itoa(int(dumpable))+"\n"))
	_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0)
	_, _ = unix.Write(1, []byte("Root:\t"+strconv.Itoa(int(e))+"\n"))
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// TestRightsOfBothProfiles holds what the kernel reports of a process after it gave
// up rights, as it does before it executes a program of an image.
func TestRightsOfBothProfiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has rights to give up")
	}
	const none = "0000000000000000"
	for name, tc := range map[string]struct {
		rights Rights
		want   map[string]string
		lacks  uint64 // capabilities of which it has all others that root has
	}{
		"pod": {rights: Rights{UID: 1000, GID: 1001, Groups: []int{7, 8}, PIDs: 64}, want: map[string]string{
			"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2", "Dumpable": "0",
			"Uid": "1000\t1000\t1000\t1000", "Gid": "1001\t1001\t1001\t1001", "Groups": "7 8", "Root": "1",
		}},
		"pod as user 0": {want: map[string]string{
			"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2", "Dumpable": "0",
			"Uid": "0\t0\t0\t0", "Groups": "",
		}},
		"machine": {rights: Rights{Machine: true}, lacks: 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_TIME, want: map[string]string{
			"CapAmb": none, "NoNewPrivs": "0", "Seccomp": "0", "Dumpable": "0", "Uid": "0\t0\t0\t0", "Root": "0",
		}},
		"machine ignores what is for Pods": {rights: Rights{Machine: true, UID: 1000, PIDs: 1}, lacks: 1<<unix.CAP_SYS_MODULE | 1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_TIME, want: map[string]string{
			"Uid": "0\t0\t0\t0", "Seccomp": "0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(tc.rights)
			if err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile("/proc/self/status")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), Self)
			cmd.Args, cmd.Stdin, cmd.SysProcAttr = []string{nameOfDrop}, bytes.NewReader(text), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			had, has := fields(string(before)), fields(string(out))
			if tc.lacks != 0 {
				for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
					full, err := strconv.ParseUint(had[set], 16, 64)
					if err != nil {
						t.Fatal(err)
					}
					tc.want[set] = fmt.Sprintf("%016x", full&^tc.lacks)
				}
			}
			for field, want := range tc.want {
				if got, ok := has[field]; !ok || got != want {
					t.Errorf("%s: got %q, want %q", field, got, want)
				}
			}
		})
	}
}

// fields returns the fields of a status file.
func fields(status string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.TrimSpace(value)
	}
	return all
}

// TestDropIsForOneProfile: a plan without rights, such as one that was cut short, is
// that of a Pod.
func TestDropIsForOneProfile(t *testing.T) {
	for _, text := range []string{`{}`, `{"Rights":null}`, `{"Rights":{"machine":false}}`} {
		var p Plan
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		d, err := newDrop(p.Rights)
		if err != nil || d.machine || d.keeps != [2]unix.CapUserData{} || len(d.filter) == 0 {
			t.Errorf("%s: got %+v, %v", text, d, err)
		}
	}
}
