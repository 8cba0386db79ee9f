// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"os"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
)

// TestWhatAProcessIsGivenHidesNoProgram: the descriptor of the program has a
// number, too, which is low because the holder has few others.
func TestWhatAProcessIsGivenHidesNoProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a plain user mounts only in a namespace of its own")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	silent, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	var h holder
	if err := h.readOnly(program); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.file.Close() }()
	p, err := os.StartProcess(h.self, []string{"holder.test", "-test.run=^$"}, &os.ProcAttr{
		Env: []string{"PATH=/"}, Files: slices.Repeat([]*os.File{silent}, containerproc.MaxDescriptors),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.Wait(); err != nil || !s.Success() {
		t.Errorf("it ended by %v, %v", s, err)
	}
}
