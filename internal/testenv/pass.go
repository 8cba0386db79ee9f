// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Environment variables that the Makefile sets for tests.
const (
	// programsVariable names the folder of the programs that "make test-programs"
	// built. Tests that need one are skipped without it.
	programsVariable = "CAPSTAN_TEST_PROGRAMS"
	// passVariable selects the tests of one pass. Empty selects all tests.
	passVariable = "CAPSTAN_TEST_PASS"
	// kubeconfigVariable names the kubeconfig of a running plane that all tests of the
	// shared pass use.
	kubeconfigVariable = "CAPSTAN_TEST_KUBECONFIG"
)

// A pass is a set of tests that run at the same time. A test belongs to one pass, by
// what it uses.
type pass string

const (
	// sharedPass has the tests that use the shared plane, or only a program.
	sharedPass pass = "shared"
	// ownPass has the tests that start, stop or configure planes.
	ownPass pass = "own"
	// alonePass has the tests that nothing else may run next to: tests that exhaust
	// the machine, and tests that compile.
	alonePass pass = "alone"
)

// entered maps the name of each running top-level test to its pass.
var entered sync.Map

// OwnPlanes declares that a test runs up to n separate planes at the same time, and
// waits until the machine has room for them. A test calls it first, before it does
// anything else. The room is released when the test ends.
func OwnPlanes(t testing.TB, n int) {
	t.Helper()
	enter(t, ownPass)
	reserve(t, n)
}

// Alone declares that no other test may run at the same time, for one of these reasons:
// the test exhausts processes, memory, disk or descriptors, or it compiles programs. The
// test may run up to n planes. It must not call t.Parallel.
func Alone(t testing.TB, n int) {
	t.Helper()
	enter(t, alonePass)
	reserve(t, n)
}

// enter skips a test that does not belong to the present pass.
func enter(t testing.TB, p pass) {
	t.Helper()
	if os.Getenv(programsVariable) == "" {
		t.Skipf("needs the programs of the test suite: run it with make test or make test-e2e (%s is not set)", programsVariable)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	if had, ok := entered.Load(test); ok {
		if p != sharedPass && had != p {
			t.Fatalf("%s calls OwnPlanes or Alone after it used the shared plane or a program, or both: call one of them, first", test)
		}
		return
	}
	if selected := pass(os.Getenv(passVariable)); selected != "" && selected != p {
		t.Skipf("runs in the pass %q, and this is the pass %q", p, selected)
	}
	entered.Store(test, p)
	if !strings.Contains(t.Name(), "/") {
		t.Cleanup(func() { entered.Delete(test) }) // for -count
	}
}

// startsPlanes fails a test that starts a plane without OwnPlanes or Alone.
func startsPlanes(t testing.TB) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	if p, _ := entered.Load(test); p != ownPass && p != alonePass {
		enter(t, sharedPass) // skips where no test of this kind runs
		t.Fatalf("%s starts a plane: call testenv.OwnPlanes first", test)
	}
}

// Program returns the path of a program that "make test-programs" built, such as
// "capstan" or "test/probe". It fails the test if the program is missing.
func Program(t testing.TB, name string) string {
	t.Helper()
	enter(t, sharedPass)
	path, err := program(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// program returns the path of a built program. enter checked that there is a folder.
func program(name string) (string, error) {
	path := filepath.Join(os.Getenv(programsVariable), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find program %s: %w: run make test-programs", name, err)
	}
	return path, nil
}

// Binary returns the path of the capstan program.
func Binary(t testing.TB) string {
	t.Helper()
	return Program(t, "capstan")
}
