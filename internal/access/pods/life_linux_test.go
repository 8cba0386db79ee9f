// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"
)

func TestCheckTellsHowSandboxesRun(t *testing.T) {
	r := Check(soon(t))
	t.Logf("%+v", r)
	if r.Mode == None {
		t.Fatal("no sandbox can be made")
	}
}

func TestAContainerSaysAndEnds(t *testing.T) {
	s := start(t, open(t, Options{}))
	out, _, e := outcome(t, s, container(t, "ids"))
	if want := "1 65532 65532 []\n"; out != want || e.Code != 0 {
		t.Errorf("got %q, %+v, want %q", out, e, want)
	}
}
