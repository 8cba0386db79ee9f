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
	testenv.OwnPlanes(t, 2)
	asPlainUser(t, []string{"test/misbehaves"}, "TestUnrunnablePodsHaveReasonUntilCorrected", "TestImagesThatComeDamagedAreRefusedUntilTheyComeWhole")
}

// TestHostilePodsOfAPlainUser runs this test again, with a plane that has no rights.
func TestHostilePodsOfAPlainUser(t *testing.T) {
	testenv.Alone(t, 1)
	asPlainUser(t, []string{"test/misbehaves"}, "TestAPlaneServesWhilePodsMisbehave")
}

// TestKubectlAndProbesOfAPlainUser runs these tests again, with a plane that has no
// rights.
func TestKubectlAndProbesOfAPlainUser(t *testing.T) {
	testenv.OwnPlanes(t, 2)
	asPlainUser(t, []string{"test/toolbox"}, "TestKubectlWorksOnPodsOfAPlane", "TestProbesDecideWhatAPodOfAPlaneIs", "TestVolumesOfAPodFollowTheirObjects", "TestPodsReachOnlyClustersOfTheirPlane")
}

// TestAProviderOfAPlainUser installs, upgrades, moves and removes a provider with planes
// that have no rights.
func TestAProviderOfAPlainUser(t *testing.T) {
	testenv.OwnPlanes(t, 2)
	asPlainUser(t, []string{"test/example"}, "TestAProviderInAPlaneBringsUpAClusterThatMoves")
}

// asPlainUser runs tests again as a user without rights, with capstan and other programs
// that the tests need. Each test must pass.
func asPlainUser(t *testing.T, programs []string, tests ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the tests themselves run as a plain user")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "capstan-plain-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home, built := filepath.Join(dir, "home"), filepath.Join(dir, "programs")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody), os.MkdirAll(filepath.Join(built, "test"), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	own := func(from, to string) { // a copy that the user can reach, read and run
		if out, err := exec.CommandContext(t.Context(), "cp", "-rL", from, to).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v\n%s", from, err, out)
		}
		if out, err := exec.CommandContext(t.Context(), "chmod", "-R", "a+rX", to).CombinedOutput(); err != nil {
			t.Fatalf("let all users read %s: %v\n%s", to, err, out)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "e2e.test")
	own(program, self)
	for _, name := range append(programs, "capstan") {
		own(testenv.Program(t, name), filepath.Join(built, name))
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^("+strings.Join(tests, "|")+")$", "-test.v", "-test.timeout="+plainUserTimeout)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), "CAPSTAN_TEST_PROGRAMS=" + built}
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

// plainUserTimeout ends tests that hang. Each wait in them has its own limit.
const plainUserTimeout = "30m"
