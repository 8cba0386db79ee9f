// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestAProgramStartsWhileOthersAreWritten(t *testing.T) {
	t.Parallel()
	const programs = 8
	dir, errs := t.TempDir(), make(chan error)
	for n := range programs {
		go func() {
			name := filepath.Join(dir, string(rune('a'+n)))
			var all error
			for range 30 {
				all = errors.Join(all, WriteProgram(name, []byte("#!/bin/sh\n")), exec.CommandContext(t.Context(), name).Run(), os.Remove(name))
			}
			errs <- all
		}()
	}
	for range programs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
