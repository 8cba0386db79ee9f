// SPDX-License-Identifier: Apache-2.0

package containermachines

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

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// put writes files below a folder, by their names.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), atomicfile.WriteProgram(to, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
}

// twoImages are two node images of which some files differ.
func twoImages(t *testing.T) (from, to Image) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir+"/from", map[string]string{"usr/local/bin/kubelet": "old kubelet", "usr/local/bin/runc": "runc", "etc/same.conf": "same"})
	put(t, dir+"/to", map[string]string{"usr/local/bin/kubelet": "new kubelet", "usr/local/bin/runc": "runc", "etc/same.conf": "same", "etc/new.conf": "new"})
	if err := os.Chmod(dir+"/to/usr/local/bin/runc", 0o700); err != nil {
		t.Fatal(err)
	}
	files := func(image string, names ...string) func() (map[string]string, error) {
		found := map[string]string{}
		for _, name := range names {
			found[name] = filepath.Join(dir, image, name)
		}
		return func() (map[string]string, error) { return found, nil }
	}
	from = Image{Node: files("from", "usr/local/bin/kubelet", "usr/local/bin/runc", "etc/same.conf")}
	to = Image{Node: files("to", "usr/local/bin/kubelet", "usr/local/bin/runc", "etc/same.conf", "etc/new.conf"), Var: dir + "/var"}
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
	from, to := twoImages(t)
	var sent bytes.Buffer
	if err := sendUpgrade(&sent, from, to); err != nil {
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
		"node/usr/local/bin/runc":                               "runc", // other users may no longer run it
		"node/etc/new.conf":                                     "new",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestMissingImageIsReported(t *testing.T) {
	t.Parallel()
	from, to := twoImages(t)
	if err := os.RemoveAll(to.Var); err != nil {
		t.Fatal(err)
	}
	if err := sendUpgrade(io.Discard, from, to); err == nil || !strings.Contains(err.Error(), "read the container images of the node image") {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsReceivedTakesThePlaceOfWhatWasThere(t *testing.T) {
	t.Parallel()
	from, to := twoImages(t)
	dir := filepath.Join(t.TempDir(), "deep", "renewal")
	put(t, dir, map[string]string{"node/usr/local/bin/left": "of a try before"})
	var sent bytes.Buffer
	if err := sendUpgrade(&sent, from, to); err != nil {
		t.Fatal(err)
	}
	args := receiveCommand()
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

// programs of a machine that only note that they were run.
const programs = `#!/bin/sh
echo "$(basename "$0") $*" | sed "s|$ROOT||g" >>"$ROOT/ran"
case "$(basename "$0") $*" in
containerd\ *) exec sleep 60 ;;
"ctr --address "*" list --quiet") printf 'sha256:1\nnew:1\nold:1\n' ;;
"ctr --namespace k8s.io images list --quiet") printf 'old:1\n' ;;
"ctr --address "*" export "*) [ ! -e "$ROOT/noexport" ] && : >"$8" ;;
kubeadm\ *) cat "$ROOT/usr/local/bin/kubelet" >>"$ROOT/ran"; [ ! -e "$ROOT/nokubeadm" ] ;;
esac
`

// renewed runs the script in a folder, and returns what was run, and what it wrote.
func renewed(t *testing.T, root string) (ran []string, output string, err error) {
	t.Helper()
	bin := filepath.Join(root, "bin")
	put(t, root, map[string]string{"run/x": "", "usr/local/bin/kubelet": "old kubelet\n"})
	for _, name := range []string{"containerd", "ctr", "systemctl", "pkill", "journalctl"} {
		put(t, bin, map[string]string{name: programs})
	}
	put(t, root+"/renewal", map[string]string{"node/usr/local/bin/kubeadm": programs, "node/usr/local/bin/kubelet": "new kubelet\n", "store/meta": ""})
	args := renewCommand("SystemVerification")
	args[4], args[5] = root+"/renewal", root+"/lock"
	cmd := exec.Command(args[0], append(args[1:], root)...)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "ROOT=" + root}
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(root + "/ran")
	if readErr != nil {
		t.Fatalf("%v: %s", readErr, out)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "containerd ") && !strings.HasSuffix(line, " version\n") { // whose number varies
			ran = append(ran, strings.TrimSpace(line))
		}
	}
	return ran, string(out), err
}

func TestKubeletIsChangedAfterWhatItStarts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	ran, out, err := renewed(t, root)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const there = "ctr --address /run/capstan-renewal/s --namespace k8s.io images "
	want := []string{
		"pkill --full ^containerd --config /run/capstan-renewal/",
		"ctr --namespace k8s.io images list --quiet",
		there + "list --quiet",
		there + "export --local /renewal/image.tar new:1",
		"ctr --namespace k8s.io images import --snapshotter overlayfs /renewal/image.tar",
		"kubeadm upgrade node --ignore-preflight-errors=SystemVerification",
		"old kubelet",
		"systemctl daemon-reload",
		"systemctl restart kubelet.service",
		"systemctl is-active --quiet kubelet.service",
	}
	if diff := cmp.Diff(want, ran); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if text, err := os.ReadFile(root + "/usr/local/bin/kubelet"); err != nil || string(text) != "new kubelet\n" {
		t.Errorf("kubelet %q, %v", text, err)
	}
	for _, gone := range []string{"renewal", "run/capstan-renewal"} {
		if _, err := os.Stat(filepath.Join(root, gone)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
}

func TestNothingIsReplacedWhenAStepFails(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"noexport", "nokubeadm"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			put(t, root, map[string]string{step: ""})
			ran, out, err := renewed(t, root)
			if err == nil {
				t.Fatalf("it went well: %v, %s", ran, out)
			}
			if text, err := os.ReadFile(root + "/usr/local/bin/kubelet"); err != nil || string(text) != "old kubelet\n" {
				t.Errorf("kubelet %q, %v", text, err)
			}
			if _, err := os.Stat(root + "/run/capstan-renewal"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what reads the images is left: %v", err)
			}
		})
	}
}
