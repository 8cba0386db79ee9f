// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestASecondInterruptEndsTheProgram, whose first was noticed and ended nothing: this test
// is that program, too.
func TestASecondInterruptEndsTheProgram(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_INTERRUPTS") != "" {
		ctx, stop := Interruptible(t.Context())
		defer stop()
		for range 2 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
			<-ctx.Done()
		}
		select {}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestASecondInterruptEndsTheProgram$", "-test.timeout=20s")
	cmd.Env = append(os.Environ(), "CAPSTAN_TEST_INTERRUPTS=1")
	ended, ok := errors.AsType[*exec.ExitError](cmd.Run())
	if !ok || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("it ended by %v, want SIGINT", ended)
	}
}
