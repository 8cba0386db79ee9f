// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// TestMain lets this program act as a containerd that only responds.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "answer" {
		os.Exit(answer(os.Args[3]))
	}
	os.Exit(m.Run())
}

// answer accepts connections on the configured socket until it receives a signal.
func answer(config string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	text, err := os.ReadFile(config)
	_, at, ok := strings.Cut(string(text), "address = \"")
	socket, _, _ := strings.Cut(at, "\"")
	l, lerr := net.Listen("unix", socket)
	_, store, _ := strings.Cut(string(text), "root = \"")
	store, _, _ = strings.Cut(store, "\"")
	database := filepath.Join(store, "io.containerd.metadata.v1.bolt", "meta.db")
	err = errors.Join(err, lerr, os.MkdirAll(filepath.Dir(database), 0o700), os.WriteFile(database, nil, 0o600))
	if err != nil || !ok {
		fmt.Println(err, ok)
		return 1
	}
	defer func() { _ = l.Close() }()
	<-ended
	return 0
}

func TestImagesAreKeptOnceAlone(t *testing.T) {
	asRoot(t)
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	asked := filepath.Join(t.TempDir(), "asked")
	for name, tc := range map[string]struct{ ctr, want string }{
		"all goes well":     {"echo $5 $6 $7 >>" + asked, ""},
		"they cannot be":    {"[ $5 = images ] || { echo no such label; exit 1; }", "drop layers that are unpacked: exit status 1: no such label"},
		"one is no archive": {"[ $5 = content ] || { echo bad header; exit 1; }", "import a.tar: exit status 1: bad header"},
	} {
		err := preload{Containerd: script(t, "exec "+self+" answer \"$@\""), Ctr: script(t, tc.ctr), Archives: []string{"/a.tar", "/b.tar"}}.make(t.Context(), t.TempDir())
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	const want = "images import --snapshotter\nimages import --snapshotter\ncontent prune references\n"
	if text, err := os.ReadFile(asked); err != nil || string(text) != want {
		t.Errorf("asked %q, %v, want %q", text, err, want)
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containerd is run by root alone")
	}
}

// script returns a program that replaces containerd.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "containerd")
	if err := atomicfile.WriteProgram(file, []byte("#!/bin/sh\n"+text+"\n")); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestContainerdExitIsReportedWithReason(t *testing.T) {
	asRoot(t)
	t.Parallel()
	err := preload{Containerd: script(t, "echo no room left; exit 3")}.make(t.Context(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "containerd ended: exit status 3") || !strings.HasSuffix(err.Error(), "its log ends: no room left") {
		t.Errorf("got %v, want how it ended and what it said", err)
	}
}

func TestAContainerdThatIsNotThereIsNamed(t *testing.T) {
	asRoot(t)
	t.Parallel()
	err := preload{Containerd: "/nonexistent/containerd"}.make(t.Context(), t.TempDir())
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "start containerd") {
		t.Errorf("got %v, want that it is not there", err)
	}
}

func TestWhoIsInterruptedLeavesNoContainerd(t *testing.T) {
	asRoot(t)
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	// The first process of a pid namespace gets only the signals that it handles.
	err := preload{Containerd: script(t, "trap 'exit 0' TERM; sleep 1000 & wait")}.make(ctx, t.TempDir())
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

func TestBakeLeavesOnlyStore(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	files := map[string]bool{ // whether the file stays
		"io.containerd.metadata.v1.bolt/meta.db":             true,
		"io.containerd.content.v1.content/blobs/sha256/a":    true,
		"io.containerd.content.v1.content/ingest/b":          false,
		"io.containerd.snapshotter.v1.overlayfs/metadata.db": true,
		"io.containerd.snapshotter.v1.blockfile/x":           false,
		"tmpmounts/x": false,
	}
	for name := range files {
		file := filepath.Join(store, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tidy(store); err != nil {
		t.Fatal(err)
	}
	for name, stays := range files {
		if _, err := os.Stat(filepath.Join(store, name)); (err == nil) != stays {
			t.Errorf("%s: %v, stays: want %v", name, err, stays)
		}
	}
	if err := tidy(t.TempDir()); err == nil {
		t.Error("an empty store is whole")
	}
}
