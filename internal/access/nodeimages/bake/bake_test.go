// SPDX-License-Identifier: Apache-2.0

package bake

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containerd is run by root alone")
	}
}

// script is a program that stands in for containerd.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "containerd")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAContainerdThatEndsTellsWhy(t *testing.T) {
	asRoot(t)
	t.Parallel()
	err := Make(t.Context(), Options{Containerd: script(t, "echo no room left; exit 3")}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "containerd ended: exit status 3") || !strings.HasSuffix(err.Error(), "its log ends: no room left") {
		t.Errorf("got %v, want how it ended and what it said", err)
	}
}

func TestAContainerdThatIsNotThereIsNamed(t *testing.T) {
	asRoot(t)
	t.Parallel()
	err := Make(t.Context(), Options{Containerd: "/nonexistent/containerd"}, t.TempDir())
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
	// The first process of a pid namespace gets only the signals that it asks for.
	err := Make(ctx, Options{Containerd: script(t, "trap 'exit 0' TERM; sleep 1000 & wait")}, t.TempDir())
	if !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

func TestNothingButTheStoreIsLeft(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	files := map[string]bool{ // those that stay
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
