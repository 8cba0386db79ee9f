// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestBadPodsOfAPlainUser runs these tests again, with a plane that has no rights.
func TestBadPodsOfAPlainUser(t *testing.T) {
	asPlainUser(t, programVariable, func() string { return buildStatic(t, t.TempDir(), "./testdata/misbehaves") },
		"TestPodsThatCannotRunSayWhyUntilTheyAreMended", "TestImagesThatComeDamagedAreRefusedUntilTheyComeWhole", "TestAPlaneServesWhilePodsMisbehave")
}

// TestKubectlAndProbesOfAPlainUser runs these tests again, with a plane that has no
// rights.
func TestKubectlAndProbesOfAPlainUser(t *testing.T) {
	asPlainUser(t, toolboxVariable, func() string { return buildStatic(t, t.TempDir(), "./testdata/toolbox") },
		"TestKubectlWorksOnPodsOfAPlane", "TestProbesDecideWhatAPodOfAPlaneIs", "TestVolumesOfAPodFollowTheirObjects")
}

// TestAProviderOfAPlainUser has a provider installed, upgraded, moved and removed by who
// has no rights.
func TestAProviderOfAPlainUser(t *testing.T) {
	asPlainUser(t, exampleVariable, func() string { return packExample(t).dir }, "TestAProviderInAPlaneBringsUpAClusterThatMoves")
}

// asPlainUser runs tests again as a user without rights, who can build nothing: a
// variable tells them where the program or folder is that they need. Each has to pass.
func asPlainUser(t *testing.T, variable string, build func() string, tests ...string) {
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
	made := build()
	self, capstan, built := own(program, "e2e.test"), own(testenv.Binary(t), "capstan"), own(made, filepath.Base(made)) // an image has its name
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^("+strings.Join(tests, "|")+")$", "-test.v", "-test.timeout=9m")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), "CAPSTAN_TEST_BINARY=" + capstan, variable + "=" + built}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", nobody, err, out)
	}
	for _, test := range tests {
		switch {
		case strings.Contains(string(out), "--- SKIP: "+test+" "):
			t.Skipf("as user %d:\n%s", nobody, out)
		case !strings.Contains(string(out), "--- PASS: "+test+" "):
			t.Errorf("as user %d, %s was not run:\n%s", nobody, test, out)
		}
	}
	t.Logf("%s", out)
}
