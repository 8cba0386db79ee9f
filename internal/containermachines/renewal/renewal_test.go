// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// put writes files below a folder, by their names.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// images are two node images of which some files differ.
func images(t *testing.T) (from, to Image) {
	t.Helper()
	dir := t.TempDir()
	from, to = Image{Node: dir + "/from", Var: dir + "/none"}, Image{Node: dir + "/to", Var: dir + "/var"}
	put(t, from.Node, map[string]string{"usr/local/bin/kubelet": "old kubelet", "usr/local/bin/runc": "runc", "etc/same.conf": "same"})
	put(t, to.Node, map[string]string{"usr/local/bin/kubelet": "new kubelet", "usr/local/bin/runc": "runc", "etc/same.conf": "same", "etc/new.conf": "new"})
	if err := os.Chmod(to.Node+"/usr/local/bin/runc", 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, to.Var, map[string]string{
		"lib/containerd/io.containerd.content.v1.content/blobs/sha256/a": "blob",
		"lib/containerd/io.containerd.metadata.v1.bolt/meta.db":          "meta",
		"lib/containerd/io.containerd.snapshotter.v1.overlayfs/1/fs/bin": "unpacked",
		"log/cloud-init.log": "nothing of an image",
	})
	return from, to
}

func TestWhatDiffersIsSent(t *testing.T) {
	t.Parallel()
	from, to := images(t)
	var sent bytes.Buffer
	if err := Send(&sent, from, to); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for in := tar.NewReader(&sent); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(text)
	}
	want := map[string]string{
		"store/io.containerd.content.v1.content/blobs/sha256/a": "blob",
		"store/io.containerd.metadata.v1.bolt/meta.db":          "meta",
		"node/usr/local/bin/kubelet":                            "new kubelet",
		"node/usr/local/bin/runc":                               "runc", // may be run by others no more
		"node/etc/new.conf":                                     "new",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestAnImageThatIsGoneIsToldOf(t *testing.T) {
	t.Parallel()
	from, to := images(t)
	if err := os.RemoveAll(to.Var); err != nil {
		t.Fatal(err)
	}
	if err := Send(io.Discard, from, to); err == nil || !strings.Contains(err.Error(), "read the container images of the node image") {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsReceivedTakesThePlaceOfWhatWasThere(t *testing.T) {
	t.Parallel()
	from, to := images(t)
	dir := filepath.Join(t.TempDir(), "deep", "renewal")
	put(t, dir, map[string]string{"node/usr/local/bin/left": "of a try before"})
	var sent bytes.Buffer
	if err := Send(&sent, from, to); err != nil {
		t.Fatal(err)
	}
	args := Receive()
	args[4], args[5] = dir, filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = &sent
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(dir + "/node/usr/local/bin/kubelet"); err != nil || string(text) != "new kubelet" {
		t.Errorf("kubelet %q, %v", text, err)
	}
	if _, err := os.Stat(dir + "/node/usr/local/bin/left"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was there before: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v: want it for root alone", info, err)
	}
}
