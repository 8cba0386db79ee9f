// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/sealedfile"
)

// TestWhatIsNoJoinFileLeavesNothing has files that are damaged, or of others: not one
// key of them may be in the data directory.
func TestWhatIsNoJoinFileLeavesNothing(t *testing.T) {
	t.Parallel()
	path, _ := made(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 0x20
	tests := map[string]struct {
		content []byte
		want    string
	}{
		"empty":           {nil, "it is not a file of capstan's"},
		"cut short":       {whole[:len(whole)/2], "unexpected EOF"},
		"damaged":         {flipped, "it is damaged"},
		"with more":       {append(bytes.Clone(whole), 'x'), "there is more after its end"},
		"a backup":        {packed(t, "backup"), `it is a "backup", not a "join"`},
		"a kubeconfig":    {[]byte("apiVersion: v1\nkind: Config\n"), "it is not a file of capstan's"},
		"of no store":     {packed(t, kind), "read where the store is"},
		"of no server":    {packed(t, kind, sealedfile.Bytes("store", []byte(`{"servers": []}`))), "it names no server of etcd"},
		"without keys":    {packed(t, kind, sealedfile.Bytes("store", []byte(`{"servers": ["https://etcd"]}`))), "ca.crt"},
		"with other keys": {packed(t, kind, sealedfile.Bytes("store", []byte(`{"servers": ["https://etcd"]}`)), sealedfile.Bytes("../../admin.key", nil)), "which is unknown"},
		"far too large":   {packed(t, kind, sealedfile.Bytes("store", make([]byte, maxContent+1))), "which is not from 0 to 1048576"},
	}
	for name, tc := range tests {
		dir := datadir.Dir(t.TempDir())
		file := filepath.Join(t.TempDir(), "join")
		if err := os.WriteFile(file, tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := UseJoinFile(file, dir); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: error %v, want %q of %s", name, err, tc.want, file)
		}
		if left, err := os.ReadDir(string(dir)); err != nil || len(left) > 0 {
			t.Errorf("%s: it leaves %v, %v", name, left, err)
		}
	}
}

func packed(t *testing.T, kind string, contents ...sealedfile.Content) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := sealedfile.Write(&b, kind, sealedfile.Header{Created: time.Now(), Contents: contents}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
