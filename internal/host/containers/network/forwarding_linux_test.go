// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestForwardingIsPutBackByTheLast(t *testing.T) {
	for _, before := range []string{"0\n", "1\n"} {
		f := Forwarding{Dir: filepath.Join(t.TempDir(), "place"), File: filepath.Join(t.TempDir(), "setting")}
		folders := map[string]string{}
		for _, id := range []string{"one", "two", "gone"} {
			folders[id] = t.TempDir()
			if err := os.WriteFile(filepath.Join(folders[id], "identity"), []byte(id+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		is := func() string {
			text, err := os.ReadFile(f.File)
			if err != nil {
				t.Fatal(err)
			}
			return string(text[:1])
		}
		err := errors.Join(os.WriteFile(f.File, []byte(before), 0o600), f.Leave("one"))
		for id, folder := range folders {
			err = errors.Join(err, f.Need(id, folder), f.Need(id, folder))
		}
		if err := errors.Join(err, os.RemoveAll(folders["gone"]), f.Leave("one")); err != nil {
			t.Fatal(err)
		}
		if is() != "1" {
			t.Error("the second needs it")
		}
		if err := errors.Join(f.Leave("two"), f.Leave("two")); err != nil {
			t.Fatal(err)
		}
		if is() != before[:1] {
			t.Errorf("it is %s, was %s", is(), before)
		}
		if _, err := os.Stat(f.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the place is left: %v", err)
		}
	}
}
