// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// logged returns the lines of a plane's log that have this text.
func logged(t *testing.T, dir, text string) []string {
	t.Helper()
	b, err := os.ReadFile(datadir.Dir(dir).Log())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestKindsOfOthersDoNotDelayTheCollectorAtAStart(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	p := startOn(t, dir)
	c := connect(t, dir)
	for i := range 10 {
		if err := c.Create(t.Context(), testenv.Kind(fmt.Sprintf("g%d.example.com", i), "Widget")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	// A machine that is busy enough may be late without a fault, but not each time.
	for starts := 1; ; starts++ {
		if err := os.Remove(datadir.Dir(dir).Log()); err != nil {
			t.Fatal(err)
		}
		p = startOn(t, dir)
		synced(t, dir)
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		late := logged(t, dir, "timed out waiting for dependency graph builder")
		if len(late) == 0 {
			return
		}
		if starts == 5 {
			t.Fatalf("start %d logged %q", starts, late)
		}
	}
}

func TestAStopEndsTheWatchesOfOthers(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	p := startOn(t, dir)
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	for range 20 {
		w, err := clients.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			for range w.ResultChan() { // until the server ends it
			}
		})
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	ended.Wait()
	if got := logged(t, dir, "Failed to shutdown server"); len(got) > 0 {
		t.Errorf("the stop waited for the watches to no avail: %q", got)
	}
}

func TestSocketsOfAKilledPlaneAreSwept(t *testing.T) {
	testenv.OwnPlanes(t, 3)
	base, err := os.MkdirTemp("/tmp", "t") // short, that a socket's path fits
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	t.Setenv("TMPDIR", base)
	if err := os.MkdirAll(filepath.Join(base, "capstan-sockets-of-another", "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	folders := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(base, "capstan-sockets-*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	far := func(name string) string { return filepath.Join(base, strings.Repeat("long-", 20), name) }
	first := startOn(t, far("a"))
	if got := folders(); len(got) != 2 {
		t.Fatalf("folders %v, want that of the plane and what is not a plane's", got)
	}
	second := startOn(t, far("b"))
	if got := folders(); len(got) != 3 {
		t.Errorf("folders %v, want those of both planes", got)
	}
	put(t, far("a"), "still-there")
	first.Kill()
	third := startOn(t, far("c"))
	if got := folders(); len(got) != 3 {
		t.Errorf("folders %v: want that of the killed plane gone", got)
	}
	put(t, far("b"), "still-there")
	for _, p := range []*testenv.Process{second, third} {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	if got := folders(); len(got) != 1 {
		t.Errorf("folders %v after the stop: want what is not a plane's alone", got)
	}
}

// synced waits until the garbage collector has logged that it has all kinds.
func synced(t *testing.T, dir string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if len(logged(t, dir, "Garbage collector: all resource monitors have synced")) == 0 {
			return errors.New("the garbage collector does not know all kinds yet")
		}
		return nil
	})
}
