// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestBadPodsOfAPlainUser runs these tests again, with a plane that has no rights.
func TestBadPodsOfAPlainUser(t *testing.T) {
	asPlainUser(t, "^(TestPodsThatCannotRun|TestImagesThatComeDamaged|TestAPlaneServesWhilePods)", programVariable, func() string {
		return buildStatic(t, t.TempDir(), "./testdata/misbehaves")
	})
}

// TestKubectlAndProbesOfAPlainUser runs these tests again, with a plane that has no
// rights.
func TestKubectlAndProbesOfAPlainUser(t *testing.T) {
	asPlainUser(t, "^(TestKubectlWorks|TestProbesDecide|TestVolumesOfAPod)", toolboxVariable, func() string {
		return buildStatic(t, t.TempDir(), "./testdata/toolbox")
	})
}

// TestAProviderOfAPlainUser has a provider installed, upgraded, moved and removed by who
// has no rights.
func TestAProviderOfAPlainUser(t *testing.T) {
	asPlainUser(t, "^TestAProviderInAPlaneBringsUpAClusterThatMoves$", exampleVariable, func() string { return packExample(t).dir })
}

// asPlainUser runs tests again as a user without rights, who can build nothing: a
// variable tells them where the program or folder is that they need.
func asPlainUser(t *testing.T, tests, variable string, build func() string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("these are they")
	}
	const nobody = 65534
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "capstan-plain-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := filepath.Join(dir, "home")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	own := func(from, name string) string { // that it can reach, read and run
		to := filepath.Join(dir, name)
		if out, err := exec.CommandContext(t.Context(), "cp", "-rL", from, to).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v\n%s", from, err, out)
		}
		if out, err := exec.CommandContext(t.Context(), "chmod", "-R", "a+rX", to).CombinedOutput(); err != nil {
			t.Fatalf("let all read %s: %v\n%s", to, err, out)
		}
		return to
	}
	self, capstan, built := own(program, "e2e.test"), own(testenv.Binary(t), "capstan"), own(build(), "built")
	cmd := exec.CommandContext(t.Context(), self, "-test.run="+tests, "-test.v="+fmt.Sprint(testing.Verbose()), "-test.timeout=9m")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), "CAPSTAN_TEST_BINARY=" + capstan, variable + "=" + built}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", nobody, err, out)
	}
	t.Logf("%s", out)
}
