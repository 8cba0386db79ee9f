// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/manager"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// options are those of a plane in a new folder, on a free port.
func options(t *testing.T) Options {
	t.Helper()
	o := Options{Dir: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0"}
	o.Providers = []string{controllers.Certificates}
	return o
}

// TestStartThatFailsLeavesNothingRunning: the same options can be corrected and started
// again in the same process.
func TestStartThatFailsLeavesNothingRunning(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options) error
		want   string
	}{
		"an unknown provider": {func(o *Options) error { o.Providers = []string{"core", "aws"}; return nil }, `provider "aws" is not known: choose among [core kubeadm local certificates]`},
		"no port":             {func(o *Options) error { o.Listen = "127.0.0.1"; return nil }, "address to listen on: address 127.0.0.1: missing port in address"},
		"files for no etcd":   {func(o *Options) error { o.Etcd.Prefix = "/a"; return nil }, "certificates or a prefix for an external etcd are given, but no server"},
		"a file in its place": {func(o *Options) error { return os.WriteFile(o.Dir, nil, 0o600) }, "not a directory"},
	} {
		o := options(t)
		if err := tc.change(&o); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second would find a lock that the first left
			p, err := Start(t.Context(), o)
			if p != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", name, err, tc.want)
			}
		}
		if holder, runs, err := datadir.Running(datadir.Dir(o.Dir)); runs {
			t.Errorf("%s: it is held by %+v, %v", name, holder, err)
		}
	}
}

// TestWebhooksAreThoseOfThisProcess: planes of a shared store register one name, which
// each resolves to its own webhooks.
func TestWebhooksAreThoseOfThisProcess(t *testing.T) {
	t.Parallel()
	greeting := func(text string) net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
		return ln
	}
	own, other := greeting("own"), greeting("other")
	p := &Plane{leads: make(chan struct{})}
	const registered = "webhooks.capstan.internal:443"
	if _, err := p.dialWebhooks(t.Context(), "tcp", registered); err == nil || err.Error() != "the webhooks of this plane are starting" {
		t.Errorf("before they listen: %v", err)
	}
	p.webhooks.Store(new(own.Addr()))
	for address, want := range map[string]string{registered: "own", other.Addr().String(): "other"} {
		c, err := p.dialWebhooks(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if got, err := io.ReadAll(c); string(got) != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", address, got, err, want)
		}
		_ = c.Close()
	}
	if got, want := p.webhooksOf(), (manager.Webhooks{Listen: "127.0.0.1:0", Host: "webhooks.capstan.internal", Port: 443}); got != want {
		t.Errorf("of a shared store: got %+v, want %+v", got, want)
	}
	if got, want := (&Plane{}).webhooksOf(), (manager.Webhooks{Listen: "127.0.0.1:0"}); got != want {
		t.Errorf("of its own store: got %+v, want %+v", got, want)
	}
}

// TestFirstReasonEndsPlane: later errors are its consequences.
func TestFirstReasonEndsPlane(t *testing.T) {
	t.Parallel()
	p := &Plane{errs: make(chan error, 1)}
	first := errors.New("the disk is full")
	p.fail(first)
	p.fail(errors.New("no leader"))
	if err := <-p.Err(); !errors.Is(err, first) {
		t.Errorf("got %v", err)
	}
	select {
	case err := <-p.Err():
		t.Errorf("a second reason: %v", err)
	default:
	}
}

func TestStopStopsOnceInReverseOrder(t *testing.T) {
	t.Parallel()
	p := &Plane{}
	var order []string
	broken := errors.New("broken")
	for name, err := range []error{nil, broken, nil} {
		p.stack.Push(string(rune('a'+name)), func(context.Context) error {
			order = append(order, string(rune('a'+name)))
			return err
		})
	}
	for range 2 {
		if err := p.Stop(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v, want what the part reports", err)
		}
	}
	if got := strings.Join(order, ""); got != "cba" {
		t.Errorf("the order is %s", got)
	}
}

// TestBackupNeedsPlane: neither direction leaves a file that looks like a result.
func TestBackupNeedsPlane(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "backup"), filepath.Join(dir, "data")
	if _, err := Backup(t.Context(), data, file); err == nil {
		t.Error("a folder without a plane was saved")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the backup: %v", err)
	}
	if _, err := Restore(file, data, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a backup that does not exist: %v", err)
	}
	if err := os.WriteFile(file, []byte("no backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false} {
		if _, err := Restore(file, data, dryRun); err == nil {
			t.Error("any file is a backup")
		}
	}
	if entries, err := os.ReadDir(data); len(entries) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory has %v, %v", entries, err)
	}
}
