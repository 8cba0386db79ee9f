// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

func made(t *testing.T) (path string, keys Folder) {
	t.Helper()
	dir := datadir.Dir(t.TempDir())
	keys = Folder{Dir: dir.PKI(), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	s := Store{Servers: []string{"https://etcd:2379"}, Prefix: "/planes", CAFile: keys.Cert("ca"), CertFile: keys.Cert("admin"), KeyFile: keys.Key("admin")}
	if err := WriteJoinFile(dir.Join(), s, keys, time.Now()); err != nil {
		t.Fatal(err)
	}
	return dir.Join(), keys
}

func TestWhoJoinsHasTheSameKeysAndStore(t *testing.T) {
	t.Parallel()
	path, keys := made(t)
	dir := datadir.Dir(t.TempDir())
	for range 2 { // as well when it is used again
		got, err := UseJoinFile(path, dir)
		if err != nil {
			t.Fatal(err)
		}
		want := Store{[]string{"https://etcd:2379"}, "/planes", filepath.Join(dir.PKI(), "etcd-ca.crt"), filepath.Join(dir.PKI(), "etcd-client.crt"), filepath.Join(dir.PKI(), "etcd-client.key")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("store (-want +got):\n%s", diff)
		}
	}
	ours := Folder{Dir: dir.PKI(), Now: time.Now}
	if err := ours.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	want, err := keys.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ours.Fingerprint(); err != nil || got != want {
		t.Errorf("fingerprint %s, error %v, want %s", got, err, want)
	}
	for _, file := range []string{path, filepath.Join(dir.PKI(), "ca.key"), filepath.Join(dir.PKI(), "etcd-client.key")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", file, info.Mode(), err)
		}
	}
}

func TestUseRefuses(t *testing.T) {
	t.Parallel()
	path, _ := made(t)
	other, _ := made(t)
	if err := os.Chmod(other, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := datadir.Dir(t.TempDir())
	if _, err := UseJoinFile(other, dir); err == nil || !strings.Contains(err.Error(), "has mode 0644, so others may use it") {
		t.Errorf("a file that others may read: %v", err)
	}
	if entries, err := os.ReadDir(string(dir)); err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
	keys := Folder{Dir: dir.PKI(), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := UseJoinFile(path, dir); err == nil || !strings.Contains(err.Error(), "is another one: use a new data directory") {
		t.Errorf("a plane with other keys: %v", err)
	}
	if _, err := UseJoinFile(filepath.Join(t.TempDir(), "none"), dir); err == nil {
		t.Error("a file that is not there is used")
	}
}
